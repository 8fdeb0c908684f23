//! The comparison as a report.

use super::figures::Row;
use super::result::Comparison;
use super::verdict::Verdict;
use crate::canvas::Chart;
use crate::document::{Document, Table};
use crate::options::Switch;

/// The whole report; its last part is the conclusion.
pub fn document(comparison: &Comparison, charts: Vec<Chart>) -> Document {
    let mut document = Document::new("The strategies side by side");
    let load = [("each load", comparison.load.clone())];
    document.facts(comparison.circumstances.rows().into_iter().chain(load));
    charts.into_iter().for_each(|chart| document.chart(chart));
    document.heading("In short");
    document.table(in_short(comparison));
    document.paragraph("Arbiter on; in parentheses the slowest and the fastest round. Latency is that of accepted purchases, retries included. The file report.json has the figures of every round and setup.");
    document.heading("Verdicts");
    document.table(verdicts(comparison));
    document.conclusion(&comparison.sentence, comparison.exit_code == 0);
    document
}

/// One line a strategy.
fn in_short(comparison: &Comparison) -> Table {
    let mut table = Table::new([
        "strategy",
        "accepted/s, one instance",
        "two instances",
        "p50 and p99, ms",
        "gate alone",
    ]);
    for judged in &comparison.strategies {
        let find = |instances| {
            comparison.rows.iter().find(|row| {
                row.strategy == judged.card.name
                    && (row.arbiter, row.instances) == (Switch::On, instances)
            })
        };
        let Some(one) = find(1) else { continue };
        let rate = |row: &Row| format!("{:.0}", row.accepted_per_second);
        let latency = one.latency;
        table.row([
            format!("`{}`", judged.card.name),
            rate(one),
            find(2).map_or_else(|| "-".to_owned(), rate),
            format!("{:.0}, {:.0}", latency.p50_us as f64 / 1e3, latency.p99_us as f64 / 1e3),
            found(judged.verdict),
        ]);
    }
    table
}

fn verdicts(comparison: &Comparison) -> Table {
    let mut table = Table::new(["strategy", "declared", "found", "remark"]);
    for judged in &comparison.strategies {
        table.row([
            format!("`{}`", judged.card.name),
            judged.card.breaks_with.describe().to_owned(),
            found(judged.verdict),
            judged.remark.clone(),
        ]);
    }
    table
}

fn found(verdict: Verdict) -> String {
    let words = verdict.describe();
    match verdict {
        Verdict::Clean | Verdict::Caught | Verdict::NotCaught => words.to_owned(),
        Verdict::NotJudged | Verdict::Broken => format!("**{words}**"),
    }
}
