//! Documents as one HTML page that needs nothing else: no link, no script, light and dark.

use super::{Document, Part, Table, Tone};
use crate::canvas::{COLORS, escaped};

const PAGE: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}\
main{max-width:1180px;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.9rem;margin:0 0 .25rem}h2{font-size:1.3rem;margin:2.5rem 0 .5rem}\
p{max-width:75ch}.conclusion{padding:.9rem 1.1rem;border-left:4px solid var(--good);background:var(--card);font-weight:600;max-width:none}\
.conclusion.bad{border-color:var(--bad);color:inherit}figcaption{color:var(--quiet);font-size:.9rem;max-width:85ch}figure{margin:1.5rem 0}\
figure svg{width:100%;height:auto;display:block}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .55rem;text-align:left;border-bottom:1px solid var(--grid)}th{color:var(--quiet);font-weight:600;white-space:nowrap}\
.figure{text-align:right;white-space:nowrap}code{font-family:ui-monospace,monospace;font-size:.95em}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}";

impl Document {
    /// The whole page.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let body: String = self.parts.iter().map(part).collect();
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{COLORS}{PAGE}</style></head>\
             <body><main><h1>{title}</h1>{body}</main></body></html>\n"
        )
    }
}

fn part(part: &Part) -> String {
    match part {
        Part::Heading(heading) => format!("<h2>{}</h2>", marked_up(heading)),
        Part::Paragraph(paragraph) => format!("<p>{}</p>", marked_up(paragraph)),
        Part::List(entries) => {
            let entries = entries.iter().map(|entry| format!("<li>{}</li>", marked_up(entry)));
            format!("<ul>{}</ul>", entries.collect::<String>())
        }
        Part::Conclusion { sentence, good } => {
            let class = if *good { "conclusion" } else { "conclusion bad" };
            format!("<p class=\"{class}\">{}</p>", marked_up(sentence))
        }
        Part::Table(table) => rendered(table),
        Part::Chart(chart) => {
            let caption = escaped(&chart.caption);
            let svg = chart.svg.replacen("<svg ", &format!("<svg aria-label=\"{caption}\" "), 1);
            format!("<figure>{svg}<figcaption>{caption}</figcaption></figure>")
        }
    }
}

fn rendered(table: &Table) -> String {
    let figures: Vec<bool> =
        (0..table.columns.len()).map(|index| table.is_figures(index)).collect();
    let class = |index: usize, tone: Tone| {
        let tone = match tone {
            Tone::Plain => None,
            Tone::Good => Some("good"),
            Tone::Bad => Some("bad"),
        };
        let classes: Vec<&str> =
            figures[index].then_some("figure").into_iter().chain(tone).collect();
        if classes.is_empty() { String::new() } else { format!(" class=\"{}\"", classes.join(" ")) }
    };
    let mut html = "<div class=\"wide\"><table>".to_owned();
    if table.columns.iter().any(|column| !column.name.is_empty()) {
        let names = table.columns.iter().enumerate().map(|(index, column)| {
            format!("<th{}>{}</th>", class(index, Tone::Plain), marked_up(&column.name))
        });
        html.push_str(&format!("<tr>{}</tr>", names.collect::<String>()));
    }
    for row in &table.rows {
        let cells = row.iter().enumerate().map(|(index, cell)| {
            format!("<td{}>{}</td>", class(index, cell.tone), marked_up(&cell.text))
        });
        html.push_str(&format!("<tr>{}</tr>", cells.collect::<String>()));
    }
    html + "</table></div>"
}

/// Escaped, with `code` and **bold** text as elements.
fn marked_up(text: &str) -> String {
    enclosed(&enclosed(&escaped(text), "`", "code"), "**", "strong")
}

/// Every second piece between two marks as an element. A mark without its partner ends at the end.
fn enclosed(text: &str, mark: &str, element: &str) -> String {
    let pieces = text.split(mark).enumerate().map(|(index, piece)| match index % 2 {
        0 => piece.to_owned(),
        _ => format!("<{element}>{piece}</{element}>"),
    });
    pieces.collect()
}
