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

#[cfg(test)]
mod tests {
    use std::io;
    use std::sync::{Arc, Mutex};

    use tracing_subscriber::fmt::MakeWriter;
    use tracing_subscriber::layer::SubscriberExt;

    use super::*;

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no panic").extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    impl MakeWriter<'_> for Lines {
        type Writer = Self;

        fn make_writer(&self) -> Self {
            self.clone()
        }
    }

    #[test]
    fn an_event_is_one_line_whatever_it_says() {
        let lines = Lines::default();
        let layer = tracing_subscriber::fmt::layer()
            .fmt_fields(EscapedFields::default())
            .with_writer(lines.clone())
            .with_ansi(false);
        let text = "x\r\nERROR forged\u{1b}[31m\u{85}\u{2028}y";
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let _span = tracing::info_span!("request", path = %text).entered();
            tracing::info!(why = %text, "refused: {text}");
        });
        let written = lines.0.lock().expect("no panic").clone();
        let written = String::from_utf8(written).expect("text");
        let line = written.strip_suffix('\n').expect("a whole line");
        assert!(!line.chars().any(breaks_a_line), "{line:?}");
        // In the span, in the message and in the field.
        assert_eq!(line.matches(r"x\r\nERROR forged").count(), 3, "{line}");
    }
}
