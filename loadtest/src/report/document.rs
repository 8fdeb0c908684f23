//! The report of one run for people.

use ledger_audit::{Faults, Finding, Judgement, State};

use super::summary::{Latency, OutcomeSummary};
use super::{Report, RunCircumstances, ServiceSays, TrafficSummary};
use crate::document::{Document, Table, grouped};
use crate::failure::EXIT_CLEAN;

/// A generator that uses more of the machine than this measures itself.
const GENERATOR_SHARE_MAX: f64 = 0.8;

impl Report {
    /// The whole report; its last line is the verdict.
    pub fn document(&self) -> Document {
        let about = &self.circumstances;
        let kind = if about.options.item.is_none() { "lab item" } else { "existing item" };
        let strategies = about.options.strategies().join(", ");
        let mut document = Document::new(format!(
            "{strategies} on {kind} {}, arbiter {}",
            about.item_id, about.arbiter
        ));
        document.facts(circumstances(about));
        if about.processor.generator_share >= GENERATOR_SHARE_MAX {
            document.paragraph(
                "The generator was short of processor time: its latencies are partly its own.",
            );
        }
        traffic(&mut document, &self.traffic, about);
        document.heading("Audit");
        let says = &self.service_says;
        document.table(findings(&self.audit.findings, |finding| figures(finding, says)));
        document.list(remarks(&self.audit, &self.service_says));
        document.list(self.of_all_items());
        let sentence = &self.verdict.sentence;
        document.conclusion(sentence, self.verdict.exit_code == EXIT_CLEAN);
        document
    }
}

impl Report {
    /// The sums over all items, where there are several.
    fn of_all_items(&self) -> Option<String> {
        let all = &self.items;
        let faults = &all.faults;
        (all.judged > 1).then(|| {
            format!(
                "All {} items: {} units sold; oversold {}, undersold {}, lost {}, phantom {}, duplicates {}; items with half \
                 an order {}, items that are not clean {}; {} lines of unknown outcome were settled by a retry.",
                all.judged,
                grouped(all.units_sold.unsigned_abs()),
                faults.oversold,
                faults.undersold,
                faults.lost,
                faults.phantom,
                faults.duplicates,
                all.halved,
                all.unclean,
                all.settled_by_retry,
            )
        })
    }
}

fn circumstances(about: &RunCircumstances) -> Vec<(&'static str, String)> {
    let options = &about.options;
    let model = match (options.rate, options.seconds) {
        (Some(rate), Some(seconds)) => format!("open model, {rate} per second for {seconds} s"),
        _ => "closed model".to_owned(),
    };
    let durability = match about.database.flush_log_at_commit {
        Some(1) => "durable commits".to_owned(),
        Some(setting) => format!("NOT durable: innodb_flush_log_at_trx_commit = {setting}"),
        None => "durability unknown".to_owned(),
    };
    let processor = &about.processor;
    let mut facts = vec![
        (
            "load",
            format!(
                "stock {}, buyers {}, requests {}, connections {} ({model})",
                grouped(about.stock.unsigned_abs()),
                grouped(options.buyers.into()),
                grouped(about.requests as u64),
                grouped(options.concurrency.into()),
            ),
        ),
        (
            "purchases",
            format!(
                "limit {} per buyer, retries up to {}, seed {}",
                about.per_buyer_limit,
                options.retries_max(),
                about.seed
            ),
        ),
        ("instances", about.instances.join(" ")),
        ("database", format!("{} ({durability})", about.database.version)),
        (
            "machine",
            format!(
                "{} cores; the generator used {:.0} % of them ({:.2} s)",
                about.cores,
                processor.generator_share * 100.0,
                processor.generator_seconds
            ),
        ),
    ];
    let items = options.item_count();
    if items > 1 || options.batch > 1 || options.kills > 0 {
        let orders = format!(
            "{} of {items} items in each, {} in a request; the service was killed {} times",
            options.lines, options.batch, options.kills
        );
        facts.insert(2, ("orders", orders));
    }
    facts
}

