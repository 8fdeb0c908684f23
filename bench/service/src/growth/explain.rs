//! Where a curve is not flat, and what the figures say about why.
//!
//! Every sentence is made from figures of the points alone: what an order cost in processor time,
//! statements and commits, how large batches were, what was not accepted. Where they do not tell,
//! nothing is said.

use super::figures::Figure;
use super::points::Curve;
use super::text::name;
use crate::workload::{Draw, Workload};

/// A point that reaches this share of the reference is as good as it.
const FLAT: f64 = 0.85;
/// Costs that differ by less are alike.
const ALIKE: f64 = 1.15;
/// Processor time per order that is worth a word, in microseconds.
const CPU_US_MIN: f64 = 2.0;
/// Statements per order that are worth a word.
const STATEMENTS_MIN: f64 = 0.05;
/// A share of the machine that other programs may take without a word.
const OTHERS_MAX: f64 = 0.1;
/// A machine that is busy to this share has nothing left.
const FULL: f64 = 0.9;
/// A share of answers that were no order that is worth a word.
const NOT_ACCEPTED_MIN: f64 = 0.01;

/// What is to be said about one curve, a sentence or two a line.
pub fn curve(curve: Curve, figures: &[Figure]) -> Vec<String> {
    let own: Vec<&Figure> = figures.iter().filter(|figure| figure.point.curve == curve).collect();
    let Some(peak) = own.iter().copied().max_by(|left, right| {
        left.accepted_per_second.median.total_cmp(&right.accepted_per_second.median)
    }) else {
        return Vec::new();
    };
    let mut lines = Vec::new();
    // Connections only rise to a peak; items and instances have their simplest case to hold up to.
    let (reference, judged): (&Figure, Vec<&Figure>) = match curve {
        Curve::Connections => {
            lines.extend(rise(&own, peak));
            let beyond = own.iter().copied().filter(|one| one.point.size() > peak.point.size());
            (peak, beyond.collect())
        }
        _ => (own[0], own[1..].to_vec()),
    };
    let (flat, bent): (Vec<&Figure>, Vec<&Figure>) =
        judged.iter().partition(|figure| is_flat(figure, reference));
    if !judged.is_empty() && bent.is_empty() {
        lines.push(format!(
            "Flat: every point {} accepts at least {FLAT:.2} of {}.",
            if curve == Curve::Connections { "beyond the peak" } else { "after the first" },
            name(&reference.point)
        ));
    } else if !flat.is_empty() {
        let names: Vec<String> = flat.iter().map(|figure| name(&figure.point)).collect();
        lines.push(format!("As good as {}: {}.", name(&reference.point), names.join("; ")));
    }
    lines.extend(bent.iter().map(|figure| fall(figure, reference)));
    lines.extend(own.iter().filter_map(|figure| turned_away(figure)));
    lines
}

/// At or above the reference but for a little.
fn is_flat(figure: &Figure, reference: &Figure) -> bool {
    figure.accepted_per_second.median >= reference.accepted_per_second.median * FLAT
}

/// Why few connections cannot reach the peak.
fn rise(own: &[&Figure], peak: &Figure) -> Option<String> {
    let first = own.first().filter(|first| first.point.size() < peak.point.size())?;
    Some(format!(
        "The curve rises up to {}: a connection has one purchase at a time, so {} gets one order \
         per {:.1} ms (p50), and a batch holds no more orders than there are connections ({:.1} \
         orders a batch there, {:.1} at the peak). Beyond the peak each connection only waits \
         longer: p50 is about connections divided by orders/s.",
        name(&peak.point),
        name(&first.point),
        first.p50_us.median / 1e3,
        first.batch.median,
        peak.batch.median
    ))
}

