//! The report: for people as text and Markdown, for programs as JSON, and a chart.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::bench::Report;
use crate::figures::Ratio;
use crate::growth;
use crate::round::Measure;
use loadtest::failure::CannotJudge;
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

/// For a terminal; also valid Markdown.
pub fn text(report: &Report) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    let _ = write_text(&mut text, report);
    text
}

fn write_text(out: &mut String, report: &Report) -> std::fmt::Result {
    let facts = &report.circumstances;
    writeln!(out, "# Bench of {}\n", facts.machine.started_at)?;
    for (name, value) in facts.rows() {
        writeln!(out, "* {name}: {value}")?;
    }
    writeln!(out)?;
    if !report.rounds.is_empty() {
        write_ratios(out, report)?;
    }
    if let Some(locks) = &report.locks {
        let rendered = locks["text"].as_str().map_or_else(|| locks.to_string(), str::to_owned);
        writeln!(out, "\n## P6: the lock library alone\n\n{rendered}")?;
    }
    if let Some(growth) = &report.growth {
        growth::text::write(out, growth)?;
    }
    for line in &report.compared {
        writeln!(out, "\n{line}")?;
    }
    if report.void_because.is_empty() {
        writeln!(out, "\nEvery load was audited: nothing oversold, nothing lost, nothing twice.")
    } else {
        writeln!(out, "\nVOID: {}", report.void_because.join("; "))
    }
}

fn write_ratios(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(out, "{} rounds, {} s a load.\n", report.rounds.len(), report.seconds)?;
    writeln!(out, "| id | ratio | goal | median | lowest to highest | |")?;
    writeln!(out, "|---|---|---|---|---|---|")?;
    for ratio in &report.figures.ratios {
        writeln!(
            out,
            "| {} | {} | {} {} | {:.2} | {:.2} to {:.2} | {} |",
            ratio.id,
            ratio.what,
            if ratio.at_most { "<=" } else { ">=" },
            ratio.goal,
            ratio.reached.median,
            ratio.reached.min,
            ratio.reached.max,
            if ratio.met { "reached" } else { "behind" }
        )?;
    }
    writeln!(out, "\n| measured | median | lowest to highest | unit |\n|---|---|---|---|")?;
    for (measure, spread) in &report.figures.measures {
        let (what, unit) = name(*measure);
        let Spread { min, median, max } = spread;
        writeln!(out, "| {what} | {median:.0} | {min:.0} to {max:.0} | {unit} |")?;
    }
    write_work(out, report)
}

/// Where the time goes, per order: the median of the rounds.
fn write_work(out: &mut String, report: &Report) -> std::fmt::Result {
    writeln!(
        out,
        "\n| per order or request | commits | disk flushes | Redis commands | busy cores |\n|---|---|---|---|---|"
    )?;
    for measure in report.figures.measures.keys() {
        let work = |field: fn(&super::work::Counters) -> f64| {
            let values =
                report.rounds.iter().filter_map(|round| round.work.get(measure).map(field));
            let values: Vec<f64> = values.collect();
            if values.is_empty() {
                "-".to_owned()
            } else {
                format!("{:.3}", Spread::of(values).median)
            }
        };
        let mut programs: Vec<&str> = report
            .rounds
            .iter()
            .flat_map(|round| {
                round.cores.get(measure).into_iter().flat_map(|cores| cores.keys().copied())
            })
            .collect();
        programs.sort_unstable();
        programs.dedup();
        let busy: Vec<String> = programs
            .into_iter()
            .map(|program| {
                let cores =
                    report.rounds.iter().filter_map(|round| round.cores.get(measure)?.get(program));
                (program, Spread::of(cores.copied()).median)
            })
            .filter(|(_, cores)| *cores >= 0.05)
            .map(|(program, cores)| format!("{program} {cores:.2}"))
            .collect();
        writeln!(
            out,
            "| {} | {} | {} | {} | {} |",
            name(*measure).0,
            work(|work| work.commits),
            work(|work| work.syncs),
            work(|work| work.redis_commands),
            busy.join(", ")
        )?;
    }
    Ok(())
}

/// Writes report.md, report.json and the charts of what was measured into `folder`.
pub fn write(folder: &Path, report: &Report) -> Result<(), CannotJudge> {
    let failed = |reason: String| CannotJudge(format!("{}: {reason}", folder.display()));
    fs::create_dir_all(folder).map_err(|error| failed(error.to_string()))?;
    let json = serde_json::to_string_pretty(report).map_err(|error| failed(error.to_string()))?;
    let mut files = vec![("report.md", text(report)), ("report.json", json)];
    if !report.rounds.is_empty() {
        files.push(("report.svg", chart(&report.figures.ratios)));
    }
    if let Some(growth) = &report.growth {
        files.push(("growth.svg", growth::chart::render(&growth.figures)?));
    }
    for (name, text) in files {
        fs::write(folder.join(name), text).map_err(|error| failed(error.to_string()))?;
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
