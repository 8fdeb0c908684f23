//! The comparison as a report.

use super::figures::{Row, noise};
use super::result::{Comparison, setup};
use super::verdict::Verdict;
use crate::canvas::Chart;
use crate::document::{Cell, Document, Table, Tone, capitalised};
use crate::options::Switch;

const LEGEND: &str = "Rates are medians of the rounds with their lowest and highest. *Rank* is the best and the worst rank by accepted purchases per second that the rounds leave possible: where it is a range, the differences are inside the noise. Latency is that of accepted purchases, retries included. *Retries* are attempts of clients after the first. *Lock waits* are acquires of a lock that did not get it at once, *wait* the mean time until they had it. *Refusals* and *repeats* are writes that the arbiter refused or tried again. Oversold, undersold, lost, phantom and duplicates are those of the worst round.";

/// The columns of a table of figures.
const COLUMNS: [&str; 21] = [
    "strategy",
    "accepted/s",
    "min..max",
    "rank",
    "refused/s",
    "p50 ms",
    "p90",
    "p99",
    "p99.9",
    "max",
    "retries",
    "lock waits",
    "wait ms",
    "refusals",
    "repeats",
    "oversold",
    "undersold",
    "lost",
    "phantom",
    "duplicates",
    "verdict",
];
/// Those for which a terminal has no room.
const DETAILS: [&str; 10] = [
    "refused/s",
    "p90",
    "p99.9",
    "wait ms",
    "refusals",
    "repeats",
    "undersold",
    "lost",
    "phantom",
    "duplicates",
];

/// The whole report; its last part is the conclusion.
pub fn document(comparison: &Comparison, charts: Vec<Chart>) -> Document {
    let mut document = Document::new("The strategies side by side");
    let load = [("each load", comparison.load.describe())];
    document.facts(comparison.circumstances.rows().into_iter().chain(load));
    charts.into_iter().for_each(|chart| document.chart(chart));
    document.heading("In short");
    document.table(in_short(comparison));
    document.paragraph("Arbiter on; in parentheses the slowest and the fastest round.");
    document.heading("Figures");
    document.paragraph(LEGEND.replace('*', ""));
    for rows in comparison.setups() {
        let Some(first) = rows.first() else { continue };
        document.heading(capitalised(&setup(first)));
        document.paragraph(noise(&rows));
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
            Cell::from(format!("`{}`", judged.card.name)),
            Cell::from(rate(one)),
            Cell::from(find(2).map_or_else(|| "-".to_owned(), rate)),
            Cell::from(format!(
                "{:.0}, {:.0}",
                latency.p50_us as f64 / 1e3,
                latency.p99_us as f64 / 1e3
            )),
            found(judged.verdict),
        ]);
    }
    table
}

fn figures(rows: &[&Row]) -> Table {
    let mut table = Table::new(COLUMNS).with_details(&DETAILS);
    for row in rows {
        let ms = |micros: u64| Cell::from(format!("{:.1}", micros as f64 / 1e3));
        let whole = |figure: f64| Cell::from(format!("{figure:.0}"));
        let rate = row.accepted_per_second;
        let latency = row.latency;
        let counters = row.counters;
        let mean_wait_ms = if counters.lock_waits > 0.0 {
            format!("{:.1}", counters.lock_wait_ms / counters.lock_waits)
        } else {
            "-".to_owned()
        };
        table.row([
            Cell::from(format!("`{}`", row.strategy)),
            whole(rate.median),
            Cell::from(format!("{:.0}..{:.0}", rate.min, rate.max)),
            Cell::from(rank(row)),
            whole(row.refused_per_second.median),
            ms(latency.p50_us),
            ms(latency.p90_us),
            ms(latency.p99_us),
            ms(latency.p999_us),
            ms(latency.max_us),
            Cell::from(row.retries),
            whole(counters.lock_waits),
            Cell::from(mean_wait_ms),
            whole(counters.arbiter_refusals),
            whole(counters.arbiter_retries),
            Cell::from(row.faults.oversold),
            Cell::from(row.faults.undersold),
            Cell::from(row.faults.lost),
            Cell::from(row.faults.phantom),
            Cell::from(row.faults.duplicates),
            found(row.verdict),
        ]);
    }
    table
}

fn verdicts(comparison: &Comparison) -> Table {
    let mut table = Table::new(["strategy", "declared", "found", "remark"]);
    for judged in &comparison.strategies {
        table.row([
            Cell::from(format!("`{}`", judged.card.name)),
            Cell::from(judged.card.breaks_with.describe()),
            found(judged.verdict),
            Cell::from(&judged.remark),
        ]);
    }
    table
}

fn found(verdict: Verdict) -> Cell {
    let tone = match verdict {
        Verdict::Clean | Verdict::Caught => Tone::Good,
        Verdict::NotCaught => Tone::Plain,
        Verdict::NotJudged | Verdict::Broken => Tone::Bad,
    };
    Cell::toned(verdict.describe(), tone)
}

/// `3`, or `2-5` where the rounds do not tell.
fn rank(row: &Row) -> String {
    let (best, worst) = row.rank;
    if best == worst { best.to_string() } else { format!("{best}-{worst}") }
}
