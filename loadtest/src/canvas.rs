//! The canvas of all charts: an SVG whose colours suit a light and a dark page.
//!
//! Colours are those of [`Tone`]; a style sheet turns them into ones that suit the page, so one
//! drawing serves both.

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A part of a canvas.
pub type Drawing<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Width of every chart, in pixels.
pub const WIDTH: u32 = 960;
/// Width of the column of names at the left, in pixels.
pub const NAMES: u32 = 200;
/// Height of the scale at the bottom, in pixels.
pub const SCALE: u32 = 46;

/// The words for each colour of a chart.
pub type Legend<'a> = &'a [(&'a str, RGBColor)];

/// Width of a letter of the legend at most, in pixels.
const LETTER: i32 = 7;
/// Width of a colour of the legend with the gap behind it, in pixels.
const SWATCH: i32 = 18;

/// Steps of a scale, at most.
const STEPS_MAX: f64 = 6.0;

/// What a colour stands for; the values are placeholders that [`STYLE`] replaces.
pub struct Tone;

impl Tone {
    /// Names and titles.
    pub const TEXT: RGBColor = RGBColor(17, 17, 17);
    /// Scales and secondary marks.
    pub const QUIET: RGBColor = RGBColor(119, 119, 119);
    /// Lines of the grid.
    pub const GRID: RGBColor = RGBColor(221, 221, 221);
    /// The first of two series.
    pub const FIRST: RGBColor = RGBColor(31, 119, 180);
    /// The second of two series.
    pub const SECOND: RGBColor = RGBColor(158, 202, 225);
    /// What should not be.
    pub const BAD: RGBColor = RGBColor(192, 57, 43);
}

/// Rules that beat the colours of the drawing.
pub const STYLE: &str = "\
svg [fill=\"#111111\"]{fill:var(--text)}svg [stroke=\"#111111\"]{stroke:var(--text)}\
svg [fill=\"#777777\"]{fill:var(--quiet)}svg [stroke=\"#777777\"]{stroke:var(--quiet)}\
svg [fill=\"#DDDDDD\"]{fill:var(--grid)}svg [stroke=\"#DDDDDD\"]{stroke:var(--grid)}\
svg [fill=\"#1F77B4\"]{fill:var(--first)}svg [stroke=\"#1F77B4\"]{stroke:var(--first)}\
svg [fill=\"#9ECAE1\"]{fill:var(--second)}svg [stroke=\"#9ECAE1\"]{stroke:var(--second)}\
svg [fill=\"#C0392B\"]{fill:var(--bad)}svg [stroke=\"#C0392B\"]{stroke:var(--bad)}\
svg text{font-family:system-ui,sans-serif}";

/// The colours of a light page, and those of a dark one.
pub const COLORS: &str = "\
:root{color-scheme:light dark;--page:#ffffff;--text:#1b1f24;--quiet:#59636e;--grid:#dfe3e8;--first:#1f6fb2;--second:#00857a;--bad:#c0392b;--good:#1a7f37;--card:#f6f8fa}\
@media(prefers-color-scheme:dark){:root{--page:#0f1419;--text:#e6e9ed;--quiet:#9aa4b0;--grid:#2c343d;--first:#3b86c6;--second:#2a8f83;--bad:#ff7b6b;--good:#56d364;--card:#171d24}}";

/// One chart.
pub struct Chart {
    /// Names its file.
    pub name: &'static str,
    /// What it shows, in a sentence.
    pub caption: String,
    /// An `<svg>` element.
    pub svg: String,
}

impl Chart {
    /// A file of its own, which knows light and dark by itself.
    pub fn alone(&self) -> String {
        let style = format!("><style>{COLORS}{STYLE}svg{{background:var(--page)}}</style>");
        self.svg.replacen('>', &style, 1)
    }
}

/// Draws on a fresh canvas.
pub fn drawn(
    height: u32,
    draw: impl FnOnce(&Drawing<'_>) -> Result<(), String>,
) -> Result<String, String> {
    let mut svg = String::new();
    {
        let area = SVGBackend::with_string(&mut svg, (WIDTH, height)).into_drawing_area();
        draw(&area)?;
        area.present().map_err(said)?;
    }
    // Scales with the page instead of having a fixed size.
    let fixed = format!("<svg width=\"{WIDTH}\" height=\"{height}\" ");
    Ok(svg.replacen(&fixed, "<svg role=\"img\" ", 1))
}

/// Places of values between the names and the right edge.
pub struct Scale {
    low: f64,
    high: f64,
}

impl Scale {
    /// From the value at the left end to the one at the right end.
    pub fn new(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// The x coordinate of a value; values outside the scale are drawn at its ends.
    pub fn at(&self, value: f64) -> i32 {
        let share = (value - self.low) / (self.high - self.low);
        to_i32(NAMES) + (f64::from(WIDTH - NAMES - 24) * share.clamp(0.0, 1.0)) as i32
    }
}

/// A round distance between ticks: 1, 2 or 5 times a power of ten.
pub fn step(highest: f64) -> f64 {
    let rough = (highest / STEPS_MAX).max(1e-9);
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|factor| factor * power)
        .find(|step| *step >= rough)
        .unwrap_or(rough)
}

/// A line of the grid.
pub fn grid_line(area: &Drawing<'_>, from: (i32, i32), to: (i32, i32)) -> Result<(), String> {
    area.draw(&PathElement::new(vec![from, to], Tone::GRID)).map_err(said)
}

/// A line above a chart that says what its colours stand for.
pub fn legend(area: &Drawing<'_>, legend: Legend<'_>) -> Result<(), String> {
    let mut left = to_i32(NAMES);
    for (words, tone) in legend {
        area.draw(&Rectangle::new([(left, 5), (left + 12, 15)], tone.filled())).map_err(said)?;
        text(area, words, (left + SWATCH, 4), Tone::TEXT, 12, HPos::Left)?;
        left += 2 * SWATCH + LETTER * to_i32(count(words.len()));
    }
    Ok(())
}

/// Words at a place.
pub fn text(
    area: &Drawing<'_>,
    words: &str,
    place: (i32, i32),
    tone: RGBColor,
    size: i32,
    side: HPos,
) -> Result<(), String> {
    let style = ("sans-serif", size).into_font().color(&tone).pos(Pos::new(side, VPos::Top));
    area.draw(&Text::new(words.to_owned(), place, style)).map_err(said)
}

/// `1,234`.
pub fn grouped(number: f64) -> String {
    crate::number::grouped(number.max(0.0).round() as u64)
}

/// A number with its thousands grouped; numbers below one keep their decimals.
pub fn grouped_small(number: f64) -> String {
    if number < 1.0 { format!("{number}") } else { grouped(number) }
}

/// A number of things in pixels' type.
pub fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// Pixels as coordinates.
pub fn to_i32(number: u32) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

/// Why it could not be drawn.
pub fn said(error: impl std::fmt::Display) -> String {
    error.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How far two colours differ in lightness, by WCAG 2.
    fn contrast(one: &str, other: &str) -> f64 {
        let lightness = |color: &str| {
            let part = |at: usize| {
                let part = u8::from_str_radix(&color[at..at + 2], 16).expect("two digits");
                let share = f64::from(part) / 255.0;
                if share <= 0.04045 { share / 12.92 } else { ((share + 0.055) / 1.055).powf(2.4) }
            };
            0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5) + 0.05
        };
        let one = lightness(one);
        let other = lightness(other);
        one.max(other) / one.min(other)
    }

    /// WCAG 2 asks for a contrast of 4.5 between words and the page, and of 3 between parts of a drawing.
    #[test]
    fn colours_stand_out_on_both_pages() {
        let themes: Vec<&str> = COLORS.split("--page:").skip(1).collect();
        assert_eq!(themes.len(), 2, "a light one and a dark one");
        for theme in themes {
            let color = |name: &str| {
                let mark = format!("--{name}:");
                let at = theme.find(&mark).expect("a colour") + mark.len();
                &theme[at..at + 7]
            };
            for name in ["text", "quiet", "first", "second", "bad", "good"] {
                let found = contrast(color(name), &theme[..7]);
                assert!(found >= 4.5, "--{name} has {found:.2} on {}", &theme[..7]);
            }
            // The line of a spread crosses its bar.
            for bar in ["first", "second"] {
                let found = contrast(color(bar), color("text"));
                assert!(found >= 3.0, "--{bar} has {found:.2} under a line");
            }
        }
    }
}
