//! The canvas of all charts: an SVG whose colours suit a light and a dark page.

/// Width of every chart, in pixels.
pub const WIDTH: i32 = 960;
/// Width of the column of names at the left, in pixels.
pub const NAMES: i32 = 200;
/// Height of the scale at the bottom, in pixels.
pub const SCALE: i32 = 46;

/// Width of a letter of the legend at most, in pixels.
const LETTER: i32 = 7;
/// Width of a colour of the legend with the gap behind it, in pixels.
const SWATCH: i32 = 18;
/// Steps of a scale, at most.
const STEPS_MAX: f64 = 6.0;

/// The colours of a light page, and those of a dark one.
pub const COLORS: &str = "\
:root{color-scheme:light dark;--page:#ffffff;--text:#1b1f24;--quiet:#59636e;--grid:#dfe3e8;--first:#1f6fb2;--second:#00857a;--bad:#c0392b}\
@media(prefers-color-scheme:dark){:root{--page:#0f1419;--text:#e6e9ed;--quiet:#9aa4b0;--grid:#2c343d;--first:#3b86c6;--second:#2a8f83;--bad:#ff7b6b}}";

/// What a colour stands for, as an attribute of an element; [`COLORS`] says which one it is.
pub type Tone = &'static str;
/// Names and titles.
pub const TEXT: Tone = "var(--text)";
/// Scales and secondary marks.
pub const QUIET: Tone = "var(--quiet)";
/// Lines of the grid.
pub const GRID: Tone = "var(--grid)";
/// The two series.
pub const FIRST: Tone = "var(--first)";
pub const SECOND: Tone = "var(--second)";
/// What should not be.
pub const BAD: Tone = "var(--bad)";

/// A place, in pixels from the left and from the top.
pub type Place = (i32, i32);

/// The words for each colour of a chart.
pub type Legend<'a> = &'a [(&'a str, Tone)];

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
        let style = format!("><style>{COLORS}svg{{background:var(--page)}}</style>");
        self.svg.replacen('>', &style, 1)
    }
}

/// What was drawn so far.
#[derive(Default)]
pub struct Canvas {
    elements: String,
}

impl Canvas {
    /// The picture, which is as wide as its page allows.
    pub fn svg(&self, height: i32) -> String {
        format!(
            r#"<svg role="img" viewBox="0 0 {WIDTH} {height}" xmlns="http://www.w3.org/2000/svg" font-family="system-ui,sans-serif">{}</svg>"#,
            self.elements
        )
    }

    /// A rectangle between two corners: the upper left one and the lower right one.
    pub fn rectangle(&mut self, from: Place, to: Place, tone: Tone) {
        let (x, y) = from;
        let width = to.0 - x;
        let height = to.1 - y;
        self.elements +=
            &format!(r#"<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{tone}"/>"#);
    }

    /// A line through these places.
    pub fn line(&mut self, places: &[Place], tone: Tone, width: u32) {
        let points: Vec<String> = places.iter().map(|(x, y)| format!("{x},{y}")).collect();
        self.elements += &format!(
            r#"<polyline points="{}" fill="none" stroke="{tone}" stroke-width="{width}"/>"#,
            points.join(" ")
        );
    }

    /// Words below a place, which is their `start`, `middle` or `end`.
    pub fn text(&mut self, words: &str, place: Place, tone: Tone, size: u32, anchor: &str) {
        let (x, y) = place;
        self.elements += &format!(
            r#"<text x="{x}" y="{y}" dy="0.76em" text-anchor="{anchor}" font-size="{size}" fill="{tone}">{}</text>"#,
            escaped(words)
        );
    }

    /// A part whose places count from `origin`.
    pub fn part(&mut self, origin: Place, part: &Self) {
        let (x, y) = origin;
        self.elements += &format!(r#"<g transform="translate({x},{y})">{}</g>"#, part.elements);
    }

    /// A line above a chart that says what its colours stand for.
    pub fn legend(&mut self, legend: Legend<'_>) {
        let mut left = NAMES;
        for (words, tone) in legend {
            self.rectangle((left, 5), (left + 12, 15), tone);
            self.text(words, (left + SWATCH, 4), TEXT, 12, "start");
            left += 2 * SWATCH + LETTER * words.len() as i32;
        }
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

/// Text as it stands in an element or in an attribute.
pub fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
