//! One load of the comparison: one strategy, one arbiter, one number of instances, a fresh item.

use serde::Serialize;

use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::options::{RunOptions, Switch};
use crate::run::{self, Run};
use ledger_audit::{FaultCounts, Outcome};

/// Tries after the first for purchases that the service could not serve in time.
pub const RETRIES_MAX: u16 = 20;

/// What is varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Index of the strategy.
    pub strategy: usize,
    pub arbiter: Switch,
    pub instances: usize,
}

/// One load, in figures.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Round {
    /// Why nothing can be said about it.
    pub could_not_judge: Option<String>,
    /// Buyers at once.
    pub concurrency: u32,
    pub accepted_per_second: f64,
    pub refused_per_second: f64,
    /// Attempts of clients after the first.
    pub retries: u64,
    #[serde(flatten)]
    pub faults: FaultCounts,
    /// The audit's last line.
    pub verdict: String,
    pub clean: bool,
    /// The generator's share of the machine, 0 to 1.
    pub generator_share: f64,
    /// Of accepted purchases, in microseconds.
    #[serde(skip)]
    pub latencies_us: Vec<u64>,
    /// When each accepted purchase was answered, and its units.
    #[serde(skip)]
    pub sales: Vec<(u64, i64)>,
}

/// Runs one load. What cannot be judged is said in the round and never counts as good.
pub async fn run(options: &RunOptions, environment: &Environment) -> Round {
    let mut round = match run::execute(options, environment).await {
        Ok(run) => read(&run),
        Err(CannotJudge(reason)) => Round { could_not_judge: Some(reason), ..Round::default() },
    };
    round.concurrency = options.concurrency;
    round
}

fn read(run: &Run) -> Round {
    let report = &run.report;
    let traffic = &run.report.traffic;
    let audit = &report.audit;
    let accepted =
        || run.traffic.answers.iter().filter(|answer| answer.outcome == Outcome::Accepted);
    let sold = audit.units_live;
    let stock = report.circumstances.stock;
    let clean = report.verdict.exit_code == crate::failure::EXIT_CLEAN;
    Round {
        // A load that was cut short before the stock was sold shows nothing of the last unit.
        could_not_judge: (clean && sold < stock)
            .then(|| format!("only {sold} of {stock} units were sold in the time allowed")),
        accepted_per_second: traffic.accepted.per_second,
        refused_per_second: traffic.refused.per_second,
        retries: traffic.retries,
        faults: audit.counts(),
        verdict: report.verdict.sentence.clone(),
        clean,
        generator_share: report.circumstances.processor.generator_share,
        latencies_us: accepted().map(|answer| answer.from_plan_us).collect(),
        sales: accepted()
            .map(|answer| (answer.answered_at_us, answer.order_quantity.unwrap_or(1)))
            .collect(),
        ..Round::default()
    }
}
