//! What a run tells: its lanes, their figures and their verdicts, as data that pages read.

use std::collections::BTreeMap;

use serde::Serialize;
use time::OffsetDateTime;
use utoipa::ToSchema;

/// A comparison: some strategies, each on a fresh item.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Run {
    /// A UUIDv7.
    pub id: String,
    /// Where it stands.
    pub state: RunState,
    #[expect(missing_docs, reason = "its name says it")]
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
    /// When it ended, however it did.
    #[serde(with = "time::serde::rfc3339::option")]
    pub finished_at: Option<OffsetDateTime>,
    /// What was asked for, with what was left out filled in.
    pub request: Wanted,
    /// In the order in which they run.
    pub lanes: Vec<Lane>,
}

/// Where a run stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// Its lanes run, one after the other.
    Running,
    /// Every lane ended.
    Done,
    /// A lane could not be run or audited.
    Failed,
    /// Somebody ended it, or the service stopped.
    Cancelled,
}

/// What a run is asked for.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Wanted {
    /// Names of strategies, each with its options as in the purchase's route.
    pub strategies: Vec<String>,
    /// Units of each lane's item.
    pub stock: i64,
    /// Buyers who take turns.
    pub buyers: u32,
    /// Purchases of each lane.
    pub requests: u32,
    /// Purchases that run at once.
    pub concurrency: u32,
    /// `off`, `on` or `both`.
    pub arbiter: Arbiters,
    /// How often everything is run; every other round in reverse order.
    pub rounds: u32,
    /// Units of each purchase.
    pub quantity: u32,
    /// Seconds after which a lane sends no further purchase.
    pub seconds_max: u32,
}

/// With which arbiter the lanes run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Arbiters {
    /// The gates are alone.
    Off,
    /// The arbiter stands behind the gates.
    On,
    /// Each strategy once so and once so.
    Both,
}

/// One strategy on one item.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Lane {
    /// Its place in the run, from 0.
    pub index: usize,
    /// The strategy with its options.
    pub strategy: String,
    /// `on` or `off`.
    pub arbiter: &'static str,
    /// The round, from 1.
    pub round: u32,
    /// Whether the gate alone, with these options, is said never to oversell.
    pub safe: bool,
    /// Its item, once that is made.
    pub item_id: Option<i64>,
    /// Where it stands.
    pub state: LaneState,
    /// How long purchases were sent and waited for.
    pub elapsed_ms: u64,
    /// Units on sale.
    pub stock: i64,
    /// Purchases that were answered.
    pub requests_done: u64,
    /// Purchases that were answered with an order, durable or queued.
    pub accepted: u64,
    /// Purchases that were refused for good.
    pub refused: u64,
    /// The same by the code of the refusal.
    pub refused_by: BTreeMap<&'static str, u64>,
    /// Purchases that were told to try again; they changed nothing.
    pub unavailable: u64,
    /// Purchases whose outcome was not known in time.
    pub unknown: u64,
    /// Units sold, by the orders in the ledger.
    pub sold: i64,
    /// Units left, by the ledger's stock row.
    pub available: i64,
    /// Units sold beyond the stock.
    pub oversold: i64,
    /// Units left that buyers wanted who were told "sold out".
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
    /// How long purchases took to be answered.
    pub latency_ms: Latency,
    /// Writes that the gate let through and the arbiter refused, in this process meanwhile.
    pub arbiter_refusals: u64,
    /// What the audit found; `null` until then.
    pub verdict: Option<Verdict>,
    /// Whether the verdict is what the strategy's card says; `null` when it does not tell.
    pub as_declared: Option<bool>,
    /// What is wrong, a sentence each.
    pub violations: Vec<String>,
    /// What a reader should know; may be empty.
    pub note: String,
}

/// Where a lane stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum LaneState {
    /// Others come first.
    Waiting,
    /// Purchases are sent.
    Running,
    /// Queued purchases settle, then the ledger is read.
    Auditing,
    /// It has its verdict.
    Done,
    /// It could not be run or audited.
    Failed,
    /// It was not run.
    Skipped,
}

/// What an audit found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong.
    Clean,
    /// More was sold than there was.
    Oversold,
    /// Buyers were told "sold out" while units were left.
    Undersold,
    /// An accepted order is not in the ledger.
    Lost,
    /// The ledger contradicts itself or what buyers were told.
    Inconsistent,
    /// Nobody was served, so nothing is proved.
    NothingRan,
}

/// Percentiles of what was measured around each purchase; `null` until there are any.
#[derive(Clone, Copy, Debug, Default, Serialize, ToSchema)]
pub struct Latency {
    pub p50: Option<f64>,
    pub p90: Option<f64>,
    pub p99: Option<f64>,
    pub max: Option<f64>,
}

impl Latency {
    /// The percentiles of `micros`, which is sorted here.
    #[must_use]
    pub fn of(micros: &mut [u64]) -> Self {
        micros.sort_unstable();
        let at = |percent: usize| {
            // The smallest value that at least so many percent do not exceed.
            let rank = (micros.len() * percent).div_ceil(100).max(1);
            micros.get(rank - 1).map(|&micros| milliseconds(micros))
        };
        Self { p50: at(50), p90: at(90), p99: at(99), max: at(100) }
    }
}

fn milliseconds(micros: u64) -> f64 {
    std::time::Duration::from_micros(micros).as_secs_f64() * 1_000.0
}

/// A lane as it is seen while it runs.
#[derive(Clone, Copy, Debug, Serialize)]
#[expect(missing_docs, reason = "the fields are those of Lane")]
pub struct Progress {
    pub index: usize,
    pub elapsed_ms: u64,
    pub requests_done: u64,
    pub accepted: u64,
    pub refused: u64,
    pub unavailable: u64,
    pub unknown: u64,
    pub available: i64,
    pub sold: i64,
    pub oversold: i64,
}

/// What watchers of a run are told.
#[derive(Clone, Debug)]
pub enum Event {
    /// The figures of the lane that runs.
    Progress(Progress),
    /// A lane changed its state.
    Lane(Box<Lane>),
    /// The run ended.
    Done,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_measured() {
        let mut micros: Vec<u64> = (1..=1_000).rev().map(|n| n * 1_000).collect();
        let latency = Latency::of(&mut micros);
        assert_eq!((latency.p50, latency.p90), (Some(500.0), Some(900.0)));
        assert_eq!((latency.p99, latency.max), (Some(990.0), Some(1_000.0)));
        assert_eq!(Latency::of(&mut [7_000]).p50, Some(7.0));
        assert_eq!(Latency::of(&mut []).max, None);
    }
}
