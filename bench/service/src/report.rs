//! The report of a bench: a document for people, JSON for programs, and a chart.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bench::Report;
use crate::figures::Ratio;
use crate::growth;
use crate::round::Measure;
use loadtest::document::{Cell, Document, Table, Tone};
use loadtest::failure::CannotJudge;
use loadtest::files;
use loadtest::spread::Spread;

/// What each measure is, and its unit.
fn name(measure: Measure) -> (&'static str, &'static str) {
    match measure {
        Measure::BareHttp => ("H: bare axum handler, 256 clients", "requests/s"),
        Measure::PerOrder => {
            ("T: one transaction per order, best of 1 to 64 connections", "orders/s")
        }
        Measure::RawLock => ("K: SET NX PX and compare-and-delete, one client", "cycles/s"),
        Measure::Refusals => ("refusals once sold out, 256 clients", "refusals/s"),
        Measure::Batch => ("mysql-batch, 256 clients, one item", "orders/s"),
        Measure::BatchFew => ("mysql-batch, 64 clients", "orders/s"),
        Measure::BatchMany => ("mysql-batch, 4,096 clients", "orders/s"),
        Measure::LockRedis => ("lock-redis, 256 clients, one item", "orders/s"),
        Measure::Overload => ("mysql-batch, 5 x its peak offered", "orders/s"),
        Measure::ComfortP99 => ("mysql-batch at 70 % of its peak, p99 from plan", "us"),
        Measure::BareP99 => ("H at the same rate, p99 from plan", "us"),
        Measure::LoneBatch => ("mysql-batch, one client, p50", "us"),
        Measure::LoneDirect => ("mysql-atomic, one client, p50", "us"),
    }
}

/// The report for people.
pub fn document(report: &Report) -> Document {
    let mut document =
        Document::new(format!("Bench of {}", report.circumstances.machine.started_at));
    document.facts(report.circumstances.rows());
    if !report.rounds.is_empty() {
        document.paragraph(format!("{} rounds, {} s a load.", report.rounds.len(), report.seconds));
        document.table(ratios(report));
        document.table(measures(report));
        document.table(work(report));
    }
    if let Some(locks) = &report.locks {
        document.heading("P6: the lock library alone");
        document.paragraph(locks["text"].as_str().map_or_else(|| locks.to_string(), str::to_owned));
    }
    if let Some(growth) = &report.growth {
        growth::text::add(&mut document, growth);
    }
    document.list(report.compared.iter().cloned());
    if report.void_because.is_empty() {
        let sentence = "every load was audited: nothing oversold, nothing lost, nothing doubled";
        document.conclusion(sentence, true);
    } else {
        document.conclusion(format!("VOID: {}", report.void_because.join("; ")), false);
    }
    document
}

fn ratios(report: &Report) -> Table {
    let mut table = Table::new(["id", "ratio", "goal", "median", "lowest to highest", ""]);
    for ratio in &report.figures.ratios {
        let Spread { min, median, max } = ratio.reached;
        let result = if ratio.met { ("reached", Tone::Good) } else { ("behind", Tone::Bad) };
        table.row([
            Cell::from(ratio.id),
            Cell::from(ratio.what),
            Cell::from(format!("{} {}", if ratio.at_most { "<=" } else { ">=" }, ratio.goal)),
            Cell::from(format!("{median:.2}")),
            Cell::from(format!("{min:.2} to {max:.2}")),
            Cell::toned(result.0, result.1),
        ]);
    }
    table
}

fn measures(report: &Report) -> Table {
    let mut table = Table::new(["measured", "median", "lowest to highest", "unit"]);
    for (measure, spread) in &report.figures.measures {
        let (what, unit) = name(*measure);
        let Spread { min, median, max } = spread;
        let range = format!("{min:.0} to {max:.0}");
        table.row([what, &format!("{median:.0}"), &range, unit]);
    }
    table
}

