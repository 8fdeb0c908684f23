//! The comparison as one page that needs nothing else: no link, no script, light and dark.

use super::figures::noise;
use super::markdown::{COLUMNS, LEGEND, cells};
use super::result::{Comparison, place};
use super::verdict::Verdict;
use crate::canvas::{COLORS, Chart, STYLE};

const PAGE: &str = "\
*{box-sizing:border-box}body{margin:0;background:var(--page);color:var(--text);font:16px/1.5 system-ui,sans-serif}\
main{max-width:1180px;margin:0 auto;padding:2rem 1.25rem 4rem}h1{font-size:1.9rem;margin:0 0 .25rem}h2{font-size:1.3rem;margin:2.5rem 0 .5rem}\
p{max-width:75ch}.verdict{padding:.9rem 1.1rem;border-left:4px solid var(--good);background:var(--card);font-weight:600;max-width:none}\
.verdict.bad{border-color:var(--bad)}.quiet,figcaption{color:var(--quiet);font-size:.9rem}figure{margin:1.5rem 0}figcaption{max-width:85ch}\
figure svg{width:100%;height:auto;display:block}.wide{overflow-x:auto}table{border-collapse:collapse;font-size:.82rem;font-variant-numeric:tabular-nums}\
th,td{padding:.3rem .55rem;text-align:right;border-bottom:1px solid var(--grid);white-space:nowrap}th{color:var(--quiet);font-weight:600}\
th:first-child,td:first-child,th:last-child,td:last-child,.words td,.words th{text-align:left}.words td:last-child{white-space:normal}\
code{font-family:ui-monospace,monospace;font-size:.95em}.good{color:var(--good)}.bad{color:var(--bad);font-weight:600}";

/// The whole page.
pub fn render(comparison: &Comparison, charts: &[Chart]) -> String {
    let mut body = String::new();
    let tone = if comparison.exit_code == 0 { "verdict" } else { "verdict bad" };
    body.push_str("<h1>The strategies beside each other</h1>");
    body.push_str(&format!("<p class=\"{tone}\">{}</p>", escaped(&comparison.sentence)));
    body.push_str("<h2>Circumstances</h2><div class=\"wide\"><table class=\"words\">");
    let shape = [("each load", comparison.shape.words())];
    for (name, value) in comparison.circumstances.rows().into_iter().chain(shape) {
        body.push_str(&format!("<tr><th>{name}</th><td>{}</td></tr>", escaped(&value)));
    }
    body.push_str("</table></div>");
    for chart in charts {
        let caption = escaped(&chart.caption);
        let svg = chart.svg.replacen("<svg ", &format!("<svg aria-label=\"{caption}\" "), 1);
        body.push_str(&format!("<figure>{svg}<figcaption>{caption}</figcaption></figure>"));
    }
    body.push_str("<h2>Verdicts</h2><div class=\"wide\"><table class=\"words\">");
    body.push_str("<tr><th>strategy</th><th>declared</th><th>found</th><th>remark</th></tr>");
    for judged in &comparison.strategies {
        let row = format!(
            "<tr><td><code>{}</code></td><td>{}</td>{}<td>{}</td></tr>",
            escaped(&judged.card.name),
            judged.card.breaks_with.words(),
            verdict(judged.verdict),
            escaped(&judged.remark)
        );
        body.push_str(&row);
    }
    body.push_str("</table></div>");
    tables(&mut body, comparison);
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\
         <title>The strategies beside each other</title><style>{COLORS}{PAGE}{STYLE}</style></head>\
         <body><main>{body}</main></body></html>\n"
    )
}

fn tables(body: &mut String, comparison: &Comparison) {
    body.push_str(&format!(
        "<h2>Figures</h2><p class=\"quiet\">{}</p>",
        escaped(&LEGEND.replace('*', ""))
    ));
    for rows in comparison.places() {
        let Some(first) = rows.first() else { continue };
        let said = escaped(&noise(&rows).replace('`', ""));
        body.push_str(&format!(
            "<h2>{}</h2><p>{said}</p><div class=\"wide\"><table>",
            escaped(&place(first))
        ));
        let head: String = COLUMNS.iter().map(|name| format!("<th>{name}</th>")).collect();
        body.push_str(&format!("<tr>{head}</tr>"));
        for row in rows {
            let mut cells = cells(row);
            cells.pop();
            let name = escaped(&cells.remove(0).replace('`', ""));
            let figures: String =
                cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
            let found = verdict(row.verdict);
            body.push_str(&format!("<tr><td><code>{name}</code></td>{figures}{found}</tr>"));
        }
        body.push_str("</table></div>");
    }
}

fn verdict(verdict: Verdict) -> String {
    let tone = match verdict {
        Verdict::Clean => "good",
        Verdict::Caught | Verdict::NotCaught => "quiet",
        Verdict::NotJudged | Verdict::Broken => "bad",
    };
    format!("<td class=\"{tone}\">{}</td>", verdict.words())
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
