//! The charts of a comparison.

use super::STOCK;
use super::figures::Row;
use super::result::Comparison;
use super::verdict::Verdict;
use crate::canvas::{
    BAD, Canvas, Chart, FIRST, GRID, Legend, NAMES, Place, QUIET, SCALE, SECOND, TEXT, Tone, WIDTH,
    step,
};
use crate::document;
use crate::options::Switch;
use crate::spread::Spread;
use ledger_audit::Expectation;

/// Height of a line of a bar chart.
const LINE: i32 = 26;
/// Height of the legend above the lines.
const HEAD: i32 = 22;
/// Small panels beside each other.
const PANELS: i32 = 5;
const PANEL_WIDTH: i32 = WIDTH / PANELS;
const PANEL_HEIGHT: i32 = 112;

/// The colours of the bars.
const BARS: [(&str, Tone); 3] =
    [("one instance", FIRST), ("two instances", SECOND), ("spread of the rounds", TEXT)];

/// Draws all charts that there are figures for.
pub fn draw(comparison: &Comparison) -> Vec<Chart> {
    [throughput, stock].into_iter().filter_map(|chart| chart(comparison)).collect()
}

/// Accepted purchases per second, one bar for one instance and one for two, with their spread.
fn throughput(comparison: &Comparison) -> Option<Chart> {
    let is_safe = |name: &str| {
        comparison.strategies.iter().any(|judged| judged.card.name == name && judged.card.safe)
    };
    let two = comparison.rows_of(Switch::On, 2);
    let bars = comparison.rows_of(Switch::On, 1).into_iter().map(|row| Bars {
        name: &row.strategy,
        tone: if is_safe(&row.strategy) { TEXT } else { BAD },
        spreads: std::iter::once(row)
            .chain(two.iter().filter(|other| other.strategy == row.strategy).copied())
            .map(|row| row.accepted_per_second)
            .collect(),
    });
    let bars: Vec<Bars<'_>> = bars.collect();
    let caption = "Accepted purchases per second with the arbiter on: one instance (the upper bar) and two (the lower). The bar is the median of the rounds, the line their spread; where lines overlap, the difference is inside the noise. Red names oversell when the gate stands alone.";
    let series: Legend<'_> = if two.is_empty() { &[] } else { &BARS };
    let svg = bar_chart("accepted purchases per second", series, &bars)?;
    Some(Chart { name: "throughput", caption: caption.to_owned(), svg })
}

/// A line of a bar chart.
struct Bars<'a> {
    name: &'a str,
    /// Of the name.
    tone: Tone,
    /// One for each bar.
    spreads: Vec<Spread>,
}

fn bar_chart(unit: &str, series: Legend<'_>, bars: &[Bars<'_>]) -> Option<String> {
    if bars.is_empty() {
        return None;
    }
    let highest = bars.iter().flat_map(|bar| &bar.spreads).map(|spread| spread.max);
    let highest = highest.fold(1.0, f64::max);
    let end = highest * 1.02;
    let at = |value: f64| NAMES + (f64::from(WIDTH - NAMES - 24) * (value / end)) as i32;
    let mut canvas = Canvas::default();
    canvas.legend(series);
    let bottom = HEAD + LINE * bars.len() as i32;
    let step = step(highest);
    let ticks = (0..).map(|number| step * f64::from(number));
    for tick in ticks.take_while(|tick| *tick <= end) {
        canvas.line(&[(at(tick), HEAD), (at(tick), bottom)], GRID, 1);
        let label = document::grouped(tick.round() as u64);
        canvas.text(&label, (at(tick), bottom + 6), QUIET, 12, "middle");
    }
    canvas.text(unit, (at(highest / 2.0), bottom + 24), QUIET, 12, "middle");
    for (index, Bars { name, tone, spreads }) in (0..).zip(bars) {
        let y = HEAD + LINE * index;
        canvas.text(name, (NAMES - 8, y + LINE / 2 - 7), tone, 13, "end");
        let thick = (LINE - 6) / spreads.len().max(1) as i32;
        for (place, (spread, (_, tone))) in (0..).zip(spreads.iter().zip(BARS)) {
            let upper = y + 3 + thick * place;
            let Spread { median, min, max } = *spread;
            canvas.rectangle((at(0.0), upper), (at(median), upper + thick - 1), tone);
            let middle = upper + thick / 2;
            canvas.line(&[(at(min), middle), (at(max), middle)], TEXT, 1);
        }
    }
    Some(canvas.svg(bottom + SCALE))
}

/// What was left of the stock over time, a panel a strategy, arbiter off, two instances.
fn stock(comparison: &Comparison) -> Option<Chart> {
    let mut canvas = Canvas::default();
    let mut panels = 0;
    for row in comparison.rows_of(Switch::Off, 2) {
        // The round that tells most: the one that oversold most, else the first.
        let told = row.rounds.iter().filter(|round| !round.sales.is_empty());
        let Some(round) = told.rev().max_by_key(|round| round.faults.oversold) else { continue };
        let origin = (PANEL_WIDTH * (panels % PANELS), PANEL_HEIGHT * (panels / PANELS));
        canvas.part(origin, &panel(row, &round.sales));
        panels += 1;
    }
    let caption = format!(
        "Units left over time when the gate stands alone (arbiter off), two instances, from {STOCK} down; the line is zero, below it every unit is oversold. Each panel has its own time and depth."
    );
    let lines = (panels + PANELS - 1) / PANELS;
    let svg = canvas.svg(PANEL_HEIGHT * lines);
    (panels > 0).then_some(Chart { name: "stock", caption, svg })
}

fn panel(row: &Row, sales: &[(u64, i64)]) -> Canvas {
    let left = 10;
    let right = PANEL_WIDTH - 10;
    let top = 26;
    let bottom = PANEL_HEIGHT - 24;
    let mut left_units = STOCK;
    let mut points = vec![(0_u64, STOCK)];
    for (at_us, units) in sales {
        points.push((*at_us, left_units));
        left_units -= units;
        points.push((*at_us, left_units));
    }
    let end_us = points.last().map_or(1, |(at_us, _)| (*at_us).max(1));
    let lowest = points.iter().map(|(_, units)| *units).min().unwrap_or(0).min(0);
    let at = |(at_us, units): (u64, i64)| -> Place {
        let x = left + (f64::from(right - left) * at_us as f64 / end_us as f64) as i32;
        let share = (STOCK - units) as f64 / (STOCK - lowest) as f64;
        (x, top + (f64::from(bottom - top) * share) as i32)
    };
    let bad = row.verdict == Verdict::Caught || lowest < 0;
    let tone = if bad { BAD } else { FIRST };
    let mut canvas = Canvas::default();
    canvas.text(&row.strategy, (left, 6), TEXT, 12, "start");
    let zero = at((0, 0)).1;
    canvas.line(&[(left, zero), (right, zero)], QUIET, 1);
    let line: Vec<Place> = points.into_iter().map(at).collect();
    canvas.line(&line, tone, 2);
    let seconds = format!("{:.2} s", end_us as f64 / 1e6);
    canvas.text(&seconds, (right, bottom + 5), QUIET, 11, "end");
    let uncaught = row.expectation == Expectation::Caught && !bad;
    let end = if uncaught { "not caught".to_owned() } else { format!("{left_units} left") };
    canvas.text(&end, (left, bottom + 5), tone, 11, "start");
    canvas
}
