//! The report of a bench: a document for people, and JSON for programs.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Serialize;
use serde_json::Value;

use crate::figures::{Figures, Line};
use crate::goals::Bound;
use crate::processes::{BARE, DATABASE, GENERATOR, PROXY, REDIS, SERVICE};
use crate::sample::Round;
use loadtest::circumstances::Circumstances;
use loadtest::document::{Document, Table};
use loadtest::failure::{CannotJudge, OrCannotJudge};
use loadtest::files;
use loadtest::spread::Spread;

/// The programs that each line names.
const PROGRAMS: [&str; 4] = [SERVICE, DATABASE, REDIS, GENERATOR];

/// Everything about one bench.
#[derive(Debug, Serialize)]
pub struct Report {
    /// What the figures depend on.
    pub circumstances: Circumstances,
    /// The older build, as it says of itself.
    pub beside: Option<String>,
    /// How long one load was meant to last.
    pub seconds: f64,
    /// Medians, spreads and ratios.
    pub figures: Figures,
    /// Every single measurement.
    pub rounds: Vec<Round>,
    /// What the audits found; empty when every round was clean.
    pub void_because: Vec<String>,
    /// P6, by the lock library's own benchmark.
    pub locks: Option<Value>,
}

/// The report for people.
pub fn document(report: &Report) -> Document {
    let mut document =
        Document::new(format!("Bench of {}", report.circumstances.machine.started_at));
    document.facts(report.circumstances.rows());
    if let Some(beside) = &report.beside {
        document.paragraph(format!(
            "`new` is the program above; `old` is {beside}. Both were measured in turns in each \
             round, and `new / old` is made in each round."
        ));
    }
    document.paragraph(format!(
        "{} rounds, {} s a load. Each ratio is made in each round; the median of the rounds counts.",
        report.rounds.len(),
        report.seconds
    ));
    document.table(ratios(report));
    document.paragraph(
        "Processor time is microseconds for one order (of a refusal, or of H: for one request), \
         by `/proc`, from the first request to the last answer. *H's p99* is that of the bare handler \
         just before: where it is high, the machine was busy with something else.",
    );
    document.table(measures(report));
    document.list(unaccepted(report));
    if let Some(locks) = &report.locks {
        document.heading("P6: the lock library alone");
        document.paragraph(locks["text"].as_str().map_or_else(|| locks.to_string(), str::to_owned));
    }
    if report.void_because.is_empty() {
        let sentence = "every load was audited: nothing oversold, nothing lost, nothing doubled";
        document.conclusion(sentence, true);
    } else {
        document.conclusion(format!("VOID: {}", report.void_because.join("; ")), false);
    }
    document
}

fn ratios(report: &Report) -> Table {
    let mut columns = vec!["id", "ratio", "goal", "median", "lowest to highest"];
    if report.beside.is_some() {
        columns.extend(["old", "new / old"]);
    }
    columns.push("");
    let mut table = Table::new(columns);
    for ratio in &report.figures.ratios {
        let Spread { min, median, max } = ratio.reached;
        let goal = match ratio.goal.goal {
            Bound::AtLeast(goal) => format!(">= {goal}"),
            Bound::AtMost(goal) => format!("<= {goal}"),
            Bound::None => "0".to_owned(),
            Bound::Shown => String::new(),
        };
        let mut row = vec![
            ratio.goal.id.to_owned(),
            ratio.goal.what.to_owned(),
            goal,
            format!("{median:.2}"),
            format!("{min:.2} to {max:.2}"),
        ];
        if report.beside.is_some() {
            let text = |spread: Option<Spread>| {
                spread.map_or_else(String::new, |spread| format!("{:.2}", spread.median))
            };
            row.extend([ratio.old, ratio.over_old].map(text));
        }
        row.push(match ratio.met {
            Some(true) => "reached".to_owned(),
            Some(false) => "**behind**".to_owned(),
            None => String::new(),
        });
        table.row(row);
    }
    table
}

/// A line for each measure and build, and one for their ratio.
fn measures(report: &Report) -> Table {
    let mut columns = vec!["measured", "build", "median", "lowest to highest", "unit"];
    columns.extend(PROGRAMS);
    columns.extend(["H or proxy", "H's p99, us"]);
    let mut table = Table::new(columns);
    for line in &report.figures.lines {
        let Spread { min, median, max } = line.value;
        let mut row = vec![
            line.measure.to_string(),
            line.build.word().to_owned(),
            format!("{median:.0}"),
            format!("{min:.0} to {max:.0}"),
            line.measure.unit().to_owned(),
        ];
        row.extend(PROGRAMS.map(|program| used(&line.cpu_us, program, 1)));
        let noise = format!("{:.0} to {:.0}", line.noise_us.min, line.noise_us.max);
        row.extend([other(line), noise]);
        table.row(row);
        if let Some(over) = &line.over_old {
            let Spread { min, median, max } = over.value;
            let mut row = vec![
                line.measure.to_string(),
                "new / old".to_owned(),
                format!("{median:.2}"),
                format!("{min:.2} to {max:.2}"),
                String::new(),
            ];
            row.extend(PROGRAMS.map(|program| used(&over.cpu_us, program, 2)));
            row.extend([String::new(), String::new()]);
            table.row(row);
        }
    }
    table
}

/// The median of a program's processor time, where it is worth a word.
fn used(cpu_us: &BTreeMap<&'static str, Spread>, program: &str, digits: usize) -> String {
    let used = cpu_us.get(program).map_or(0.0, |used| used.median);
    if used < 0.05 { String::new() } else { format!("{used:.digits$}") }
}

fn other(line: &Line) -> String {
    let used = |program| line.cpu_us.get(program).map_or(0.0, |used: &Spread| used.median);
    let sum = used(BARE) + used(PROXY);
    if sum < 0.05 { String::new() } else { format!("{sum:.1}") }
}

/// Answers that were no order and no refusal of a sold-out item, by code, over all rounds.
fn unaccepted(report: &Report) -> Vec<String> {
    let mut lines = Vec::new();
    for line in &report.figures.lines {
        let mut codes: BTreeMap<&str, u64> = BTreeMap::new();
        let rounds = report.rounds.iter();
        let samples = rounds.filter_map(|round| round.sample(&line.measure, line.build));
        for (code, count) in samples.flat_map(|sample| &sample.not_accepted) {
            if code != "sold_out" && code != "limit_reached" {
                *codes.entry(code).or_default() += count;
            }
        }
        if !codes.is_empty() {
            let codes: Vec<String> =
                codes.into_iter().map(|(code, count)| format!("{count} {code}")).collect();
            let measure = &line.measure;
            let build = line.build.word();
            lines.push(format!("{measure}, {build}: no order was {}", codes.join(", ")));
        }
    }
    lines
}

/// Writes `report.md` and `report.json` into `folder`.
pub fn write(folder: &Path, report: &Report) -> Result<(), CannotJudge> {
    fs::create_dir_all(folder).or_cannot_judge(format_args!("cannot make {}", folder.display()))?;
    files::write_report(folder, "report", report, &document(report))
}

/// Reads a report of another benchmark.
pub fn read_json(path: &Path) -> Result<Value, CannotJudge> {
    let unreadable = || format!("{} cannot be read", path.display());
    let text = fs::read_to_string(path).or_cannot_judge(unreadable())?;
    serde_json::from_str(&text).or_cannot_judge(unreadable())
}
