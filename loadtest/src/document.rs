//! Reports as data: headings, paragraphs, lists, tables and charts, rendered as plain text, as
//! Markdown and as one HTML page.
//!
//! Every report of this crate is made once as a [`Document`]; the three renderings cannot disagree.
//! Text may hold `` `code` `` and `**bold**`; plain text and HTML turn both into their own form. A cell in bold says
//! what should not be.

mod html;
mod markdown;
mod text;

use indicatif::HumanCount;

use crate::canvas::Chart;

pub use text::capitalised;

/// A report.
#[derive(Default)]
pub struct Document {
    title: String,
    parts: Vec<Part>,
}

enum Part {
    Heading(String),
    Paragraph(String),
    List(Vec<String>),
    Conclusion { sentence: String, good: bool },
    Table(Table),
    Chart(Chart),
}

/// A table. Columns whose cells are all figures are aligned at the right.
pub struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

/// The head of a column.
struct Column {
    name: String,
    /// Left out of plain text, where a line has little room.
    detail: bool,
}

impl Document {
    /// An empty report with a title.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), parts: Vec::new() }
    }

    /// Adds a heading.
    pub fn heading(&mut self, heading: impl Into<String>) {
        self.parts.push(Part::Heading(heading.into()));
    }

    /// Adds a paragraph.
    pub fn paragraph(&mut self, text: impl Into<String>) {
        self.parts.push(Part::Paragraph(text.into()));
    }

    /// Adds a list; nothing when it is empty.
    pub fn list(&mut self, entries: impl IntoIterator<Item = String>) {
        let entries: Vec<String> = entries.into_iter().collect();
        if !entries.is_empty() {
            self.parts.push(Part::List(entries));
        }
    }

    /// Adds the sentence that concludes the report.
    pub fn conclusion(&mut self, sentence: impl Into<String>, good: bool) {
        self.parts.push(Part::Conclusion { sentence: sentence.into(), good });
    }

    /// Adds a table; nothing when it has no rows.
    pub fn table(&mut self, table: Table) {
        if !table.rows.is_empty() {
            self.parts.push(Part::Table(table));
        }
    }

    /// Adds a table of names and values.
    pub fn facts<'a>(&mut self, facts: impl IntoIterator<Item = (&'a str, String)>) {
        let mut table = Table::new(["", ""]);
        for (name, value) in facts {
            table.row([name, &value]);
        }
        self.table(table);
    }

    /// Adds a chart: drawn in HTML, a link to its file in Markdown, nothing in plain text.
    pub fn chart(&mut self, chart: Chart) {
        self.parts.push(Part::Chart(chart));
    }
}

impl Table {
    /// A table with these columns and no rows.
    pub fn new<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let columns = names.into_iter().map(|name| Column { name: name.to_owned(), detail: false });
        Self { columns: columns.collect(), rows: Vec::new() }
    }

    /// Leaves these columns out of plain text.
    #[must_use]
    pub fn with_details(mut self, names: &[&str]) -> Self {
        for column in &mut self.columns {
            column.detail = names.contains(&column.name.as_str());
        }
        self
    }

    /// Adds a row with a cell for each column.
    pub fn row(&mut self, cells: impl IntoIterator<Item = impl ToString>) {
        let cells: Vec<String> = cells.into_iter().map(|cell| cell.to_string()).collect();
        debug_assert_eq!(cells.len(), self.columns.len(), "a cell for each column");
        self.rows.push(cells);
    }

    /// Whether a column holds figures alone: `1,200`, `12 of 40`, `9.5 (9.1 to 9.9)`, `-`.
    fn is_figures(&self, column: usize) -> bool {
        let is_figure = |cell: &String| {
            let digits = cell.replace(" of ", " ").replace(" to ", " ");
            !digits.contains(char::is_alphabetic)
        };
        self.rows.iter().all(|row| is_figure(&row[column]))
            && self.rows.iter().any(|row| row[column].contains(|c: char| c.is_ascii_digit()))
    }
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    HumanCount(number).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn html_is_escaped() {
        let mut document = Document::new("A report");
        document.paragraph("Of `x<y` and **more**.");
        let mut table = Table::new(["name", "count"]);
        table.row(["c", "**1,200**"]);
        document.table(table);
        let page = document.html();
        assert!(page.contains("<code>x&lt;y</code> and <strong>more</strong>"), "{page}");
        assert!(page.contains("<strong>1,200</strong></td>"), "{page}");
        assert!(!page.contains("<script") && !page.contains("http"), "{page}");
    }
}
