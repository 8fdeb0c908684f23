//! Documents as one HTML page that needs nothing else: no link, no script, light and dark.

use pulldown_cmark::html::push_html;
use pulldown_cmark::{Event, Options, Parser};

use super::markdown::markdown;
use super::{Document, Part};
use crate::canvas::{COLORS, escaped};

const PAGE: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}\
main{max-width:1180px;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.9rem;margin:0 0 .25rem}h2{font-size:1.3rem;margin:2.5rem 0 .5rem}\
p{max-width:75ch}figcaption{color:var(--quiet);font-size:.9rem;max-width:85ch}figure{margin:1.5rem 0}figure svg{width:100%;height:auto;display:block}\
table{display:block;overflow-x:auto;border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .55rem;text-align:left;border-bottom:1px solid var(--grid)}th{color:var(--quiet);font-weight:600;white-space:nowrap}th:empty{padding:0;border:0}\
code{font-family:ui-monospace,monospace;font-size:.95em}td strong{color:var(--bad);font-weight:600}";

impl Document {
    /// The whole page.
    pub fn html(&self) -> String {
        let title = escaped(&self.title);
        let mut body = String::new();
        for part in &self.parts {
            if let Part::Chart(chart) = part {
                let caption = escaped(&chart.caption);
                let named = format!("<svg aria-label=\"{caption}\" ");
                let svg = chart.svg.replacen("<svg ", &named, 1);
                body += &format!("<figure>{svg}<figcaption>{caption}</figcaption></figure>");
                continue;
            }
            let text = markdown(part);
            let events = Parser::new_ext(&text, Options::ENABLE_TABLES);
            let events = events.map(|event| match event {
                // No text of a report is meant as HTML.
                Event::Html(text) | Event::InlineHtml(text) => Event::Text(text),
                event => event,
            });
            push_html(&mut body, events);
        }
        format!(
            "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
             <title>{title}</title><style>{COLORS}{PAGE}</style></head>\
             <body><main><h1>{title}</h1>{body}</main></body></html>\n"
        )
    }
}
