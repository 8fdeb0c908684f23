//! Documents as Markdown.

use super::{Document, Part, Table};

impl Document {
    /// Markdown. Charts are links to files beside it, each with the chart's name and `.svg`.
    pub fn markdown(&self) -> String {
        let parts: String = self.parts.iter().map(|part| format!("\n{}", markdown(part))).collect();
        format!("# {}\n{parts}", self.title)
    }
}

/// One part.
pub(super) fn markdown(part: &Part) -> String {
    match part {
        Part::Heading(heading) => format!("## {heading}\n"),
        Part::Paragraph(paragraph) => format!("{paragraph}\n"),
        Part::List(entries) => entries.iter().map(|entry| format!("* {entry}\n")).collect(),
        Part::Conclusion { sentence, .. } => format!("**{sentence}**\n"),
        Part::Table(table) => rendered(table),
        Part::Chart(chart) => format!("![{}]({}.svg)\n", chart.caption, chart.name),
    }
}

fn rendered(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let mut text = format!("| {} |\n|", names.join(" | "));
    for column in 0..names.len() {
        text += if table.is_figures(column) { "---:|" } else { "---|" };
    }
    for row in &table.rows {
        let cells = row.iter().map(|cell| cell.replace('|', "\\|").replace('\n', " "));
        text += &format!("\n| {} |", cells.collect::<Vec<_>>().join(" | "));
    }
    text + "\n"
}
