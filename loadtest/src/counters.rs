//! What the service counts, read from `/metrics`: the cost of a strategy that answers do not show.

use std::time::Duration;

use serde::Serialize;

use crate::drive::Instance;

/// The page must come within this.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Sums over instances, or the difference of two of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counters {
    /// Acquires of a lock that did not get it at their first look.
    pub lock_waits: f64,
    /// Time from asking for a lock to having it, summed over all that got it, in milliseconds.
    pub lock_wait_ms: f64,
    /// Writes that a gate let through and the arbiter refused.
    pub arbiter_refusals: f64,
    /// Whole transactions that the arbiter tried again.
    pub arbiter_retries: f64,
    /// Writes refused since a later lock holder had written.
    pub fenced: f64,
}

impl Counters {
    /// Reads all instances; `None` when one of them does not answer.
    pub async fn read(instances: &[Instance]) -> Option<Self> {
        let mut sum = Self::default();
        for instance in instances {
            sum = sum.plus(Self::parse(&page(instance).await?), 1.0);
        }
        Some(sum)
    }

    /// What was counted since `before`.
    pub fn since(self, before: Self) -> Self {
        self.plus(before, -1.0)
    }

    /// Both together.
    pub fn and(self, other: Self) -> Self {
        self.plus(other, 1.0)
    }

    fn plus(self, other: Self, factor: f64) -> Self {
        Self {
            lock_waits: self.lock_waits + factor * other.lock_waits,
            lock_wait_ms: self.lock_wait_ms + factor * other.lock_wait_ms,
            arbiter_refusals: self.arbiter_refusals + factor * other.arbiter_refusals,
            arbiter_retries: self.arbiter_retries + factor * other.arbiter_retries,
            fenced: self.fenced + factor * other.fenced,
        }
    }

    fn parse(text: &str) -> Self {
        let sum = |name: &str, label: &str| sum(text, name, label);
        Self {
            lock_waits: sum("seckill_lock", "event=\"contended\""),
            lock_wait_ms: sum("seckill_lock", "event=\"wait_us\"") / 1e3,
            arbiter_refusals: sum("seckill_arbiter_refusals_total", ""),
            arbiter_retries: sum("seckill_arbiter_retries_total", ""),
            fenced: sum("seckill_arbiter_refusals_by_reason_total", "reason=\"fenced\""),
        }
    }
}

/// The sum of all series of a name whose labels contain `label`, on a page of metrics.
pub fn sum(text: &str, name: &str, label: &str) -> f64 {
    let value_of = |line: &str| -> Option<f64> {
        let (key, value) = line.rsplit_once(' ')?;
        let (found, labels) = key.split_once('{').unwrap_or((key, ""));
        if found == name && labels.contains(label) { value.parse().ok() } else { None }
    };
    text.lines().filter_map(value_of).sum()
}

async fn page(instance: &Instance) -> Option<String> {
    let reply = instance.page("/metrics", ANSWER_MAX).await?;
    String::from_utf8(reply.body.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn series_are_summed_over_their_labels() {
        let text = "# TYPE seckill_lock gauge\n\
            seckill_lock{lock=\"redis\",event=\"contended\"} 3\n\
            seckill_lock{lock=\"local\",event=\"contended\"} 4\n\
            seckill_lock{lock=\"local\",event=\"wait_us\"} 1500\n\
            seckill_arbiter_refusals_total{strategy=\"mysql-naive\"} 2\n\
            seckill_arbiter_retries_total 5\n";
        let counters = Counters::parse(text);
        assert_eq!((counters.lock_waits, counters.lock_wait_ms), (7.0, 1.5));
        assert_eq!((counters.arbiter_refusals, counters.arbiter_retries), (2.0, 5.0));
        assert_eq!(counters.since(counters), Counters::default());
    }
}