/// What one order or request costs: the median of the rounds.
fn work(report: &Report) -> Table {
    let mut table = Table::new([
        "per order or request",
        "commits",
        "disk flushes",
        "Redis commands",
        "busy cores",
    ]);
    for measure in report.figures.measures.keys() {
        let work = |field: fn(&crate::work::Counters) -> f64| {
            let rounds = report.rounds.iter().filter_map(|round| round.work.get(measure));
            let values: Vec<f64> = rounds.map(field).collect();
            if values.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.3}", Spread::of(values).median)
            }
        };
        table.row([
            name(*measure).0.to_owned(),
            work(|work| work.commits),
            work(|work| work.syncs),
            work(|work| work.redis_commands),
            busy_cores(report, *measure),
        ]);
    }
    table
}

/// Programs that kept at least a twentieth of a core busy, each with its cores.
fn busy_cores(report: &Report, measure: Measure) -> String {
    let rounds = || report.rounds.iter().filter_map(|round| round.cores.get(&measure));
    let programs: BTreeSet<&str> = rounds().flat_map(|cores| cores.keys().copied()).collect();
    let busy = programs.into_iter().filter_map(|program| {
        let cores = Spread::of(rounds().filter_map(|cores| cores.get(program).copied())).median;
        (cores >= 0.05).then(|| format!("{program} {cores:.2}"))
    });
    busy.collect::<Vec<_>>().join(", ")
}

/// Writes `report.md`, `report.json` and the charts of the measurements into `folder`.
pub fn write(folder: &Path, report: &Report) -> Result<(), CannotJudge> {
    fs::create_dir_all(folder)
        .map_err(|error| CannotJudge(format!("cannot make {}: {error}", folder.display())))?;
    files::write_json(&folder.join("report.json"), report)?;
    files::write(&folder.join("report.md"), &document(report).markdown())?;
    if !report.rounds.is_empty() {
        files::write(&folder.join("report.svg"), &chart(&report.figures.ratios))?;
    }
    if let Some(growth) = &report.growth {
        files::write(&folder.join("growth.svg"), &growth::chart::render(&growth.figures)?)?;
    }
    Ok(())
}

/// Each ratio as a bar against its goal, which is at the same place for all.
fn chart(ratios: &[Ratio]) -> String {
    const ROW: f64 = 34.0;
    const GOAL_AT: f64 = 420.0;
    const LEFT: f64 = 60.0;
    const RIGHT: f64 = 640.0;
    let scale = GOAL_AT - LEFT;
    let height = ROW * ratios.len() as f64 + 40.0;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 {height}' font-family='sans-serif' font-size='13'>\
         <style>text{{fill:#555}}@media(prefers-color-scheme:dark){{text{{fill:#bbb}}}}</style>\
         <text x='{GOAL_AT}' y='16' text-anchor='middle'>goal</text>"
    );
    for (row, ratio) in ratios.iter().enumerate() {
        let y = 26.0 + ROW * row as f64;
        // Longer is better for all of them.
        let share =
            |value: f64| if ratio.at_most { ratio.goal / value } else { value / ratio.goal };
        let x = |value: f64| (LEFT + scale * share(value)).clamp(LEFT, RIGHT);
        let color = if ratio.met { "#2a9d5c" } else { "#d08a1d" };
        let end = x(ratio.reached.median);
        let _ = write!(
            svg,
            "<text x='8' y='{:.1}'>{}</text><rect x='{LEFT}' y='{y:.1}' width='{:.1}' height='20' rx='3' fill='{color}'/>\
             <line x1='{:.1}' x2='{:.1}' y1='{:.1}' y2='{:.1}' stroke='#777' stroke-width='2'/>\
             <text x='{:.1}' y='{:.1}'>{:.2} of {}</text>",
            y + 15.0,
            ratio.id,
            end - LEFT,
            x(ratio.reached.min),
            x(ratio.reached.max),
            y + 10.0,
            y + 10.0,
            x(ratio.reached.max).max(x(ratio.reached.min)).max(end) + 8.0,
            y + 15.0,
            ratio.reached.median,
            ratio.goal
        );
    }
    let _ = write!(
        svg,
        "<line x1='{GOAL_AT}' x2='{GOAL_AT}' y1='20' y2='{:.1}' stroke='#888' stroke-dasharray='4 3'/></svg>",
        height - 12.0
    );
    svg
}

/// Reads a report of another benchmark.
pub fn read_json(path: &Path) -> Result<Value, CannotJudge> {
    let failed = |reason: String| CannotJudge(format!("{}: {reason}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    serde_json::from_str(&text).map_err(|error| failed(error.to_string()))
}
