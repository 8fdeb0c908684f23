//! The ratios as one drawing.

use std::fmt::Write;

use crate::figures::Ratio;
use crate::goals::Bound;

/// Each ratio as a bar against its goal, which is at the same place for all.
pub fn render(ratios: &[Ratio]) -> String {
    const ROW: f64 = 34.0;
    const GOAL_AT: f64 = 420.0;
    const LEFT: f64 = 90.0;
    const RIGHT: f64 = 640.0;
    let ratios: Vec<(&Ratio, f64, bool)> = ratios
        .iter()
        .filter_map(|ratio| match ratio.goal.goal {
            Bound::AtLeast(goal) => Some((ratio, goal, false)),
            Bound::AtMost(goal) => Some((ratio, goal, true)),
            Bound::None | Bound::Shown => None,
        })
        .collect();
    let scale = GOAL_AT - LEFT;
    let height = ROW * ratios.len() as f64 + 40.0;
    let mut svg = format!(
        "<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 720 {height}' font-family='sans-serif' font-size='13'>\
         <style>text{{fill:#555}}@media(prefers-color-scheme:dark){{text{{fill:#bbb}}}}</style>\
         <text x='{GOAL_AT}' y='16' text-anchor='middle'>goal</text>"
    );
    for (row, (ratio, goal, at_most)) in ratios.into_iter().enumerate() {
        let y = 26.0 + ROW * row as f64;
        // Longer is better for all of them.
        let share = |value: f64| if at_most { goal / value } else { value / goal };
        let x = |value: f64| (LEFT + scale * share(value)).clamp(LEFT, RIGHT);
        let color = if ratio.met == Some(true) { "#2a9d5c" } else { "#d08a1d" };
        let end = x(ratio.reached.median);
        let _ = write!(
            svg,
            "<text x='8' y='{:.1}'>{}</text><rect x='{LEFT}' y='{y:.1}' width='{:.1}' height='20' rx='3' fill='{color}'/>\
             <line x1='{:.1}' x2='{:.1}' y1='{:.1}' y2='{:.1}' stroke='#777' stroke-width='2'/>\
             <text x='{:.1}' y='{:.1}'>{:.2} of {}</text>",
            y + 15.0,
            ratio.goal.id,
            end - LEFT,
            x(ratio.reached.min),
            x(ratio.reached.max),
            y + 10.0,
            y + 10.0,
            x(ratio.reached.max).max(x(ratio.reached.min)).max(end) + 8.0,
            y + 15.0,
            ratio.reached.median,
            goal
        );
    }
    let _ = write!(
        svg,
        "<line x1='{GOAL_AT}' x2='{GOAL_AT}' y1='20' y2='{:.1}' stroke='#888' stroke-dasharray='4 3'/></svg>",
        height - 12.0
    );
    svg
}
