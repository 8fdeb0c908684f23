//! The report for people.

use std::fmt::Write;
use std::io::IsTerminal;

use super::summary::{Latency, OutcomeSummary};
use super::text_audit::audit;
use super::{Circumstances, Report};
use crate::failure::EXIT_CLEAN;

/// A generator this busy measures itself.
const GENERATOR_BUSY_SHARE: f64 = 0.8;

/// The whole report; the verdict is its last line.
pub fn render(report: &Report) -> String {
    let mut text = String::new();
    let color = Color::of_terminal();
    circumstances(&mut text, &report.circumstances);
    traffic(&mut text, report);
    outcomes(&mut text, report);
    audit(&mut text, report, color);
    let tint = if report.verdict.exit_code == EXIT_CLEAN { Color::green } else { Color::red };
    line(&mut text, &format!("\n{}", tint(color, &report.verdict.sentence)));
    text
}

fn circumstances(text: &mut String, about: &Circumstances) {
    let kind = if about.lab_item { "lab item" } else { "existing item" };
    line(
        text,
        &format!(
            "{} on {kind} {}, arbiter {}",
            about.strategies.join(", "),
            about.item_id,
            about.arbiter
        ),
    );
    let model = match (about.rate_per_second, about.seconds) {
        (Some(rate), Some(seconds)) => format!("open model, {rate} per second for {seconds} s"),
        _ => "closed model".to_owned(),
    };
    line(
        text,
        &format!(
            "  stock {}, buyers {}, requests {}, at once {} ({model})",
            grouped(about.stock.unsigned_abs()),
            grouped(u64::from(about.buyers)),
            grouped(about.requests as u64),
            grouped(about.concurrency as u64),
        ),
    );
    line(
        text,
        &format!(
            "  {} per purchase, limit {} per buyer, keys {}, retries up to {}, seed {}",
            about.quantity,
            about.per_buyer_limit,
            if about.keys { "always" } else { "never" },
            about.retries_max,
            about.seed
        ),
    );
    machine(text, about);
}

fn machine(text: &mut String, about: &Circumstances) {
    let count = about.instances.len();
    let durable = match about.database.flush_log_at_commit {
        Some(1) => "durable commits".to_owned(),
        Some(setting) => format!("NOT durable: innodb_flush_log_at_trx_commit = {setting}"),
        None => "durability unknown".to_owned(),
    };
    let plural = if count == 1 { "instance" } else { "instances" };
    line(
        text,
        &format!(
            "  {count} {plural}: {}; database {} ({durable})",
            about.instances.join(" "),
            about.database.version
        ),
    );
    let processor = &about.processor;
    let machine = processor
        .machine_share
        .map_or_else(String::new, |share| format!(", {:.0} % busy", share * 100.0));
    line(
        text,
        &format!(
            "  {} cores{machine}; the generator used {:.0} % of them ({:.2} s)",
            about.cores,
            processor.generator_share * 100.0,
            processor.generator_seconds
        ),
    );
    if processor.generator_share >= GENERATOR_BUSY_SHARE {
        line(text, "  the generator was short of processor time: its latencies are partly its own");
    }
}

fn traffic(text: &mut String, report: &Report) {
    let traffic = &report.traffic;
    line(
        text,
        &format!(
            "\nTraffic: {} answers in {:.3} s, {} retries",
            grouped(traffic.attempts),
            traffic.seconds,
            grouped(traffic.retries)
        ),
    );
    rate(text, "accepted", &traffic.accepted);
    rate(text, "refused", &traffic.refused);
    if let Some(per_second) = traffic.refused_per_second_once_sold_out {
        line(text, &format!("  once sold out, {} refusals per second", grouped(per_second as u64)));
    }
    if traffic.other.purchases > 0 {
        rate(text, "neither", &traffic.other);
    }
    if report.circumstances.model == "open" {
        line(
            text,
            &format!("  dropped (all connections busy, never sent): {}", grouped(traffic.dropped)),
        );
    }
    line(text, "\n  latency, ms               p50       p90       p99     p99.9       max");
    for (name, summary) in [
        ("accepted", &traffic.accepted),
        ("refused", &traffic.refused),
        ("neither", &traffic.other),
    ] {
        if summary.purchases > 0 {
            latency(text, &format!("{name}, from plan"), summary.from_plan);
            // Without waiting, retries and reconnects the two say the same.
            if summary.from_send != summary.from_plan {
                latency(text, &format!("{name}, from send"), summary.from_send);
            }
        }
    }
}

fn rate(text: &mut String, name: &str, summary: &OutcomeSummary) {
    line(
        text,
        &format!(
            "  {name:<9} {:>10}  in {:.3} s = {} per second",
            grouped(summary.purchases),
            summary.seconds,
            grouped(summary.per_second as u64)
        ),
    );
}

fn latency(text: &mut String, name: &str, latency: Latency) {
    let ms = |micros: u64| micros as f64 / 1e3;
    line(
        text,
        &format!(
            "  {name:<20}{:>9.2} {:>9.2} {:>9.2} {:>9.2} {:>9.2}",
            ms(latency.p50_us),
            ms(latency.p90_us),
            ms(latency.p99_us),
            ms(latency.p999_us),
            ms(latency.max_us)
        ),
    );
}

fn outcomes(text: &mut String, report: &Report) {
    line(text, "\n  answers   outcome      status  code");
    let several = report.circumstances.strategies.len() > 1;
    for row in &report.traffic.outcomes {
        let status = if row.status == 0 { "-".to_owned() } else { row.status.to_string() };
        let strategy = if several { format!("  ({})", row.strategy) } else { String::new() };
        line(
            text,
            &format!(
                "{:>9}   {:<11}  {status:>6}  {}{strategy}",
                grouped(row.attempts),
                row.outcome.as_str(),
                row.code
            ),
        );
    }
}

/// Colours for a terminal.
#[derive(Clone, Copy)]
pub struct Color {
    on: bool,
}

impl Color {
    /// On where a person reads.
    pub fn of_terminal() -> Self {
        Self { on: std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none() }
    }

    /// Text for a good result.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Text for a bad result.
    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    fn wrap(self, code: &str, text: &str) -> String {
        if self.on { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_owned() }
    }
}

/// Appends one line.
pub fn line(text: &mut String, content: &str) {
    writeln!(text, "{content}").expect("writing to a string does not fail");
}

/// `1234567` as `1,234,567`.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_grouped() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(1_234_567), "1,234,567");
    }
}
