//! The comparison as Markdown.

use std::fmt::Write;

use super::cell::Arbiter;
use super::figures::{Row, noise};
use super::result::{Comparison, place};

/// How to read the columns.
pub const LEGEND: &str = "Rates are medians of the rounds with their lowest and highest. *Place* is the best and worst rank by accepted purchases per second that the rounds leave possible: where it is a range, the differences are inside the noise. Latency is that of accepted purchases, retries included. *Retries* are attempts of clients after the first; *waits* are acquires of a lock that did not get it at once, *wait* their mean time until they had it; *refusals* and *again* are writes that the arbiter refused or tried again. Oversold, undersold, lost, phantom and duplicates are the worst round's.";

/// The whole report.
pub fn render(comparison: &Comparison) -> String {
    let mut text = String::from("# The strategies beside each other\n\n");
    push(&mut text, &format!("**{}**\n\n", comparison.sentence));
    push(&mut text, "| circumstance | |\n|---|---|\n");
    for (name, value) in comparison.circumstances.rows() {
        push(&mut text, &format!("| {name} | {value} |\n"));
    }
    push(&mut text, &format!("| each load | {} |\n\n", comparison.shape.words()));
    push(&mut text, "![Accepted purchases per second](throughput.svg)\n\n");
    push(&mut text, &in_short(comparison));
    push(&mut text, &format!("{LEGEND}\n"));
    for rows in comparison.places() {
        let Some(first) = rows.first() else { continue };
        push(&mut text, &format!("\n## {}\n\n{}\n\n", capital(&place(first)), noise(&rows)));
        push(&mut text, &format!("{}\n", head()));
        for row in rows {
            push(&mut text, &format!("| {} |\n", cells(row).join(" | ")));
        }
    }
    push(
        &mut text,
        "\n## Verdicts\n\n| strategy | declared | found | remark |\n|---|---|---|---|\n",
    );
    for judged in &comparison.strategies {
        let declared = judged.card.breaks_with.words();
        let (name, found, remark) =
            (&judged.card.name, judged.verdict.words(), judged.remark.replace('|', "/"));
        push(&mut text, &format!("| `{name}` | {declared} | {found} | {remark} |\n"));
    }
    text
}

/// One line a strategy, for those who want no more.
fn in_short(comparison: &Comparison) -> String {
    let mut text = String::from(
        "| strategy | accepted/s, one instance | two instances | p50 and p99, ms | gate alone |\n|---|---|---|---|---|\n",
    );
    for judged in &comparison.strategies {
        let name = &judged.card.name;
        let find = |instances| {
            comparison.rows.iter().find(|row| {
                row.strategy == *name && (row.arbiter, row.instances) == (Arbiter::On, instances)
            })
        };
        let Some(one) = find(1) else { continue };
        let rate = |row: &Row| {
            let rate = row.accepted_per_second;
            format!("{:.0} ({:.0} to {:.0})", rate.median, rate.min, rate.max)
        };
        let two = find(2).map_or_else(|| "-".to_owned(), rate);
        let ms = |micros: u64| micros as f64 / 1e3;
        let row = format!(
            "| `{name}` | {} | {two} | {:.0}, {:.0} | {} |\n",
            rate(one),
            ms(one.latency.p50_us),
            ms(one.latency.p99_us),
            judged.verdict.words()
        );
        push(&mut text, &row);
    }
    text.push_str("\nArbiter on; in parentheses the slowest and the fastest round.\n\n");
    text
}

/// The columns' names.
pub const COLUMNS: [&str; 21] = [
    "strategy",
    "accepted/s",
    "min..max",
    "place",
    "refused/s",
    "p50 ms",
    "p90",
    "p99",
    "p99.9",
    "max",
    "retries",
    "waits",
    "wait ms",
    "refusals",
    "again",
    "oversold",
    "undersold",
    "lost",
    "phantom",
    "duplicates",
    "verdict",
];

fn head() -> String {
    let line = COLUMNS.map(|_| "---").join("|");
    format!("| {} |\n|{line}|", COLUMNS.join(" | "))
}

/// One row, column by column.
pub fn cells(row: &Row) -> Vec<String> {
    let ms = |micros: u64| format!("{:.1}", micros as f64 / 1e3);
    let (rate, latency, counters) = (row.accepted_per_second, row.latency, row.counters);
    let mean_wait_ms = if counters.lock_waits > 0.0 {
        format!("{:.1}", counters.lock_wait_ms / counters.lock_waits)
    } else {
        "-".to_owned()
    };
    vec![
        format!("`{}`", row.strategy),
        format!("{:.0}", rate.median),
        format!("{:.0}..{:.0}", rate.min, rate.max),
        place_of(row),
        format!("{:.0}", row.refused_per_second.median),
        ms(latency.p50_us),
        ms(latency.p90_us),
        ms(latency.p99_us),
        ms(latency.p999_us),
        ms(latency.max_us),
        row.retries.to_string(),
        format!("{:.0}", counters.lock_waits),
        mean_wait_ms,
        format!("{:.0}", counters.arbiter_refusals),
        format!("{:.0}", counters.arbiter_retries),
        row.oversold.to_string(),
        row.undersold.to_string(),
        row.lost.to_string(),
        row.phantom.to_string(),
        row.duplicates.to_string(),
        row.verdict.words().to_owned(),
    ]
}

/// `3`, or `2-5` where the rounds do not tell.
pub fn place_of(row: &Row) -> String {
    let (best, worst) = row.place;
    if best == worst { best.to_string() } else { format!("{best}-{worst}") }
}

fn capital(words: &str) -> String {
    let (first, rest) = words.split_at(1);
    format!("{}{rest}", first.to_uppercase())
}

fn push(text: &mut String, part: &str) {
    text.write_str(part).expect("writing to a string does not fail");
}
