//! What will be sent: who asks for what, with which key, and in the open model when.
//!
//! Made before the first byte is sent, from a seed, so that a run can be repeated.

use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};

use crate::failure::CannotJudge;

/// More arrivals than this are a mistyped rate.
const REQUESTS_MAX: f64 = 50_000_000.0;

/// Everything that will be sent, in order.
#[derive(Debug)]
pub struct Plan {
    /// One entry a purchase.
    pub requests: Vec<PlannedPurchase>,
    /// Open model: when each purchase is due, counted from the start. `None` = closed model.
    pub arrivals: Option<Vec<Duration>>,
    /// First half of every key, unique to this run so that no earlier order is replayed;
    /// `None` when no keys are sent.
    pub key_prefix: Option<String>,
}

/// One purchase to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPurchase {
    /// Index of the buyer: 0 is `--first-buyer`.
    pub buyer: u32,
    /// Index of the strategy.
    pub strategy: u32,
}

/// How many purchases, and when.
#[derive(Debug, Clone, Copy)]
pub enum Pace {
    /// Closed model: each connection sends its next purchase after its reply.
    Closed {
        /// Number of purchases.
        requests: u32,
    },
    /// Open model: Poisson arrivals, whether or not replies have come.
    Open {
        /// Mean arrivals per second.
        rate_per_second: f64,
        /// How long arrivals go on.
        seconds: f64,
    },
}

impl Plan {
    /// Draws a plan. `strategies` are switched from request to request.
    pub fn draw(
        pace: Pace,
        buyers: u32,
        strategies: u32,
        key_prefix: Option<String>,
        seed: u64,
    ) -> Result<Self, CannotJudge> {
        let mut random = StdRng::seed_from_u64(seed);
        let (count, arrivals) = match pace {
            Pace::Closed { requests } => (requests as usize, None),
            Pace::Open { rate_per_second, seconds } => {
                if rate_per_second * seconds > REQUESTS_MAX {
                    return Err(CannotJudge(format!(
                        "--rate times --seconds is above {REQUESTS_MAX:.0} requests"
                    )));
                }
                let arrivals = poisson(&mut random, rate_per_second, seconds);
                (arrivals.len(), Some(arrivals))
            }
        };
        if count == 0 {
            return Err(CannotJudge::new("the plan is empty: raise --rate or --seconds"));
        }
        let requests = turns(&mut random, count, buyers)
            .into_iter()
            .zip((0..strategies.max(1)).cycle())
            .map(|(buyer, strategy)| PlannedPurchase { buyer, strategy })
            .collect();
        Ok(Self { requests, arrivals, key_prefix })
    }

    /// The key of purchase number `index`: the same on every attempt.
    pub fn key(&self, index: usize) -> Option<String> {
        self.key_prefix.as_ref().map(|prefix| format!("{prefix}-{index}"))
    }
}

/// Everybody once in a shuffled order, then everybody again in another, until `count` is reached.
fn turns(random: &mut StdRng, count: usize, buyers: u32) -> Vec<u32> {
    let mut round: Vec<u32> = (0..buyers).collect();
    let mut turns = Vec::with_capacity(count);
    while turns.len() < count {
        round.shuffle(random);
        let left = count - turns.len();
        turns.extend(round.iter().take(left));
    }
    turns
}

/// Arrivals of independent buyers: the gaps are exponentially distributed.
fn poisson(random: &mut StdRng, rate_per_second: f64, seconds: f64) -> Vec<Duration> {
    let mut arrivals = Vec::new();
    let mut moment = 0.0;
    loop {
        let uniform: f64 = random.random();
        moment += -(1.0 - uniform).ln() / rate_per_second;
        if moment >= seconds {
            return arrivals;
        }
        arrivals.push(Duration::from_secs_f64(moment));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_repeats_the_plan() {
        let draw = |seed| {
            let pace = Pace::Open { rate_per_second: 1_000.0, seconds: 2.0 };
            Plan::draw(pace, 100, 1, None, seed).expect("a plan")
        };
        assert_eq!(draw(1).requests, draw(1).requests);
        assert_eq!(draw(1).arrivals, draw(1).arrivals);
        assert_ne!(draw(1).arrivals, draw(2).arrivals);
        let count = draw(1).requests.len();
        assert!((1_800..=2_200).contains(&count), "{count} arrivals instead of about 2,000");
    }
}
