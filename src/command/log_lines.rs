//! The form of a log line as text: whatever a message or a field says, an event is one line.

use std::fmt::{self, Write};

use tracing_subscriber::field::RecordFields;
use tracing_subscriber::fmt::FormatFields;
use tracing_subscriber::fmt::format::{DefaultFields, Writer};

/// Writes the message and the fields of events and spans with their control characters escaped: what a
/// client sends begins no line and changes no colour. The form JSON escapes them by itself.
#[derive(Default)]
pub(super) struct EscapedFields(DefaultFields);

impl<'writer> FormatFields<'writer> for EscapedFields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut escaper = Escaper(writer);
        self.0.format_fields(Writer::new(&mut escaper), fields)
    }
}

struct Escaper<'writer>(Writer<'writer>);

impl Write for Escaper<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let mut rest = text;
        while let Some((at, found)) = rest.char_indices().find(|(_, it)| breaks_a_line(*it)) {
            self.0.write_str(&rest[..at])?;
            write!(self.0, "{}", found.escape_default())?;
            rest = &rest[at + found.len_utf8()..];
        }
        self.0.write_str(rest)
    }
}

/// Returns whether a character is one of control, or separates lines or paragraphs in Unicode.
fn breaks_a_line(character: char) -> bool {
    character.is_control() || matches!(character, '\u{2028}' | '\u{2029}')
}