fn traffic(document: &mut Document, traffic: &TrafficSummary, about: &RunCircumstances) {
    document.heading(format!(
        "Traffic: {} answers in {:.3} s, {} retries",
        grouped(traffic.attempts),
        traffic.seconds,
        grouped(traffic.retries)
    ));
    let outcomes = [
        ("accepted", &traffic.accepted),
        ("refused", &traffic.refused),
        ("neither", &traffic.other),
    ];
    document.table(rates(&outcomes));
    let once_sold_out = traffic.refused_per_second_once_sold_out.map(|per_second| {
        format!("Once sold out: {} refusals per second.", grouped(per_second as u64))
    });
    let dropped = about.options.rate.map(|_| {
        format!(
            "Dropped, because all connections were busy, and never sent: {}.",
            grouped(traffic.dropped)
        )
    });
    let lines = about.options.lines;
    let lines = (lines > 1).then(|| {
        let per_second = traffic.accepted.per_second * f64::from(lines);
        format!("{} lines of orders per second.", grouped(per_second as u64))
    });
    document.list(lines.into_iter().chain(once_sold_out).chain(dropped));
    document.heading("Latency in ms");
    document.table(latencies(&outcomes));
    document.heading("Answers");
    let mut answers = Table::new(["answers", "outcome", "status", "code", "strategy"]);
    for row in &traffic.outcomes {
        let status = if row.status == 0 { "-".to_owned() } else { row.status.to_string() };
        answers.row([
            grouped(row.attempts).as_str(),
            row.outcome.as_str(),
            &status,
            &row.code,
            &row.strategy,
        ]);
    }
    document.table(answers);
}

fn rates(outcomes: &[(&str, &OutcomeSummary)]) -> Table {
    let mut table = Table::new(["purchases", "number", "until, s", "per second"]);
    for (name, summary) in outcomes.iter().filter(|(_, summary)| summary.purchases > 0) {
        table.row([
            (*name).to_owned(),
            grouped(summary.purchases),
            format!("{:.3}", summary.seconds),
            grouped(summary.per_second as u64),
        ]);
    }
    table
}

fn latencies(outcomes: &[(&str, &OutcomeSummary)]) -> Table {
    let mut table = Table::new(["purchases", "p50", "p90", "p99", "p99.9", "max"]);
    let mut row = |name: String, latency: Latency| {
        let ms = |micros: u64| format!("{:.2}", micros as f64 / 1e3);
        table.row([
            name,
            ms(latency.p50_us),
            ms(latency.p90_us),
            ms(latency.p99_us),
            ms(latency.p999_us),
            ms(latency.max_us),
        ]);
    };
    for (name, summary) in outcomes.iter().filter(|(_, summary)| summary.purchases > 0) {
        row(format!("{name}, from the planned moment"), summary.from_plan);
        // Without waiting, retries and reconnects the two are equal.
        if summary.from_send != summary.from_plan {
            row(format!("{name}, from sending"), summary.from_send);
        }
    }
    table
}

/// A row for each finding of an audit.
pub fn findings<'a>(
    findings: impl IntoIterator<Item = &'a Finding>,
    figures: impl Fn(&Finding) -> String,
) -> Table {
    let mut table = Table::new(["", "result", "invariant", "figures"]);
    for finding in findings {
        let state = match finding.state {
            State::Holds => "holds",
            State::Broken => "**BROKEN**",
            State::NotJudged => "not judged",
        };
        table.row([finding.invariant, state, finding.claim, &figures(finding)]);
    }
    table
}

/// The figures of a finding; where nothing was judged, also what the service says.
fn figures(finding: &Finding, service_says: &ServiceSays) -> String {
    let detail = &finding.detail;
    let said = service_says.of(finding.invariant).filter(|_| finding.state == State::NotJudged);
    let Some((holds, said)) = said else { return detail.clone() };
    let result = match holds {
        Some(true) => "it holds",
        Some(false) => "it is BROKEN",
        None => "not judged",
    };
    format!("{detail}; the service says: {result} ({said})")
}

fn remarks(audit: &Judgement, service_says: &ServiceSays) -> Vec<String> {
    let mut remarks = Vec::new();
    for finding in &audit.findings {
        let examples = finding.examples.iter();
        remarks.extend(examples.map(|example| format!("{}: {example}", finding.invariant)));
    }
    if let ServiceSays::Nothing(reason) = service_says {
        remarks.push(format!("The service's own audit is not available: {reason}"));
    }
    let unknown = &audit.unknown;
    if unknown.purchases + unknown.settled_by_retry > 0 {
        remarks.push(format!(
            "Unknown outcomes: {} purchases, of which {} took effect and {} did not; {} more were settled by a retry.",
            unknown.purchases, unknown.took_effect, unknown.no_effect, unknown.settled_by_retry
        ));
    }
    let faults = [
        ("oversold", &audit.oversold),
        ("undersold", &audit.undersold),
        ("lost", &audit.lost),
        ("phantom", &audit.phantom),
        ("duplicates", &audit.duplicates),
        ("over the limit", &audit.over_limit),
    ];
    let counts = faults.map(|(name, faults)| format!("{name} {}", faults.count));
    remarks.push(format!("{} units sold; {}.", audit.units_live, counts.join(", ")));
    // The examples of the others stand under their invariants.
    for (name, Faults { examples, .. }) in [faults[0], faults[5]] {
        remarks.extend(examples.iter().map(|example| format!("{name}: {example}")));
    }
    remarks
}
