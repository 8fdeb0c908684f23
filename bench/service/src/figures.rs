//! Medians, spreads and the ratios of the rounds.

use std::collections::BTreeMap;

use loadtest::spread::Spread;
use serde::Serialize;

use crate::round::{Measure, Round};

/// All figures of a bench.
#[derive(Debug, Serialize)]
pub struct Figures {
    /// Each measure over the rounds.
    pub measures: BTreeMap<Measure, Spread>,
    /// P1 to P8 without P6, and the lone purchase.
    pub ratios: Vec<Ratio>,
}

/// One goal and what was reached: the ratio is made in each round, then its median is taken.
#[derive(Debug, Serialize)]
pub struct Ratio {
    /// `P1` to `P8`, or a word.
    pub id: &'static str,
    /// What is divided by what.
    pub what: &'static str,
    /// What is to be reached.
    pub goal: f64,
    /// Whether the goal is a ceiling and not a floor.
    pub at_most: bool,
    /// What was reached.
    pub reached: Spread,
    /// Whether the median reaches the goal.
    pub met: bool,
}

impl Figures {
    /// Makes the figures of some rounds. `flush_us_p99` is the disk's, for P8.
    pub fn of(rounds: &[Round], flush_us_p99: f64) -> Self {
        use Measure::{
            BareP99, Batch, BatchFew, BatchMany, ComfortP99, LockRedis, LoneBatch, LoneDirect,
            Overload, PerOrder, RawLock, Refusals,
        };
        let mut measures = BTreeMap::new();
        for measure in rounds.iter().flat_map(|round| round.figures.keys()) {
            let values = rounds.iter().filter_map(|round| round.figures.get(measure).copied());
            measures.insert(*measure, Spread::of(values));
        }
        let spread =
            |ratio: &dyn Fn(&Round) -> Option<f64>| Spread::of(rounds.iter().filter_map(ratio));
        let over = |above: Measure, below: Measure| {
            spread(&|round| Some(round.figures.get(&above)? / round.figures.get(&below)?))
        };
        let over_h = |above: Measure| {
            spread(&|round| Some(round.figures.get(&above)? / round.beside.get(&above)?))
        };
        let p8 = spread(&|round| {
            let (ours, bare) = (round.figures.get(&ComfortP99)?, round.figures.get(&BareP99)?);
            Some(ours / (2.0 * flush_us_p99 + bare))
        });
        let ratios = vec![
            Ratio::floor("P1", "refusals/s once sold out / H", 0.90, over_h(Refusals)),
            Ratio::floor("P2", "durable orders/s on one hot item / H", 0.60, over_h(Batch)),
            Ratio::floor("P3", "the same / T", 10.0, over(Batch, PerOrder)),
            Ratio::floor("P4", "with 4,096 clients / with 64", 1.0, over(BatchMany, BatchFew)),
            Ratio::floor("P5", "lock-redis orders/s / K", 3.0, over(LockRedis, RawLock)),
            Ratio::floor("P7", "goodput at 5x offered / peak", 0.90, over(Overload, Batch)),
            Ratio::ceiling("P8", "p99 at 70 % of peak / (2 fsync p99 + H's p99)", 2.0, p8),
            Ratio::ceiling(
                "lone",
                "p50 of a lone purchase, mysql-batch / mysql-atomic",
                1.1,
                over(LoneBatch, LoneDirect),
            ),
        ];
        Self { measures, ratios }
    }
}

impl Ratio {
    fn floor(id: &'static str, what: &'static str, goal: f64, reached: Spread) -> Self {
        Self { id, what, goal, at_most: false, reached, met: reached.median >= goal }
    }

    fn ceiling(id: &'static str, what: &'static str, goal: f64, reached: Spread) -> Self {
        Self { id, what, goal, at_most: true, reached, met: reached.median <= goal }
    }
}
