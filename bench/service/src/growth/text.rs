//! The curves in the report for people.

use super::Growth;
use super::figures::Figure;
use super::points::Curve;
use crate::measure::BATCH;
use crate::workload::{self, Workload};
use loadtest::document::{Document, Table, grouped};

/// Adds everything about the curves to a report.
pub fn add(document: &mut Document, growth: &Growth) {
    document.heading("Growth");
    document.paragraph(format!(
        "`{}` while something grows. A point is {} loads. Each load begins purchases for {} s as a \
         closed model: every connection sends its next purchase after its reply, so latency cannot \
         be below connections divided by orders/s. Each purchase has a buyer and a key of its own. \
         Figures are the median of the rounds.",
        BATCH, growth.rounds, growth.seconds
    ));
    for curve in Curve::ALL {
        let mut table = Table::new([
            curve.unit(),
            "orders/s",
            "lowest to highest",
            "p50 ms",
            "p99 ms",
            "orders a batch",
            "us of processor an order",
            "by others",
            "no order",
        ]);
        let own: Vec<&Figure> =
            growth.figures.iter().filter(|figure| figure.point.curve == curve).collect();
        if own.is_empty() {
            continue;
        }
        own.into_iter().for_each(|figure| table.row(row(figure)));
        document.heading(format!("By {}", curve.unit()));
        document.paragraph(curve.fixed());
        if curve == Curve::Items {
            document.paragraph(format!(
                "The skewed workload follows Zipf's law with exponent {}: the item of rank k is \
                 asked for in proportion to 1/k.",
                workload::EXPONENT
            ));
        }
        document.table(table);
    }
    document.list(growth.left_out.iter().map(|point| format!("Left out: {point}.")));
}

fn row(figure: &Figure) -> [String; 9] {
    let skewed = if figure.point.workload == Workload::Skewed { " skewed" } else { "" };
    let programs = figure.cpu_us.iter().filter(|(_, used)| used.median >= 0.5);
    let programs: Vec<String> =
        programs.map(|(program, used)| format!("{program} {:.0}", used.median)).collect();
    let rate = figure.accepted_per_second;
    [
        format!("{}{skewed}", grouped(u64::from(figure.point.size))),
        format!("{:.0}", rate.median),
        format!("{:.0} to {:.0}", rate.min, rate.max),
        format!("{:.1}", figure.p50_us.median / 1e3),
        format!("{:.1}", figure.p99_us.median / 1e3),
        format!("{:.1}", figure.batch.median),
        programs.join(", "),
        format!("{:.0} %", figure.others.median * 100.0),
        format!("{:.1} %", figure.not_accepted.median * 100.0),
    ]
}
