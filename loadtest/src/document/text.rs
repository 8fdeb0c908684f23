//! Documents for a terminal.

use std::fmt::Write;
use std::io::IsTerminal;

use super::{Document, Part, Table};

/// A good conclusion is green; a bad one, and a cell in bold, is red and bold.
const GOOD: &str = "32";
const BAD: &str = "1;31";

impl Document {
    /// The text to print, with colours where standard output is a terminal and `NO_COLOR` is not set.
    pub fn for_terminal(&self) -> String {
        self.text(std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none())
    }

    /// Plain text, with colours if it `is_colored`.
    pub(super) fn text(&self, is_colored: bool) -> String {
        let mut text = format!("{}\n", self.title);
        for part in &self.parts {
            match part {
                Part::Heading(heading) => line(&mut text, &format!("\n{}", plain(heading))),
                Part::Paragraph(paragraph) => line(&mut text, &plain(paragraph)),
                Part::List(entries) => {
                    entries
                        .iter()
                        .for_each(|entry| line(&mut text, &format!("* {}", plain(entry))));
                }
                Part::Conclusion { sentence, good } => {
                    let color = is_colored.then_some(if *good { GOOD } else { BAD });
                    line(&mut text, &format!("\n{}", colored(sentence, color)));
                }
                Part::Table(table) => write_table(&mut text, table, is_colored),
                Part::Chart(_) => {}
            }
        }
        text
    }
}

fn write_table(text: &mut String, table: &Table, is_colored: bool) {
    let shown = table.columns.iter().enumerate().filter(|(_, column)| !column.detail);
    let columns: Vec<(usize, bool, usize)> = shown
        .map(|(index, column)| {
            let cells = table.rows.iter().map(|row| plain(&row[index]).chars().count());
            let width = cells.chain([column.name.chars().count()]).max().unwrap_or(0);
            (index, table.is_figures(index), width)
        })
        .collect();
    let padded = |cell: &str, figures: bool, width: usize| {
        if figures { format!("{cell:>width$}") } else { format!("{cell:<width$}") }
    };
    if table.columns.iter().any(|column| !column.name.is_empty()) {
        let names = columns
            .iter()
            .map(|(index, figures, width)| padded(&table.columns[*index].name, *figures, *width));
        line(text, &format!("  {}", names.collect::<Vec<_>>().join("  ")));
    }
    for row in &table.rows {
        let cells = columns.iter().map(|(index, figures, width)| {
            let cell = &row[*index];
            let color = (is_colored && cell.starts_with("**")).then_some(BAD);
            colored(&padded(&plain(cell), *figures, *width), color)
        });
        line(text, &format!("  {}", cells.collect::<Vec<_>>().join("  ")));
    }
}

fn colored(text: &str, color: Option<&str>) -> String {
    color.map_or_else(|| text.to_owned(), |color| format!("\u{1b}[{color}m{text}\u{1b}[0m"))
}

/// Without the marks of code and of bold text.
fn plain(text: &str) -> String {
    text.replace("**", "").replace('`', "")
}

fn line(text: &mut String, content: &str) {
    writeln!(text, "{}", content.trim_end()).expect("writing to a string does not fail");
}

/// `words` with a capital letter at the beginning.
pub fn capitalised(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
