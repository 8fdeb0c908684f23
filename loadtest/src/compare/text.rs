//! The comparison for a terminal.

use super::figures::{Row, noise};
use super::result::{Comparison, place};
use super::verdict::Verdict;
use crate::report::text::{Color, line};

/// The whole report; the conclusion is its last line.
pub fn render(comparison: &Comparison) -> String {
    let color = Color::of_terminal();
    let mut text = String::new();
    for (name, value) in comparison.circumstances.rows() {
        line(&mut text, &format!("{name:<10} {value}"));
    }
    line(&mut text, &format!("each load  {}", comparison.shape.words()));
    for rows in comparison.places() {
        table(&mut text, &rows, color);
    }
    line(&mut text, "\nVerdicts");
    for judged in &comparison.strategies {
        let words = judged.verdict.words();
        line(
            &mut text,
            &format!(
                "  {:<24} {:<26} {}  {}",
                judged.card.name,
                judged.card.breaks_with.words(),
                tint(judged.verdict, words, color),
                judged.remark
            ),
        );
    }
    let sentence = &comparison.sentence;
    let conclusion =
        if comparison.exit_code == 0 { color.green(sentence) } else { color.red(sentence) };
    line(&mut text, &format!("\n{conclusion}"));
    text
}

fn table(text: &mut String, rows: &[&Row], color: Color) {
    let Some(first) = rows.first() else { return };
    line(text, &format!("\n{}", place(first)));
    line(
        text,
        "  strategy                 accepted/s    (min..max) place  refused/s  p50 ms   p90   p99  p99.9   max retries  waits oversold verdict",
    );
    for row in rows {
        let ms = |micros: u64| micros as f64 / 1e3;
        let (rate, latency) = (row.accepted_per_second, row.latency);
        line(
            text,
            &format!(
                "  {:<24} {:>10.0} {:>13} {:>5} {:>10.0} {:>7.1} {:>5.0} {:>5.0} {:>6.0} {:>5.0} {:>7} {:>6.0} {:>8} {}",
                row.strategy,
                rate.median,
                format!("{:.0}..{:.0}", rate.min, rate.max),
                super::markdown::place_of(row),
                row.refused_per_second.median,
                ms(latency.p50_us),
                ms(latency.p90_us),
                ms(latency.p99_us),
                ms(latency.p999_us),
                ms(latency.max_us),
                row.retries,
                row.counters.lock_waits,
                row.oversold,
                tint(row.verdict, row.verdict.words(), color)
            ),
        );
    }
    line(text, &format!("  {}", noise(rows).replace('`', "")));
}

fn tint(verdict: Verdict, words: &str, color: Color) -> String {
    match verdict {
        Verdict::Clean | Verdict::Caught => color.green(words),
        Verdict::NotCaught => words.to_owned(),
        Verdict::NotJudged | Verdict::Broken => color.red(words),
    }
}
