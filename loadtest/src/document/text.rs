//! Documents for a terminal.

use std::fmt::Write;
use std::io::IsTerminal;

use super::{Document, Part, Table, Tone};

impl Document {
    /// Plain text, with colours where `color` is on.
    pub fn text(&self, color: Color) -> String {
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
                    let tone = if *good { Tone::Good } else { Tone::Bad };
                    line(&mut text, &format!("\n{}", color.toned(sentence, tone)));
                }
                Part::Table(table) => write_table(&mut text, table, color),
                Part::Chart(_) => {}
            }
        }
        text
    }
}

fn write_table(text: &mut String, table: &Table, color: Color) {
    let shown = table.columns.iter().enumerate().filter(|(_, column)| !column.detail);
    let columns: Vec<(usize, bool, usize)> = shown
        .map(|(index, column)| {
            let cells = table.rows.iter().map(|row| plain(&row[index].text).chars().count());
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
            color.toned(&padded(&plain(&cell.text), *figures, *width), cell.tone)
        });
        line(text, &format!("  {}", cells.collect::<Vec<_>>().join("  ")));
    }
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

/// Whether text has colours.
#[derive(Clone, Copy)]
pub struct Color {
    on: bool,
}

impl Color {
    /// On where standard output is a terminal and `NO_COLOR` is not set.
    pub fn of_terminal() -> Self {
        Self { on: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// No colours.
    pub fn off() -> Self {
        Self { on: false }
    }

    fn toned(self, text: &str, tone: Tone) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "1;31",
            Tone::Plain => return text.to_owned(),
        };
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}
