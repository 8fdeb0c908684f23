//! The retry budget: one retry for every ten writes, so that retries cannot multiply the load on a
//! database that is in trouble. A reserve covers short storms.

use std::sync::atomic::{AtomicI64, Ordering};

/// Credit that a write adds.
const WRITE: i64 = 1;
/// Credit that a retry costs.
const RETRY: i64 = 10;
/// The most credit that is saved up: a hundred retries.
const RESERVE_MAX: i64 = 100 * RETRY;

/// The retries of one process.
#[derive(Debug)]
pub struct RetryBudget(AtomicI64);

impl RetryBudget {
    /// A full reserve.
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicI64::new(RESERVE_MAX))
    }

    /// Adds the credit of one write.
    pub fn write(&self) {
        if self.0.fetch_add(WRITE, Ordering::Relaxed) >= RESERVE_MAX {
            self.0.fetch_sub(WRITE, Ordering::Relaxed);
        }
    }

    /// Pays for a retry; `false` when the credit does not suffice.
    #[must_use]
    pub fn retry(&self) -> bool {
        let paid = self.0.fetch_sub(RETRY, Ordering::Relaxed) >= RETRY;
        if !paid {
            self.0.fetch_add(RETRY, Ordering::Relaxed);
        }
        paid
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_tenth_of_the_writes_once_the_reserve_is_gone() {
        let budget = RetryBudget::new();
        let reserve = (0..1_000).filter(|_| budget.retry()).count();
        assert_eq!(reserve, 100);
        let mut retries = 0;
        for _ in 0..1_000 {
            budget.write();
            retries += u32::from(budget.retry());
        }
        assert_eq!(retries, 100);
    }
}
