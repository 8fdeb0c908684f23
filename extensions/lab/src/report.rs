//! The report of a run: its cells with their figures and verdicts, as JSON for pages.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use time::OffsetDateTime;
use utoipa::ToSchema;

/// A comparison: some strategies, each on a fresh item.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Run {
    /// A UUIDv7.
    pub id: String,
    pub state: RunState,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// The end of the run, whatever ended it.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    /// The request, with the defaults filled in.
    pub request: RunRequest,
    /// One for each strategy, arbiter and round, in the order in which they run.
    #[serde(rename = "lanes")]
    pub cells: Vec<Cell>,
}

/// The state of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its lanes run, one after the other.
    Running,
    /// Every lane ended.
    Done,
    /// A lane could not be run or audited.
    Failed,
    /// An operator ended it, or the service stopped.
    Cancelled,
}

/// The request of a run.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = Wanted)]
pub struct RunRequest {
    /// Names of strategies, each with its options as in the purchase's route.
    pub strategies: Vec<String>,
    /// Units of each lane's item.
    pub stock: i64,
    /// Buyers; they send their purchases round-robin.
    pub buyers: u32,
    /// Purchases of each lane.
    pub requests: u32,
    /// Purchases that run at once.
    pub concurrency: u32,
    /// `off`, `on` or `both`.
    pub arbiter: Arbiters,
    /// How many times each lane runs; every other round in reverse order.
    pub rounds: u32,
    /// Units of each purchase.
    pub quantity: u32,
    /// Seconds after which a lane sends no further purchase.
    pub seconds_max: u32,
}

/// Whether the lanes run with the arbiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arbiters {
    /// The gate alone decides, without the arbiter.
    #[default]
    Off,
    /// The arbiter decides behind the gate.
    On,
    /// Each strategy once without and once with the arbiter.
    Both,
}

/// The result of one strategy with one arbiter in one round, on an item of its own; `lane` in JSON.
#[derive(Clone, Debug, Default, Serialize, ToSchema)]
#[schema(as = Lane)]
pub struct Cell {
    /// Its index in the run, from 0.
    pub index: usize,
    /// The strategy with its options.
    pub strategy: String,
    /// `on` or `off`.
    pub arbiter: &'static str,
    /// The round, from 1.
    pub round: u32,
    /// Whether the gate alone, with these options, is declared never to oversell.
    pub safe: bool,
    /// Its item, once that is made.
    pub item_id: Option<i64>,
    pub state: CellState,
    /// Time from the first purchase to the last answer.
    pub elapsed_ms: u64,
    /// Units on sale.
    pub stock: i64,
    /// Purchases that were answered.
    pub requests_done: u64,
    /// Purchases that were answered with an order, durable or queued.
    pub accepted: u64,
    /// Purchases that were refused for good.
    pub refused: u64,
    /// Refused purchases by the code of the refusal.
    pub refused_by: BTreeMap<String, u64>,
    /// Purchases that were not served and changed nothing; a client may send them again.
    pub unavailable: u64,
    /// Purchases whose outcome was not known in time.
    pub unknown: u64,
    /// Units sold, by the orders in the ledger.
    pub sold: i64,
    /// Units left, by the ledger's stock row.
    pub available: i64,
    /// Units sold beyond the stock.
    pub oversold: i64,
    /// Units left that purchases refused as "sold out" could have had.
    pub undersold: i64,
    /// Accepted answers without their order.
    pub lost: u64,
    /// Orders without an accepted answer, other than those of an unknown outcome.
    pub phantom: u64,
    /// Orders too many for one request, and orders that two requests were given.
    pub duplicates: u64,
    /// Accepted purchases per second.
    pub accepted_per_second: f64,
    /// Refused purchases per second.
    pub refused_per_second: f64,
    /// The time from a purchase to its answer.
    pub latency_ms: Latency,
    /// Writes that the gate let through and the arbiter refused, in this process meanwhile.
    pub arbiter_refusals: u64,
    /// The result of the audit; `null` before it.
    pub verdict: Option<Verdict>,
    /// Whether the verdict is what the strategy's card says; `null` when it does not tell.
    pub as_declared: Option<bool>,
    /// The faults, a sentence each.
    pub violations: Vec<String>,
    /// Remarks for the reader; may be empty.
    pub note: String,
}

/// The state of a lane.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, ToSchema)]
#[schema(as = LaneState)]
#[serde(rename_all = "snake_case")]
pub enum CellState {
    /// Waits for the lanes before it.
    #[default]
    Waiting,
    /// Purchases are sent.
    Running,
    /// Queued purchases are decided, then the ledger is audited.
    Auditing,
    /// Audited, with a verdict.
    Done,
    /// Ended by an error before its verdict.
    Failed,
    /// Not run.
    Skipped,
}

/// The result of an audit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong.
    Clean,
    /// More was sold than there was.
    Oversold,
    /// Buyers were answered "sold out" while units were left.
    Undersold,
    /// An accepted order is not in the ledger.
    Lost,
    /// The ledger contradicts itself or the answers.
    Inconsistent,
    /// No purchase was served, so nothing is proved.
    NothingRan,
}

/// Percentiles of the time of a purchase, in milliseconds; `null` without purchases.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct Latency {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

impl Latency {
    /// The percentiles of `micros`, which is sorted here.
    pub fn of(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        let at = |percent: usize| {
            // Nearest rank: the smallest value that at least `percent` of the values do not exceed.
            let rank = (micros.len() * percent).div_ceil(100).max(1);
            micros.get(rank - 1).map(|&micros| milliseconds(micros))
        };
        Self { p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

fn milliseconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64() * 1_000.0
}

/// An event for the watchers of a run.
#[derive(Clone, Debug)]
pub enum Event {
    /// The figures of the cell that runs.
    Progress(Box<Cell>),
    /// A cell changed its state.
    Cell(Box<Cell>),
    /// The run ended.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let micros: Vec<u64> = (1..=1_000).rev().map(|n| n * 1_000).collect();
        let latency = Latency::of(micros);
        assert_eq!((latency.p50, latency.p90), (Some(500.0), Some(900.0)));
        assert_eq!((latency.p99, latency.max), (Some(990.0), Some(1_000.0)));
        assert_eq!(Latency::of(vec![7_000]).p50, Some(7.0));
        assert_eq!(Latency::of(Vec::new()).max, None);
    }
}
