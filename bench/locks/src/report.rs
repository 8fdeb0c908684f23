//! The figures as a table and as JSON, and whether our main lock reaches its goals.

use loadtest::circumstances::Machine;
use loadtest::spread::Spread;
use serde::Serialize;
use serde_json::json;

use crate::{FAIR_CLIENTS, FAIR_SECTION, LOCAL_WAITERS};

/// What was measured of one subject.
#[derive(Serialize)]
pub(crate) struct Row {
    name: &'static str,
    /// Rates of the rounds by scenario, as parts of K; empty where a scenario does not apply.
    pub(crate) ratios: [Vec<f64>; 3],
    /// Commands to Redis for each lock, of the rounds by scenario.
    pub(crate) commands: [Vec<f64>; 3],
    /// Microseconds of processor time of Redis and of this program for each uncontended lock, of the rounds.
    pub(crate) processor_us: Vec<[f64; 2]>,
    /// Jain's index.
    pub(crate) fairness: Option<f64>,
}

impl Row {
    pub(crate) fn new(name: &'static str) -> Self {
        let (ratios, commands, processor_us) = Default::default();
        Self { name, ratios, commands, processor_us, fairness: None }
    }
}

/// What was measured, our main lock first.
pub(crate) struct Report {
    /// Where it was measured.
    pub(crate) machine: Machine,
    /// K, in locks per second.
    pub(crate) baselines: Spread,
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// The table as Markdown, and one line for each goal.
    pub(crate) fn text(&self) -> String {
        let section_ms = FAIR_SECTION.as_millis();
        let mut lines = vec![
            format!(
                "K: {:.0} locks/s (lowest and highest round in parentheses), SET NX PX and compare-and-delete by one client, on {}.",
                self.baselines, self.machine
            ),
            String::new(),
            format!(
                "| lock | uncontended / K | {LOCAL_WAITERS} local waiters / K | two processes / K | \
                 commands per lock | us of Redis, of the client | Jain, 2 x {FAIR_CLIENTS} clients, {section_ms} ms |"
            ),
            "|---|---|---|---|---|---|---|".to_owned(),
        ];
        for Row { name, ratios, commands, processor_us, fairness } in &self.rows {
            let [alone, crowd, between] = ratios
                .each_ref()
                .map(|rounds| spread(rounds).map_or("-".to_owned(), |ratio| ratio.to_string()));
            let median = |rounds: &Vec<f64>| -> String {
                median(rounds).map_or("-".into(), |figure| format!("{figure:.2}"))
            };
            let sent = commands.each_ref().map(median).join(" / ");
            let spent = [0, 1].map(|who| {
                let rounds: Vec<f64> = processor_us.iter().map(|round| round[who]).collect();
                median(&rounds)
            });
            let spent = spent.join(", ");
            let fairness = fairness.map_or("-".into(), |index| format!("{index:.3}"));
            lines.push(format!(
                "| {name} | {alone} | {crowd} | {between} | {sent} | {spent} | {fairness} |"
            ));
        }
        lines.push(String::new());
        lines.extend(self.goals().map(|(what, figure, goal)| {
            let verdict = if figure >= goal { "reached" } else { "BEHIND" };
            format!("* {verdict}: {what} {figure:.2}, goal {goal}")
        }));
        lines.join("\n")
    }

    /// Description, figure and goal of what our main lock is to reach.
    fn goals(&self) -> impl Iterator<Item = (&'static str, f64, f64)> {
        self.rows.first().into_iter().flat_map(|ours| {
            let median = |column: usize| median(&ours.ratios[column]).unwrap_or(0.0);
            [
                ("uncontended / K", median(0), 0.95),
                ("local waiters / K", median(1), 20.0),
                ("two processes / K", median(2), 1.0),
                ("Jain's index", ours.fairness.unwrap_or(0.0), 0.95),
            ]
        })
    }

    /// The text, and the figures of all rounds.
    pub(crate) fn json(&self) -> String {
        format!(
            "{:#}\n",
            json!({
                "text": self.text(),
                "machine": self.machine,
                "k_per_second": self.baselines,
                "rows": self.rows,
            })
        )
    }
}

/// Median, lowest and highest of the rounds; `None` if nothing was measured.
fn spread(rounds: &[f64]) -> Option<Spread> {
    (!rounds.is_empty()).then(|| Spread::of(rounds.iter().copied()))
}

fn median(rounds: &[f64]) -> Option<f64> {
    spread(rounds).map(|spread| spread.median)
}
