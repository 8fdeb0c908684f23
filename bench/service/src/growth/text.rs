//! The curves in the report for people.

use super::Growth;
use super::figures::Figure;
use super::points::{Curve, Point};
use crate::measure::BATCH;
use crate::workload::{self, Workload};
use loadtest::document::{Document, Table, capitalised, grouped};

/// `connections 256`, `items 100, skewed`.
pub fn name(point: &Point) -> String {
    let skewed = if point.workload == Workload::Skewed { ", skewed" } else { "" };
    format!("{} {}{skewed}", point.curve.unit(), grouped(u64::from(point.size())))
}

/// Adds everything about the curves to a report.
pub fn add(document: &mut Document, growth: &Growth) {
    document.heading("Growth");
    document.paragraph(format!(
        "`{}` while something grows. A point is {} loads. Each load begins purchases for {} s as a \
         closed model: every connection sends its next purchase after its reply, so latency cannot \
         be below connections divided by orders/s. Each purchase has a buyer and a key of its own. \
         Figures are the median of the rounds. Processor time is that of all programs on {} cores.",
        BATCH, growth.rounds, growth.seconds, growth.cores
    ));
    let is_measured = |curve: &Curve| growth.figures.iter().any(|figure| figure.point.curve == *curve);
    for curve in Curve::ALL.into_iter().filter(is_measured) {
        document.heading(format!("By {}", curve.unit()));
        document.paragraph(format!("{}.", capitalised(curve.fixed())));
        if curve == Curve::Items {
            document.paragraph(format!(
                "The skewed workload follows Zipf's law with exponent {}: the item of rank k is \
                 asked for in proportion to 1/k.",
                workload::EXPONENT
            ));
        }
        document.table(table(curve, growth));
    }
    document.list(growth.left_out.iter().map(|point| format!("Left out: {point}.")));
}

fn table(curve: Curve, growth: &Growth) -> Table {
    let mut table = Table::new([
        curve.unit(),
        "orders/s",
        "lowest to highest",
        "p50 ms",
        "p99 ms",
        "orders a batch",
        "commits an order",
        "reads an order",
        "us of processor an order",
        "machine busy",
        "by others",
        "no order",
    ]);
    for figure in growth.figures.iter().filter(|figure| figure.point.curve == curve) {
        table.row(row(figure));
    }
    table
}

fn row(figure: &Figure) -> [String; 12] {
    let skewed = if figure.point.workload == Workload::Skewed { " skewed" } else { "" };
    let programs = figure.cpu_us.iter().filter(|(_, used)| used.median >= 0.5);
    let programs: Vec<String> =
        programs.map(|(program, used)| format!("{program} {:.0}", used.median)).collect();
    let rate = figure.accepted_per_second;
    [
        format!("{}{skewed}", grouped(u64::from(figure.point.size()))),
        format!("{:.0}", rate.median),
        format!("{:.0} to {:.0}", rate.min, rate.max),
        format!("{:.1}", figure.p50_us.median / 1e3),
        format!("{:.1}", figure.p99_us.median / 1e3),
        format!("{:.1}", figure.batch.median),
        format!("{:.3}", figure.commits.median),
        format!("{:.3}", figure.reads.median),
        programs.join(", "),
        format!("{:.0} %", figure.machine.median * 100.0),
        format!("{:.0} %", figure.others.median * 100.0),
        format!("{:.1} %", figure.not_accepted.median * 100.0),
    ]
}
