//! The charts, drawn by plotters.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::figures::Row;
use super::result::Comparison;
use super::verdict::Verdict;
use crate::canvas::{
    Chart, Drawing, Legend, NAMES, SCALE, Scale, Tone, count, drawn, grid_line, grouped,
    grouped_small, legend, said, step, text, to_i32,
};
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::options::Switch;
use crate::spread::Spread;
use ledger_audit::Expectation;

/// Height of a line of a bar chart.
const LINE: u32 = 26;
/// Height of the head of a chart.
const HEAD: u32 = 44;
/// Small panels beside each other.
const PANELS: usize = 5;
const PANEL_HEIGHT: u32 = 112;

/// Draws all charts.
pub fn draw(comparison: &Comparison) -> Result<Vec<Chart>, CannotJudge> {
    let rows = &comparison.rows;
    let drawn = [throughput(comparison), latency(rows), stock(comparison)];
    drawn
        .into_iter()
        .collect::<Result<Vec<Option<Chart>>, String>>()
        .map(|charts| charts.into_iter().flatten().collect())
        .or_cannot_judge("a chart could not be drawn")
}

/// Accepted purchases per second, one bar for one instance and one for two, with their spread.
fn throughput(comparison: &Comparison) -> Result<Option<Chart>, String> {
    let rows = &comparison.rows;
    let is_safe = |name: &str| {
        comparison.strategies.iter().any(|judged| judged.card.name == name && judged.card.safe)
    };
    let mut one = select(rows, Switch::On, 1);
    one.sort_by(|left, right| {
        right.accepted_per_second.median.total_cmp(&left.accepted_per_second.median)
    });
    let two = select(rows, Switch::On, 2);
    let bars: Vec<Bars> = one
        .iter()
        .map(|row| Bars {
            name: row.strategy.clone(),
            tone: if is_safe(&row.strategy) { Tone::TEXT } else { Tone::BAD },
            values: std::iter::once(*row)
                .chain(two.iter().filter(|other| other.strategy == row.strategy).copied())
                .zip([Tone::FIRST, Tone::SECOND])
                .map(|(row, tone)| Value { spread: row.accepted_per_second, tone })
                .collect(),
        })
        .collect();
    let caption = "Accepted purchases per second with the arbiter on: one instance (the upper bar) and two (the lower). The bar is the median of the rounds, the line their spread; where lines overlap, the difference is inside the noise. Red names oversell when the gate stands alone.";
    let series = [
        ("one instance", Tone::FIRST),
        ("two instances", Tone::SECOND),
        ("spread of the rounds", Tone::TEXT),
    ];
    let series: Legend<'_> = if two.is_empty() { &[] } else { &series };
    bar_chart("throughput", caption, "accepted purchases per second", series, &bars)
}

/// A line of a bar chart.
struct Bars {
    name: String,
    /// Of the name.
    tone: RGBColor,
    values: Vec<Value>,
}

struct Value {
    spread: Spread,
    tone: RGBColor,
}

fn bar_chart(
    name: &'static str,
    caption: &str,
    unit: &str,
    series: Legend<'_>,
    bars: &[Bars],
) -> Result<Option<Chart>, String> {
    if bars.is_empty() {
        return Ok(None);
    }
    let highest =
        bars.iter().flat_map(|bar| &bar.values).map(|value| value.spread.max).fold(1.0, f64::max);
    let step = step(highest);
    let scale = Scale::new(0.0, highest * 1.02);
    let ticks = (0..).map(|number| step * f64::from(number));
    let ticks = ticks.take_while(|tick| *tick <= highest * 1.02).map(|tick| (tick, grouped(tick)));
    let axis = Axis { unit, middle: highest / 2.0, scale: &scale, ticks: ticks.collect() };
    let names: Vec<_> = bars.iter().map(|bar| (bar.name.as_str(), bar.tone)).collect();
    let svg = named_rows(&axis, series, &names, |area, index, y| {
        let values = &bars[index].values;
        let thick = (to_i32(LINE) - 6) / to_i32(count(values.len().max(1)));
        for (place, value) in values.iter().enumerate() {
            let upper = y + 3 + thick * to_i32(count(place));
            let Spread { median, min, max } = value.spread;
            let corners = [(scale.at(0.0), upper), (scale.at(median), upper + thick - 1)];
            area.draw(&Rectangle::new(corners, value.tone.filled())).map_err(said)?;
            let at = upper + thick / 2;
            let line = vec![(scale.at(min), at), (scale.at(max), at)];
            area.draw(&PathElement::new(line, Tone::TEXT)).map_err(said)?;
        }
        Ok(())
    })?;
    Ok(Some(Chart { name, caption: caption.to_owned(), svg }))
}