/// What differs between a point and a better one.
fn fall(figure: &Figure, reference: &Figure) -> String {
    let ratio = figure.accepted_per_second.median / reference.accepted_per_second.median;
    let mut differs = Vec::new();
    for (program, used) in &figure.cpu_us {
        let before = reference.cpu_us.get(program).map_or(0.0, |used| used.median);
        if changed(used.median, before) && used.median.max(before) >= CPU_US_MIN {
            differs.push(format!("us of {program} {:.0} after {before:.0}", used.median));
        }
    }
    let each = [
        ("orders a batch", figure.batch.median, reference.batch.median),
        ("commits", figure.commits.median, reference.commits.median),
        ("reads", figure.reads.median, reference.reads.median),
    ];
    for (what, now, before) in each {
        if changed(now, before) && now.max(before) >= STATEMENTS_MIN {
            differs.push(format!("{what} {now:.2} after {before:.2}"));
        }
    }
    let differs =
        if differs.is_empty() { "nothing that is counted".to_owned() } else { differs.join(", ") };
    format!(
        "{} accepts {ratio:.2} of {}. What differs, for an order: {differs}. {}{}{}",
        name(&figure.point),
        name(&reference.point),
        verdict(figure, reference),
        skew(figure),
        noise(figure, reference)
    )
}

/// Whether it is work or waiting that holds a point back.
fn verdict(figure: &Figure, reference: &Figure) -> String {
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let others = figure.others.median.max(reference.others.median);
    if others > OTHERS_MAX {
        return format!(
            "Other programs took up to {} of the machine, so it may be they.",
            percent(others)
        );
    }
    let machine = percent(figure.machine.median);
    if figure.machine.median < FULL {
        return format!(
            "The machine was {machine} busy: it is waiting, and not work, that holds it back."
        );
    }
    let times = figure.cpu_us_all() / reference.cpu_us_all();
    format!("The machine was {machine} busy: an order takes {times:.2} times the processor time.")
}

/// A doubt that two rounds leave.
fn noise(figure: &Figure, reference: &Figure) -> &'static str {
    if figure.accepted_per_second.max < reference.accepted_per_second.min {
        return "";
    }
    " Some of its rounds were as good, so it may be noise; more rounds (--growth-rounds) tell."
}

/// The share of the item that is asked for most, where demand is skewed.
fn skew(figure: &Figure) -> String {
    if figure.point.workload == Workload::Uniform {
        return String::new();
    }
    let share = Draw::new(Workload::Skewed, figure.point.items).share_max();
    format!(" The item that is asked for most gets {:.0} % of the purchases.", share * 100.0)
}

/// Purchases that were no order.
fn turned_away(figure: &Figure) -> Option<String> {
    if figure.not_accepted.median < NOT_ACCEPTED_MIN {
        return None;
    }
    let codes: Vec<String> =
        figure.codes.iter().map(|(code, count)| format!("{code} {count}")).collect();
    Some(format!(
        "{}: {:.0} % of the answers were no order ({}).",
        name(&figure.point),
        figure.not_accepted.median * 100.0,
        codes.join(", ")
    ))
}

fn changed(now: f64, before: f64) -> bool {
    now > before * ALIKE || before > now * ALIKE
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::load;
    use super::*;

    /// A curve with these orders per second and microseconds of the service an order.
    fn figures(curve: Curve, loads: &[(f64, f64)]) -> Vec<Figure> {
        let points = curve.points(10_000);
        let point = |(point, (rate, used)): (_, &(f64, f64))| {
            Figure::of(point, &[load(*rate, *used), load(rate * 1.02, *used)])
        };
        points.into_iter().zip(loads).map(point).collect()
    }

    #[test]
    fn a_fall_is_told_with_what_an_order_costs_more() {
        let rates = [(100.0, 90.0), (1_000.0, 50.0), (600.0, 80.0)];
        let said = curve(Curve::Connections, &figures(Curve::Connections, &rates));
        assert!(said[0].starts_with("The curve rises up to connections 4"), "{said:?}");
        assert!(said[1].contains("connections 16 accepts 0.60 of connections 4"), "{said:?}");
        assert!(said[1].contains("us of service 80 after 50"), "{said:?}");
        assert!(said[1].contains("takes 1.60 times"), "{said:?}");
        assert!(said[2].contains("10 % of the answers were no order (overloaded 200)"), "{said:?}");
    }

    #[test]
    fn a_flat_curve_is_called_flat() {
        let rates = [(1_000.0, 50.0), (990.0, 50.0), (900.0, 50.0)];
        let said = curve(Curve::Instances, &figures(Curve::Instances, &rates));
        assert!(said[0].starts_with("Flat"), "{said:?}");
        assert!(curve(Curve::Items, &[]).is_empty());
    }
}
