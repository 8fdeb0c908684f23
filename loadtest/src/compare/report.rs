//! The comparison as a report.

use super::figures::Row;
use super::result::{Comparison, setup};
use super::verdict::Verdict;
use crate::canvas::Chart;
use crate::document::{Document, Table, capitalised};
use crate::options::Switch;
use crate::spread::Spread;

const LEGEND: &str = "Rates are medians of the rounds with their lowest and highest. Rank is the best and the worst rank by accepted purchases per second that the rounds leave possible: where it is a range, the differences are inside the noise. Latency is that of accepted purchases in milliseconds, retries included. Retries are attempts of clients after the first. Oversold, undersold, lost, phantom and duplicates are those of the worst round.";

/// A column of a table of figures: its name, whether a terminal has room for it, and its cells.
type Column = (&'static str, bool, fn(&Row) -> String);

const COLUMNS: [Column; 17] = [
    ("strategy", true, |row| format!("`{}`", row.strategy)),
    ("accepted/s", true, |row| whole(row.accepted_per_second.median)),
    ("min..max", true, |row| range(row.accepted_per_second)),
    ("rank", true, rank),
    ("refused/s", false, |row| whole(row.refused_per_second.median)),
    ("p50 ms", true, |row| ms(row.latency.p50_us)),
    ("p90", false, |row| ms(row.latency.p90_us)),
    ("p99", true, |row| ms(row.latency.p99_us)),
    ("p99.9", false, |row| ms(row.latency.p999_us)),
    ("max", true, |row| ms(row.latency.max_us)),
    ("retries", true, |row| row.retries.to_string()),
    ("oversold", true, |row| row.faults.oversold.to_string()),
    ("undersold", false, |row| row.faults.undersold.to_string()),
    ("lost", false, |row| row.faults.lost.to_string()),
    ("phantom", false, |row| row.faults.phantom.to_string()),
    ("duplicates", false, |row| row.faults.duplicates.to_string()),
    ("verdict", true, |row| found(row.verdict)),
];

/// The whole report; its last part is the conclusion.
pub fn document(comparison: &Comparison, charts: Vec<Chart>) -> Document {
    let mut document = Document::new("The strategies side by side");
    let load = [("each load", comparison.load.clone())];
    document.facts(comparison.circumstances.rows().into_iter().chain(load));
    charts.into_iter().for_each(|chart| document.chart(chart));
    document.heading("In short");
    document.table(in_short(comparison));
    document.paragraph("Arbiter on; in parentheses the slowest and the fastest round.");
    document.heading("Figures");
    document.paragraph(LEGEND);
    let setups = [(Switch::On, 1), (Switch::On, 2), (Switch::Off, 1), (Switch::Off, 2)];
    for rows in setups.map(|(arbiter, instances)| comparison.rows_of(arbiter, instances)) {
        let Some(first) = rows.first() else { continue };
        document.heading(capitalised(&setup(first)));
        document.table(figures(&rows));
    }
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

fn figures(rows: &[&Row]) -> Table {
    let details = COLUMNS.into_iter().filter(|(_, is_in_terminal, _)| !is_in_terminal);
    let details: Vec<&str> = details.map(|(name, ..)| name).collect();
    let mut table = Table::new(COLUMNS.map(|(name, ..)| name)).with_details(&details);
    for row in rows {
        table.row(COLUMNS.map(|(_, _, cell)| cell(row)));
    }
    table
}

fn whole(figure: f64) -> String {
    format!("{figure:.0}")
}

fn ms(micros: u64) -> String {
    format!("{:.1}", micros as f64 / 1e3)
}

fn range(spread: Spread) -> String {
    format!("{:.0}..{:.0}", spread.min, spread.max)
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

/// `3`, or `2-5` where the rounds do not tell.
fn rank(row: &Row) -> String {
    let (best, worst) = row.rank;
    if best == worst { best.to_string() } else { format!("{best}-{worst}") }
}