/// The horizontal axis of a chart with a row for each name.
struct Axis<'a> {
    unit: &'a str,
    /// Where the unit stands.
    middle: f64,
    scale: &'a Scale,
    ticks: Vec<(f64, String)>,
}

/// Draws the legend, the axis, the names and what each row shows from its upper edge on.
fn named_rows(
    axis: &Axis<'_>,
    series: Legend<'_>,
    names: &[(&str, RGBColor)],
    row: impl Fn(&Drawing<'_>, usize, i32) -> Result<(), String>,
) -> Result<String, String> {
    let height = LINE * count(names.len());
    drawn(HEAD / 2 + height + SCALE, |area| {
        legend(area, series)?;
        let top = to_i32(HEAD / 2);
        let bottom = top + to_i32(height);
        for (tick, label) in &axis.ticks {
            let x = axis.scale.at(*tick);
            grid_line(area, (x, top), (x, bottom))?;
            text(area, label, (x, bottom + 6), Tone::QUIET, 12, HPos::Center)?;
        }
        let middle = (axis.scale.at(axis.middle), bottom + 24);
        text(area, axis.unit, middle, Tone::QUIET, 12, HPos::Center)?;
        for (index, (name, tone)) in names.iter().enumerate() {
            let y = top + to_i32(LINE * count(index));
            let label = (to_i32(NAMES) - 8, y + to_i32(LINE / 2) - 7);
            text(area, name, label, *tone, 13, HPos::Right)?;
            row(area, index, y)?;
        }
        Ok(())
    })
}

/// Latency of accepted purchases on a logarithmic scale: a bar from p50 to p99 and a dot at the end.
fn latency(rows: &[Row]) -> Result<Option<Chart>, String> {
    let mut rows = select(rows, Switch::On, 1);
    rows.retain(|row| row.latencies_counted > 0);
    rows.sort_by_key(|row| row.latency.p50_us);
    let (Some(low), Some(high)) = (
        rows.iter().map(|row| row.latency.p50_us).min(),
        rows.iter().map(|row| row.latency.max_us).max(),
    ) else {
        return Ok(None);
    };
    let log = |micros: u64| (micros.max(1) as f64 / 1e3).log10();
    let low = log(low).floor();
    let high = log(high).ceil();
    let scale = Scale::new(low, high.max(low + 1.0));
    let ticks = (0..).map(|number| low + f64::from(number)).take_while(|tick| *tick <= high);
    let ticks = ticks.map(|tick| (tick, grouped_small(10_f64.powf(tick)))).collect();
    let unit = "milliseconds, each step ten times the one before";
    let axis = Axis { unit, middle: f64::midpoint(low, high), scale: &scale, ticks };
    let names: Vec<_> = rows.iter().map(|row| (row.strategy.as_str(), Tone::TEXT)).collect();
    let series = [
        ("median", Tone::TEXT),
        ("to the 90th percentile", Tone::FIRST),
        ("to the 99th percentile", Tone::SECOND),
        ("slowest", Tone::BAD),
    ];
    let svg = named_rows(&axis, &series, &names, |area, index, y| {
        let latency = rows[index].latency;
        let middle = y + to_i32(LINE / 2);
        let at = |micros: u64| scale.at(log(micros));
        let p50 = at(latency.p50_us);
        let p90 = at(latency.p90_us);
        let p99 = at(latency.p99_us);
        for (from, to, tone) in [(p90, p99, Tone::SECOND), (p50, p90, Tone::FIRST)] {
            let corners = [(from, middle - 4), (to, middle + 4)];
            area.draw(&Rectangle::new(corners, tone.filled())).map_err(said)?;
        }
        let median = PathElement::new(vec![(p50, middle - 8), (p50, middle + 8)], Tone::TEXT);
        area.draw(&median).map_err(said)?;
        let dot = Circle::new((at(latency.max_us), middle), 3, Tone::BAD.filled());
        area.draw(&dot).map_err(said)
    })?;
    let caption = "Latency of accepted purchases, arbiter on, one instance, all rounds together: the mark is the median, the bars end at the 90th and 99th percentile, the dot is the slowest.".to_owned();
    Ok(Some(Chart { name: "latency", caption, svg }))
}

/// What was left of the stock over time, a panel a strategy, arbiter off, two instances.
fn stock(comparison: &Comparison) -> Result<Option<Chart>, String> {
    let rows = select(&comparison.rows, Switch::Off, 2);
    // The round that tells most: the one that oversold most, else the first.
    let panels: Vec<(&Row, &[(u64, i64)])> = rows
        .iter()
        .filter_map(|row| {
            let told = row.rounds.iter().filter(|round| !round.sales.is_empty());
            // The first of equals.
            let round = told.rev().max_by_key(|round| round.faults.oversold)?;
            Some((*row, round.sales.as_slice()))
        })
        .collect();
    if panels.is_empty() {
        return Ok(None);
    }
    let lines = panels.len().div_ceil(PANELS);
    let svg = drawn(PANEL_HEIGHT * count(lines), |area| {
        let parts = area.split_evenly((lines, PANELS));
        for ((row, sales), part) in panels.iter().zip(parts) {
            panel(&part, row, sales, comparison.load.stock)?;
        }
        Ok(())
    })?;
    let caption = format!(
        "Units left over time when the gate stands alone (arbiter off), two instances, from {} down; the line is zero, below it every unit is oversold. Each panel has its own time and depth.",
        comparison.load.stock
    );
    Ok(Some(Chart { name: "stock", caption, svg }))
}

fn panel(part: &Drawing<'_>, row: &Row, sales: &[(u64, i64)], stock: i64) -> Result<(), String> {
    let (width, height) = part.dim_in_pixel();
    let left = 10;
    let right = to_i32(width) - 10;
    let top = 26;
    let bottom = to_i32(height) - 24;
    let mut left_units = stock;
    let mut points = vec![(0_u64, stock)];
    for (at_us, units) in sales {
        points.push((*at_us, left_units));
        left_units -= units;
        points.push((*at_us, left_units));
    }
    let end_us = points.last().map_or(1, |(at_us, _)| (*at_us).max(1));
    let lowest = points.iter().map(|(_, units)| *units).min().unwrap_or(0).min(0);
    let at = |(at_us, units): (u64, i64)| {
        let x = left + ((right - left) as f64 * at_us as f64 / end_us as f64) as i32;
        let share = (stock - units) as f64 / (stock - lowest).max(1) as f64;
        (x, top + ((bottom - top) as f64 * share) as i32)
    };
    let bad = row.verdict == Verdict::Caught || lowest < 0;
    let tone = if bad { Tone::BAD } else { Tone::FIRST };
    text(part, &row.strategy, (left, 6), Tone::TEXT, 12, HPos::Left)?;
    let zero = at((0, 0)).1;
    part.draw(&PathElement::new(vec![(left, zero), (right, zero)], Tone::QUIET)).map_err(said)?;
    let line: Vec<(i32, i32)> = points.into_iter().map(at).collect();
    part.draw(&PathElement::new(line, tone.stroke_width(2))).map_err(said)?;
    let seconds = format!("{:.2} s", end_us as f64 / 1e6);
    text(part, &seconds, (right, bottom + 5), Tone::QUIET, 11, HPos::Right)?;
    let uncaught = row.expectation == Expectation::Caught && !bad;
    let end = if uncaught { "not caught".to_owned() } else { format!("{left_units} left") };
    text(part, &end, (left, bottom + 5), tone, 11, HPos::Left)
}

fn select(rows: &[Row], arbiter: Switch, instances: usize) -> Vec<&Row> {
    rows.iter().filter(|row| (row.arbiter, row.instances) == (arbiter, instances)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::canvas::STYLE;

    #[test]
    fn ticks_are_round_numbers() {
        assert_eq!([step(6.0), step(700.0), step(4_500.0)], [1.0, 200.0, 1_000.0]);
    }

    #[test]
    fn a_chart_has_no_link_and_no_colour_that_the_style_does_not_know() {
        let bars = [Bars {
            name: "a".to_owned(),
            tone: Tone::TEXT,
            values: vec![Value { spread: Spread::of([4.0, 5.0, 6.0]), tone: Tone::FIRST }],
        }];
        let series = [("one of two", Tone::FIRST), ("the other", Tone::SECOND)];
        let chart = bar_chart("x", "y", "units", &series, &bars).expect("drawn").expect("a chart");
        for (words, _) in series {
            assert!(chart.svg.contains(words), "the legend says {words}");
        }
        for color in chart.svg.match_indices('#').map(|(at, _)| &chart.svg[at..at + 7]) {
            assert!(STYLE.contains(&format!("\"{color}\"")), "{color}");
        }
        let outside = chart.alone().replace("http://www.w3.org/2000/svg", "");
        assert!(!outside.contains("http"), "{outside}");
        assert!(outside.contains("prefers-color-scheme"));
    }
}
