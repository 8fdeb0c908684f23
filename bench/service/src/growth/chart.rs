//! The curves as one drawing: a line of panels for each, orders per second at the left and latency
//! at the right. Places along a curve are drawn at equal distances, whatever lies between them.

use plotters::prelude::*;
use plotters::style::text_anchor::HPos;

use super::figures::Figure;
use super::points::Curve;
use crate::workload::Workload;
use loadtest::canvas::{
    Chart, Drawing, Tone, count, drawn, grid_line, grouped, grouped_small, said, step, text, to_i32,
};
use loadtest::document::grouped as grouped_number;
use loadtest::failure::{CannotJudge, OrCannotJudge};
use loadtest::spread::Spread;

/// Height of the panels of one curve, in pixels.
const PANEL: u32 = 270;
/// Room around the lines of a panel, in pixels.
const ROOM_LEFT: i32 = 74;
const ROOM_RIGHT: i32 = 20;
const ROOM_TOP: i32 = 46;
const ROOM_BOTTOM: i32 = 44;
/// A chart begins with a decade that is this low at least: 0.1 ms.
const LOWEST_MS: f64 = 0.1;

/// The name and the colour of a line.
#[derive(Clone, Copy)]
struct Label {
    name: &'static str,
    tone: RGBColor,
}

/// One curve of a panel: places along the curve, each with the measured value.
struct Line {
    label: Label,
    /// Place along the curve and value with its spread.
    places: Vec<(usize, Spread)>,
}

/// The scale of a panel's values: from zero, or by their decimal logarithms.
struct Scale {
    low: f64,
    high: f64,
    by_decades: bool,
}

/// An SVG file with all curves that were measured.
pub fn render(figures: &[Figure]) -> Result<String, CannotJudge> {
    let of = |curve: &Curve| figures.iter().any(|figure| figure.point.curve == *curve);
    let curves: Vec<Curve> = Curve::ALL.into_iter().filter(of).collect();
    let svg = drawn(PANEL * count(curves.len().max(1)), |area| {
        let parts = area.split_evenly((curves.len().max(1), 2));
        for (curve, parts) in curves.iter().zip(parts.chunks(2)) {
            let own: Vec<&Figure> =
                figures.iter().filter(|figure| figure.point.curve == *curve).collect();
            throughput(&parts[0], *curve, &own)?;
            latency(&parts[1], *curve, &own)?;
        }
        Ok(())
    })
    .or_cannot_judge("the curves were not drawn")?;
    Ok(Chart { name: "growth", caption: String::new(), svg }.alone())
}

fn throughput(part: &Drawing<'_>, curve: Curve, own: &[&Figure]) -> Result<(), String> {
    let rate = |figure: &Figure| figure.accepted_per_second;
    let uniform = Label { name: "uniform", tone: Tone::FIRST };
    let skewed = Label { name: "skewed", tone: Tone::BAD };
    let lines = by_demand(own, uniform, skewed, rate);
    let title = format!("orders/s by {}", curve.unit());
    panel(part, &title, &sizes(own), &lines, false)
}

fn latency(part: &Drawing<'_>, curve: Curve, own: &[&Figure]) -> Result<(), String> {
    let ms = |spread: Spread| Spread {
        min: spread.min / 1e3,
        median: spread.median / 1e3,
        max: spread.max / 1e3,
    };
    let uniform = Label { name: "p50", tone: Tone::FIRST };
    let skewed = Label { name: "p50 skewed", tone: Tone::BAD };
    let mut lines = by_demand(own, uniform, skewed, |figure| ms(figure.p50_us));
    let uniform = Label { name: "p99", tone: Tone::SECOND };
    let skewed = Label { name: "p99 skewed", tone: Tone::QUIET };
    lines.extend(by_demand(own, uniform, skewed, |figure| ms(figure.p99_us)));
    panel(part, &format!("latency in ms by {}", curve.unit()), &sizes(own), &lines, true)
}

