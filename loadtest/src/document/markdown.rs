//! Documents as Markdown.

use super::{Cell, Document, Part, Table};

impl Document {
    /// Markdown. Charts are links to files beside it, each with the chart's name and `.svg`.
    pub fn markdown(&self) -> String {
        let mut text = format!("# {}\n", self.title);
        for part in &self.parts {
            text.push('\n');
            text.push_str(&match part {
                Part::Heading(heading) => format!("## {heading}\n"),
                Part::Paragraph(paragraph) => format!("{paragraph}\n"),
                Part::List(entries) => entries.iter().map(|entry| format!("* {entry}\n")).collect(),
                Part::Conclusion { sentence, .. } => format!("**{sentence}**\n"),
                Part::Table(table) => rendered(table),
                Part::Chart(chart) => format!("![{}]({}.svg)\n", chart.caption, chart.name),
            });
        }
        text
    }
}

fn rendered(table: &Table) -> String {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let mut text = format!("| {} |\n|{}\n", names.join(" | "), "---|".repeat(names.len()));
    for row in &table.rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        text.push_str(&format!("| {} |\n", cells.join(" | ")));
    }
    text
}

fn cell(cell: &Cell) -> String {
    cell.text.replace('|', "\\|").replace('\n', " ")
}
