//! Texts that a spreadsheet would run as a formula, in a file with commas.
//!
//! A spreadsheet may read the file with another separator, `;` in many countries. Then the quotes of
//! a field that does not begin a cell protect nothing: what follows a `;` or a tab begins a cell of its own, and what
//! follows the end of a line begins a row. So each part between them is made harmless by an apostrophe in front of it.

use std::borrow::Cow;

/// What a spreadsheet takes for the beginning of a formula: signs, also full-width ones, which some
/// spreadsheets read like the plain ones.
const BEGINNINGS: [char; 8] = ['=', '+', '-', '@', '\u{ff1d}', '\u{ff0b}', '\u{ff0d}', '\u{ff20}'];
/// What may end a cell beside the comma: other separators, and ends of lines, which some spreadsheets also remove from
/// the front of a cell.
const SEPARATORS: [char; 4] = [';', '\t', '\n', '\r'];
/// What may stand in front of a formula.
const SKIPPED: [char; 4] = [' ', '"', '\u{a0}', '\u{3000}'];

/// A text in which no cell begins a formula.
pub fn guarded(text: &str) -> Cow<'_, str> {
    // What has a guard of its own gets a second one, so that each text comes back as it was.
    let has_to = |part: &str| begins_formula(part.trim_start_matches('\''));
    by_part(text, has_to, |part| format!("'{part}"))
}

/// The text from which [`guarded`] has made this one.
pub fn unguarded(text: &str) -> Cow<'_, str> {
    let rest = |part: &str| part.strip_prefix('\'').map(str::to_owned);
    let is_guarded =
        |part: &str| part.starts_with('\'') && begins_formula(part.trim_start_matches('\''));
    by_part(text, is_guarded, |part| rest(part).unwrap_or_default())
}

fn begins_formula(part: &str) -> bool {
    part.trim_start_matches(SKIPPED).starts_with(BEGINNINGS)
}

/// Changes each part of a text that has to be changed.
fn by_part<'a>(
    text: &'a str,
    has_to: impl Fn(&str) -> bool,
    change: impl Fn(&str) -> String,
) -> Cow<'a, str> {
    // Each part keeps the separator behind it.
    let parts = || text.split_inclusive(SEPARATORS);
    if !parts().any(&has_to) {
        return text.into();
    }
    let changed = parts().map(|part| if has_to(part) { change(part) } else { part.to_owned() });
    changed.collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_that_a_person_typed_becomes_a_formula() {
        for formula in [
            "=1+1",
            "+1",
            "-1",
            "@SUM(A1)",
            "=HYPERLINK(\"x\")",
            " =1",
            "\"=1",
            "\u{ff1d}1+1",
            "\u{ff0b}1",
            "\u{ff0d}1",
            "\u{ff20}SUM(A1)",
        ] {
            assert_eq!(guarded(formula), format!("'{formula}"));
            assert_eq!(unguarded(&guarded(formula)), formula);
        }
        for (typed, harmless) in [
            ("'=1", "''=1"),
            ("Lamp;=1+1", "Lamp;'=1+1"),
            ("Lamp; \"=1+1", "Lamp;' \"=1+1"),
            ("=1;-2;red", "'=1;'-2;red"),
            ("Lamp;\u{ff1d}1", "Lamp;'\u{ff1d}1"),
            ("\t=1", "\t'=1"),
            ("\r=1", "\r'=1"),
            ("\n=1", "\n'=1"),
            ("Lamp\n=1+1;x", "Lamp\n'=1+1;x"),
            ("Lamp\r\n=1;-2\t+3\n", "Lamp\r\n'=1;'-2\t'+3\n"),
            ("Lamp;\n\"=1\n'-2", "Lamp;\n'\"=1\n''-2"),
        ] {
            assert_eq!(guarded(typed), harmless);
            assert_eq!(unguarded(harmless), typed);
        }
        for fine in [
            "Lamp = light",
            "red; green",
            "",
            "'twas",
            "a-b;c+d",
            "\n\nLamp\n\tlight;\r\n",
            "Lamp\n '=1\n'",
        ] {
            assert_eq!(guarded(fine), fine);
            assert_eq!(unguarded(fine), fine);
        }
    }
}
