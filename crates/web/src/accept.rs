//! The media types that a request accepts (RFC 9110, section 12.5.1).

use axum::http::HeaderMap;
use axum::http::header::ACCEPT;

use crate::address::split_unquoted;

/// How much a media type is wanted that has no quality of its own, in thousandths.
const WANTED: u16 = 1_000;
/// The most ranges of a request that are read.
const RANGES_MAX: usize = 64;

/// What a request accepts.
#[derive(Clone, Debug, Default)]
pub struct Accepted(Vec<MediaRange>);

/// A media type, or a pattern such as `text/*`, in small letters, and how much it is wanted.
#[derive(Clone, Debug)]
struct MediaRange {
    pattern: String,
    thousandths: u16,
}

impl Accepted {
    /// Reads the headers; `None` without an `Accept`, which accepts everything, as does one with an open quote.
    pub fn read(headers: &HeaderMap) -> Option<Self> {
        if !headers.contains_key(ACCEPT) {
            return None;
        }
        let values = headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok());
        let ranges = values.flat_map(|value| split_unquoted(value, ',').unwrap_or(vec!["*/*"]));
        Some(Self(ranges.take(RANGES_MAX).map(MediaRange::read).collect()))
    }

    /// How much a media type is wanted, in thousandths: as the most exact range says that it matches. 0: not at all.
    pub fn wants(&self, media_type: &str) -> u16 {
        let kind = media_type.split('/').next().unwrap_or_default();
        let patterns = [media_type, &format!("{kind}/*"), "*/*"];
        let find = |pattern: &str| self.0.iter().find(|range| range.pattern == pattern);
        patterns.into_iter().find_map(find).map_or(0, |range| range.thousandths)
    }
}

impl MediaRange {
    fn read(text: &str) -> Self {
        let mut parts = split_unquoted(text, ';').unwrap_or_default().into_iter();
        let pattern = parts.next().unwrap_or_default().trim().to_ascii_lowercase();
        let quality = parts.find_map(|part| {
            let (name, value) = part.split_once('=')?;
            name.trim().eq_ignore_ascii_case("q").then(|| thousandths(value.trim()))
        });
        Self { pattern, thousandths: quality.unwrap_or(WANTED) }
    }
}

/// A quality such as `0.8` in thousandths. What is none counts as 1.
fn thousandths(quality: &str) -> u16 {
    let (whole, decimals) = quality.split_once('.').unwrap_or((quality, ""));
    if whole != "0" {
        return WANTED;
    }
    let digits = format!("{decimals:0<3}");
    digits.get(..3).and_then(|digits| digits.parse().ok()).unwrap_or(WANTED)
}
