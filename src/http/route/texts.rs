//! Checks of the texts of an item: they must be visible, and look the same on every page.

use axum::http::uri::Authority;

use crate::http::problems;
use shop_domain::{Item, username};
use web::problem::Problem;
use web::too_long;

/// The longest address of a picture, in bytes: that of content networks with signatures.
const IMAGE_URL_LENGTH_MAX: usize = 2_048;
/// A printable character that shows nothing.
const BRAILLE_BLANK: char = '\u{2800}';

/// Checks a name and trims it: one line with at least one visible character.
///
/// # Errors
/// 422 `invalid_text`.
pub(super) fn name(typed: &str) -> Result<String, Problem> {
    let name = typed.trim();
    fits("name", name.chars().count(), Item::NAME_LENGTH_MAX)?;
    let is_one_line = !name.chars().any(|c| c.is_control() || is_separator(c));
    let is_visible = name
        .chars()
        .any(|c| !username::is_invisible(c) && !c.is_whitespace() && c != BRAILLE_BLANK);
    if is_one_line && is_visible && !changes_direction(name) {
        return Ok(name.to_owned());
    }
    let detail = format!(
        "Send a name of one line with 1 to {} printable characters, at least one of them visible.",
        Item::NAME_LENGTH_MAX
    );
    Err(problems::INVALID_TEXT.detail(detail))
}

/// Checks a description and trims it: lines of printable characters; it may be empty.
///
/// # Errors
/// 422 `invalid_text`.
pub(super) fn description(typed: &str) -> Result<String, Problem> {
    let description = typed.trim();
    fits("description", description.chars().count(), Item::DESCRIPTION_LENGTH_MAX)?;
    let is_printable = !description.chars().any(|c| c.is_control() && c != '\n');
    if is_printable && !changes_direction(description) {
        return Ok(description.to_owned());
    }
    let detail = format!(
        "Send a description of at most {} printable characters.",
        Item::DESCRIPTION_LENGTH_MAX
    );
    Err(problems::INVALID_TEXT.detail(detail))
}

/// Checks the address of a picture: a path of this site, or an https address without a user.
///
/// # Errors
/// 422 `invalid_text`.
pub(super) fn image_url(url: String) -> Result<String, Problem> {
    fits("image_url", url.len(), IMAGE_URL_LENGTH_MAX)?;
    // Browsers read a backslash as a slash, so `/\host` would be another host.
    let is_plain = url.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    let is_ours = url.starts_with('/') && !url.starts_with("//");
    let is_foreign = url.strip_prefix("https://").is_some_and(names_a_host);
    if is_plain && (is_ours || is_foreign) {
        return Ok(url);
    }
    let detail = "Send image_url as a path of this site or an https address without a user.";
    Err(problems::INVALID_TEXT.detail(detail))
}

/// Refuses a text that is longer than its column, and names it.
fn fits(field: &str, length: usize, most: usize) -> Result<(), Problem> {
    if length <= most {
        return Ok(());
    }
    Err(problems::INVALID_TEXT.detail(too_long(field, length, most)))
}

/// Whether an address after `https://` starts with a host name and perhaps a port, without a user.
fn names_a_host(rest: &str) -> bool {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let parsed = authority.parse::<Authority>();
    !authority.contains('@')
        && parsed.is_ok_and(|authority| {
            let has_port = authority.as_str().len() > authority.host().len();
            !authority.host().is_empty() && (!has_port || authority.port_u16().is_some())
        })
}

/// Whether a character separates lines or paragraphs and is not a control character.
fn is_separator(character: char) -> bool {
    matches!(character, '\u{2028}' | '\u{2029}')
}

/// Whether a text changes its direction of writing (Unicode embeddings, overrides and isolates).
fn changes_direction(text: &str) -> bool {
    text.chars().any(|c| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_ours_or_of_a_plain_https_address() {
        // Browsers read a backslash as a slash, so the first five lead to another host.
        let refused = r"/\evil.example/x.png \\evil.example/x.png /pictures\x.png https:\\evil.example/x.png
             https://shop.example\@evil.example/x.png https://user:password@shop.example/x.png
             https://user@shop.example/x.png https://@shop.example/x.png https:///x.png https:// https://:443/x.png
             https://shop.example:port/x.png //evil.example/x.png http://shop.example/x.png javascript:alert(1)";
        for url in refused.split_whitespace().chain(["/with space.png", ""]) {
            assert!(image_url(url.to_owned()).is_err(), "{url}");
        }
        let taken = "/pictures/x.png /x.png?of=a@b https://shop.example/x.png https://[2001:db8::1]/x.png \
             https://shop.example:8443/a@b.png?c=d@e https://shop.example";
        for url in taken.split(' ') {
            assert!(image_url(url.to_owned()).is_ok(), "{url}");
        }
    }

    #[test]
    fn a_name_is_one_line_that_can_be_seen() {
        let unseen = "\u{200b}|\u{200b}\u{200d}\u{feff}|\u{3164}|\u{2800}| \u{2060} ";
        let lines = "two\nlines|two\r\nlines|two\u{2028}lines|two\u{2029}lines|two\u{85}lines|a\ttab|a\u{7}bell";
        let turned = "turned \u{202e}round|turned \u{2067}round";
        for typed in [unseen, lines, turned].into_iter().flat_map(|texts| texts.split('|')) {
            assert!(name(typed).is_err(), "{typed:?}");
        }
        for typed in
            "A thing|限量版|Чай|a family \u{1f468}\u{200d}\u{1f469}\u{200d}\u{1f467}".split('|')
        {
            assert!(name(typed).is_ok(), "{typed:?}");
        }
        // A description may have lines, and be empty; it turns nothing round either.
        assert!(description("two\nlines").is_ok() && description("").is_ok());
        assert!(description("turned \u{202e}round").is_err());
    }
}
