//! Which item each purchase goes to.

use rand::distr::Distribution;
use rand::distr::weighted::WeightedIndex;
use rand::rngs::StdRng;
use serde::Serialize;

/// Exponent of Zipf's law: the item of rank `k` is asked for in proportion to `1 / k^EXPONENT`.
pub const EXPONENT: f64 = 1.0;

/// How purchases are spread over items.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Workload {
    /// Each item is asked for alike.
    Uniform,
    /// By Zipf's law.
    Skewed,
}

/// Draws items by their weight.
pub struct Draw {
    index: WeightedIndex<f64>,
}

impl Draw {
    /// Over `items` items, of which the first is asked for most under a skewed workload.
    pub fn new(workload: Workload, items: u32) -> Self {
        let weight = |rank: u32| match workload {
            Workload::Uniform => 1.0,
            Workload::Skewed => f64::from(rank).powf(-EXPONENT),
        };
        let weights: Vec<f64> = (1..=items.max(1)).map(weight).collect();
        Self { index: WeightedIndex::new(weights).expect("each weight is above zero") }
    }

    /// The index of one item.
    pub fn item(&self, random: &mut StdRng) -> u32 {
        u32::try_from(self.index.sample(random)).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    const DRAWS: u32 = 100_000;

    fn counts(workload: Workload, items: u32) -> Vec<f64> {
        let draw = Draw::new(workload, items);
        let mut random = StdRng::seed_from_u64(7);
        let mut counts = vec![0.0; items as usize];
        (0..DRAWS).for_each(|_| counts[draw.item(&mut random) as usize] += 1.0);
        counts
    }

    #[test]
    fn skewed_demand_follows_zipf() {
        let counts = counts(Workload::Skewed, 100);
        // The sum of 1 / k up to 100 is 5.187.
        let expected = |rank: f64| f64::from(DRAWS) / 5.187 / rank;
        for rank in [1, 2, 10, 50] {
            let ratio = counts[rank - 1] / expected(rank as f64);
            assert!((0.8..1.2).contains(&ratio), "rank {rank}: {ratio} of what it should be");
        }
    }

    #[test]
    fn uniform_demand_reaches_every_item_alike() {
        let counts = counts(Workload::Uniform, 10);
        assert!(counts.iter().all(|count| (9_000.0..11_000.0).contains(count)), "{counts:?}");
        assert_eq!(self::counts(Workload::Uniform, 1), [f64::from(DRAWS)]);
    }
}
