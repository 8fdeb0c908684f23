//! The text of a table's bytes: by its byte order mark, by the charset that the sender names, else in UTF-8.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, UTF_16BE, UTF_16LE};

/// A byte order mark, as a text has it.
const MARK: char = '\u{feff}';
/// The character with which DOS ended a text.
const END_OF_TEXT: char = '\u{1a}';
/// What stands in a text for bytes that have no meaning in its charset.
pub(super) const LOST: char = '\u{fffd}';
/// How files begin that are no tables in CSV, and what they are.
const NO_TABLES: [(&[u8], &str); 5] = [
    (b"PK\x03\x04", "a workbook (.xlsx, .ods)"),
    (b"\xd0\xcf\x11\xe0", "a workbook (.xls)"),
    (b"%PDF", "a PDF"),
    (b"<html", "a page in HTML"),
    (b"<table", "a page in HTML"),
];

/// The encoding with this name, such as `gbk` or `windows-1252`, if there is one.
pub fn charset_named(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(name.trim().as_bytes())
}

/// Reads the text. Bytes without a meaning become [`LOST`].
///
/// # Errors
/// A sentence about a file that is no text.
pub(super) fn text_of(bytes: &[u8], charset: Option<&'static Encoding>) -> Result<String, String> {
    let is = |(beginning, _): &&(&[u8], &str)| bytes.starts_with(beginning);
    if let Some((_, what)) = NO_TABLES.iter().find(is) {
        return Err(format!("This is {what}. Save it as CSV UTF-8 in the spreadsheet."));
    }
    let encoding = charset.or_else(|| unmarked_utf_16(bytes)).unwrap_or(UTF_8);
    // A mark at the beginning counts more than what the sender says.
    let text: Cow<'_, str> = encoding.decode(bytes).0;
    let text = text.trim_start_matches(MARK).trim_end_matches(END_OF_TEXT);
    Ok(text.to_owned())
}

/// The order of bytes of UTF-16 without a mark: names of columns begin with letters of ASCII.
fn unmarked_utf_16(bytes: &[u8]) -> Option<&'static Encoding> {
    match bytes {
        [1..=255, 0, 1..=255, 0, ..] => Some(UTF_16LE),
        [0, 1..=255, 0, 1..=255, ..] => Some(UTF_16BE),
        _ => None,
    }
}
