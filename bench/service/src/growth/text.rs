//! The curves as Markdown, which also reads well in a terminal.

use std::fmt::Write;

use super::figures::Figure;
use super::points::{Curve, Point, Workload};
use super::{Growth, load, workload};
use loadtest::report::text::grouped;

/// `connections 256`, `items 100, skewed`.
pub fn name(point: &Point) -> String {
    let skewed = if point.workload == Workload::Skewed { ", skewed" } else { "" };
    format!("{} {}{skewed}", point.curve.unit(), grouped(u64::from(point.size())))
}

/// Writes everything about the curves.
pub fn write(out: &mut String, growth: &Growth) -> std::fmt::Result {
    writeln!(
        out,
        "\n## Growth\n\n`{}` while something grows. A point is {} loads, each begins purchases for \
         {} s as a closed model: every connection sends its next purchase after its reply, so \
         latency cannot be below connections divided by orders/s. Each purchase has a buyer and a \
         key of its own. Figures are the median of the rounds. Processor time is that of all \
         programs on {} cores, connecting included.",
        load::STRATEGY,
        growth.rounds,
        growth.seconds,
        growth.cores
    )?;
    for (curve, lines) in &growth.explained {
        write_curve(out, *curve, growth)?;
        for line in lines {
            writeln!(out, "\n* {line}")?;
        }
    }
    for line in &growth.left_out {
        writeln!(out, "\nLeft out: {line}.")?;
    }
    Ok(())
}

fn write_curve(out: &mut String, curve: Curve, growth: &Growth) -> std::fmt::Result {
    writeln!(out, "\n### By {}\n\n{}.", curve.unit(), capitalised(curve.fixed()))?;
    if curve == Curve::Items {
        writeln!(
            out,
            "Skewed workload follows Zipf's law with exponent {}: the item of rank k is asked for in \
             proportion to 1/k.",
            workload::EXPONENT
        )?;
    }
    writeln!(
        out,
        "\n| {} | orders/s | lowest to highest | p50 ms | p99 ms | orders a batch | commits an order \
         | reads an order | us of processor an order | machine busy | by others | no order |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|",
        curve.unit()
    )?;
    for figure in growth.figures.iter().filter(|figure| figure.point.curve == curve) {
        write_row(out, figure)?;
    }
    Ok(())
}

fn write_row(out: &mut String, figure: &Figure) -> std::fmt::Result {
    let skewed = if figure.point.workload == Workload::Skewed { " skewed" } else { "" };
    let programs = figure.cpu_us.iter().filter(|(_, used)| used.median >= 0.5);
    let programs: Vec<String> =
        programs.map(|(program, used)| format!("{program} {:.0}", used.median)).collect();
    let rate = figure.accepted_per_second;
    writeln!(
        out,
        "| {}{skewed} | {:.0} | {:.0} to {:.0} | {:.1} | {:.1} | {:.1} | {:.3} | {:.3} | {} | \
         {:.0} % | {:.0} % | {:.1} % |",
        grouped(u64::from(figure.point.size())),
        rate.median,
        rate.min,
        rate.max,
        figure.p50_us.median / 1e3,
        figure.p99_us.median / 1e3,
        figure.batch.median,
        figure.commits.median,
        figure.reads.median,
        programs.join(", "),
        figure.machine.median * 100.0,
        figure.others.median * 100.0,
        figure.not_accepted.median * 100.0
    )
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
