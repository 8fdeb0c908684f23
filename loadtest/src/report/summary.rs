//! The traffic in figures, made from the record of every answer.

use std::collections::BTreeMap;

use hdrhistogram::Histogram;
use serde::Serialize;

use crate::drive::Traffic;
use ledger_audit::{Answer, Outcome};

/// Longest latency told apart: ten minutes.
const LATENCY_US_MAX: u64 = 600_000_000;
/// Significant decimal digits of a latency.
const LATENCY_DIGITS: u8 = 3;

/// The traffic in figures.
#[derive(Debug, Clone, Serialize)]
pub struct TrafficSummary {
    /// From the common start to the last answer.
    pub seconds: f64,
    /// Attempts, retries included.
    pub attempts: u64,
    /// Attempts after the first.
    pub retries: u64,
    /// Open model: purchases never sent because all connections were busy.
    pub dropped: u64,
    /// Purchases that made an order.
    pub accepted: OutcomeSummary,
    /// Purchases that were refused for good.
    pub refused: OutcomeSummary,
    /// Unavailable and unknown ends.
    pub other: OutcomeSummary,
    /// Refusals per second after the last accepted answer: the sold-out path alone.
    pub refused_per_second_once_sold_out: Option<f64>,
    /// Attempts by status and code.
    pub outcomes: Vec<OutcomeRow>,
}

/// Purchases of one outcome.
#[derive(Debug, Clone, Serialize)]
pub struct OutcomeSummary {
    /// Number of purchases.
    pub purchases: u64,
    /// From the common start to the last answer of this outcome.
    pub seconds: f64,
    /// Purchases per second of that time.
    pub per_second: f64,
    /// From the planned instant to the end of the purchase, retries included.
    pub from_plan: Latency,
    /// From sending to the answer, of the last attempt.
    pub from_send: Latency,
}

/// Latency in microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Latency {
    /// Median.
    pub p50_us: u64,
    /// 90th percentile.
    pub p90_us: u64,
    /// 99th percentile.
    pub p99_us: u64,
    /// 99.9th percentile.
    pub p999_us: u64,
    /// The slowest.
    pub max_us: u64,
}

/// One kind of answer and how often it came.
#[derive(Debug, Clone, Serialize)]
pub struct OutcomeRow {
    /// What the client may conclude.
    pub outcome: Outcome,
    /// 0 when there was no answer.
    pub status: u16,
    /// The code of the answer.
    pub code: String,
    /// The strategy that was asked for.
    pub strategy: String,
    /// Attempts that were answered so.
    pub attempts: u64,
}

impl TrafficSummary {
    /// Sums the record up.
    pub fn of(traffic: &Traffic, strategies: &[String]) -> Self {
        let answers = &traffic.answers;
        Self {
            seconds: traffic.elapsed.as_secs_f64(),
            attempts: answers.len() as u64,
            retries: answers.iter().filter(|answer| answer.attempt > 0).count() as u64,
            dropped: traffic.dropped,
            accepted: OutcomeSummary::of(answers, |outcome| outcome == Outcome::Accepted),
            refused: OutcomeSummary::of(answers, |outcome| outcome == Outcome::Refused),
            other: OutcomeSummary::of(answers, |outcome| {
                matches!(outcome, Outcome::Unavailable | Outcome::Unknown)
            }),
            refused_per_second_once_sold_out: refused_once_sold_out(answers),
            outcomes: outcome_rows(answers, strategies),
        }
    }
}

impl OutcomeSummary {
    fn of(answers: &[Answer], which: impl Fn(Outcome) -> bool) -> Self {
        let mut from_plan = histogram();
        let mut from_send = histogram();
        let mut last_us = 0;
        for answer in answers.iter().filter(|answer| answer.last && which(answer.outcome)) {
            from_plan.saturating_record(answer.from_plan_us.max(1));
            from_send.saturating_record(answer.from_send_us.max(1));
            last_us = last_us.max(answer.answered_at_us);
        }
        let purchases = from_plan.len();
        let seconds = last_us as f64 / 1e6;
        Self {
            purchases,
            seconds,
            per_second: if seconds > 0.0 { purchases as f64 / seconds } else { 0.0 },
            from_plan: Latency::of(&from_plan),
            from_send: Latency::of(&from_send),
        }
    }
}

impl Latency {
    /// Of latencies in microseconds.
    pub fn of_all(latencies_us: &[u64]) -> Self {
        let mut all = histogram();
        latencies_us.iter().for_each(|latency_us| all.saturating_record((*latency_us).max(1)));
        Self::of(&all)
    }

    fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: histogram.max(),
        }
    }
}

fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_US_MAX, LATENCY_DIGITS).expect("the bounds are valid")
}

fn refused_once_sold_out(answers: &[Answer]) -> Option<f64> {
    /// Fewer say nothing about a rate.
    const REFUSALS_MIN: usize = 100;
    let at = |answer: &Answer| answer.answered_at_us;
    let sold_out_at =
        answers.iter().filter(|answer| answer.outcome == Outcome::Accepted).map(at).max()?;
    let after: Vec<u64> = answers
        .iter()
        .filter(|answer| answer.outcome == Outcome::Refused && answer.code == "sold_out")
        .filter(|answer| answer.answered_at_us > sold_out_at)
        .map(at)
        .collect();
    let seconds = (after.iter().max()? - sold_out_at) as f64 / 1e6;
    (after.len() >= REFUSALS_MIN && seconds > 0.0).then(|| after.len() as f64 / seconds)
}

fn outcome_rows(answers: &[Answer], strategies: &[String]) -> Vec<OutcomeRow> {
    let mut counts: BTreeMap<(Outcome, u16, &str, u32), u64> = BTreeMap::new();
    for answer in answers {
        *counts
            .entry((answer.outcome, answer.status, &answer.code, answer.strategy))
            .or_default() += 1;
    }
    counts
        .into_iter()
        .map(|((outcome, status, code, strategy), attempts)| OutcomeRow {
            outcome,
            status,
            code: code.to_owned(),
            strategy: strategies.get(strategy as usize).cloned().unwrap_or_default(),
            attempts,
        })
        .collect()
}