/// The sizes along a curve, each once.
fn sizes(own: &[&Figure]) -> Vec<u32> {
    let mut sizes: Vec<u32> = own.iter().map(|figure| figure.point.size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// A line for each kind of workload that was measured. One item belongs to both.
fn by_demand(
    own: &[&Figure],
    uniform: Label,
    skewed: Label,
    value: impl Fn(&Figure) -> Spread,
) -> Vec<Line> {
    let sizes = sizes(own);
    let line = |workload: Workload, label: Label| {
        let mine = |figure: &&&Figure| {
            let alone = figure.point.curve == Curve::Items && figure.point.size == 1;
            figure.point.workload == workload || alone
        };
        let places = own.iter().filter(mine).filter_map(|figure| {
            let place = sizes.iter().position(|size| *size == figure.point.size)?;
            Some((place, value(figure)))
        });
        Line { label, places: places.collect() }
    };
    let mut lines = vec![line(Workload::Uniform, uniform)];
    if own.iter().any(|figure| figure.point.workload == Workload::Skewed) {
        lines.push(line(Workload::Skewed, skewed));
    }
    lines
}

/// Draws lines over `sizes`, which lie at equal distances.
fn panel(
    part: &Drawing<'_>,
    title: &str,
    sizes: &[u32],
    lines: &[Line],
    by_decades: bool,
) -> Result<(), String> {
    let scale = Scale::of(lines, by_decades);
    let (width, height) = part.dim_in_pixel();
    let left = ROOM_LEFT;
    let right = to_i32(width) - ROOM_RIGHT;
    let top = ROOM_TOP;
    let bottom = to_i32(height) - ROOM_BOTTOM;
    text(part, title, (left, 8), Tone::TEXT, 14, HPos::Left)?;
    for (value, label) in scale.ticks() {
        let y = scale.at(value, top, bottom);
        grid_line(part, (left, y), (right, y))?;
        text(part, &label, (left - 8, y - 6), Tone::QUIET, 12, HPos::Right)?;
    }
    let gap = (right - left - 30) / to_i32(count(sizes.len().saturating_sub(1).max(1)));
    let x = |place: usize| left + 15 + gap * to_i32(count(place));
    for (place, size) in sizes.iter().enumerate() {
        let label = grouped_number(u64::from(*size));
        text(part, &label, (x(place), bottom + 8), Tone::QUIET, 12, HPos::Center)?;
    }
    for (number, line) in lines.iter().enumerate() {
        if lines.len() > 1 {
            let at = (left + 90 * to_i32(count(number)), 26);
            text(part, line.label.name, at, line.label.tone, 12, HPos::Left)?;
        }
        let points: Vec<(i32, i32)> = line
            .places
            .iter()
            .map(|(place, spread)| (x(*place), scale.at(spread.median, top, bottom)))
            .collect();
        for ((place, spread), at) in line.places.iter().zip(&points) {
            let ends = [spread.min, spread.max].map(|end| (x(*place), scale.at(end, top, bottom)));
            part.draw(&PathElement::new(ends.to_vec(), line.label.tone)).map_err(said)?;
            part.draw(&Circle::new(*at, 3, line.label.tone.filled())).map_err(said)?;
        }
        part.draw(&PathElement::new(points, line.label.tone.stroke_width(2))).map_err(said)?;
    }
    Ok(())
}

impl Scale {
    /// One on which all values of `lines` have room.
    fn of(lines: &[Line], by_decades: bool) -> Self {
        let values = || lines.iter().flat_map(|line| &line.places).map(|(_, spread)| spread);
        let highest = values().map(|spread| spread.max).fold(1.0, f64::max);
        if !by_decades {
            return Self { low: 0.0, high: highest * 1.05, by_decades };
        }
        let lowest = values().map(|spread| spread.min).fold(highest, f64::min).max(LOWEST_MS);
        let low = lowest.log10().floor();
        Self { low, high: highest.log10().ceil().max(low + 1.0), by_decades }
    }

    /// Values with a line and a label.
    fn ticks(&self) -> Vec<(f64, String)> {
        let step = if self.by_decades { 1.0 } else { step(self.high) };
        let ticks = (0..).map(|number| self.low + step * f64::from(number));
        let ticks = ticks.take_while(|tick| *tick <= self.high);
        let labelled = |tick: f64| {
            if self.by_decades {
                (10_f64.powf(tick), grouped_small(10_f64.powf(tick)))
            } else {
                (tick, grouped(tick))
            }
        };
        ticks.map(labelled).collect()
    }

    /// The height of a value between `top` and `bottom`.
    fn at(&self, value: f64, top: i32, bottom: i32) -> i32 {
        let value = if self.by_decades { value.max(1e-9).log10() } else { value };
        let share = (value - self.low) / (self.high - self.low);
        bottom - (f64::from(bottom - top) * share.clamp(0.0, 1.0)) as i32
    }
}

#[cfg(test)]
mod tests {
    use super::super::figures::tests::load;
    use super::*;
    use loadtest::canvas::STYLE;

    #[test]
    fn every_curve_has_its_panels_in_colours_that_suit_both_pages() {
        let points = Curve::ALL.into_iter().flat_map(|curve| curve.points(10));
        let figures: Vec<Figure> = points
            .map(|point| Figure::of(point, &[load(900.0, 50.0), load(1_000.0, 50.0)]))
            .collect();
        let svg = render(&figures).expect("drawn");
        for words in ["orders/s by connections", "latency in ms by items", "p99 skewed"] {
            assert!(svg.contains(words), "{words}");
        }
        let drawing = svg.split("</style>").nth(1).expect("a drawing");
        for color in drawing.match_indices("=\"#").map(|(at, _)| &drawing[at + 2..at + 9]) {
            assert!(STYLE.contains(color), "{color}");
        }
    }
}
