//! Bounds the bytes of large answers that wait for their clients: for a connection, an address and the
//! process.
//!
//! An answer of up to one piece ([`PIECE_BYTES`]) takes nothing from a budget: the number of streams and of
//! connections bounds those.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The bytes of an answer that are sent at once.
pub const PIECE_BYTES: usize = 16 * 1024;
/// Bytes of large answers that wait for one connection.
const CONNECTION_BYTES_MAX: usize = 16 << 20;
/// Bytes of large answers that wait for one address.
const ADDRESS_BYTES_MAX: usize = 64 << 20;
/// Bytes of large answers that wait for all clients of an instance.
const PROCESS_BYTES_MAX: usize = 256 << 20;

/// Bytes that may be held at once.
#[derive(Debug)]
pub struct Budget {
    bytes_max: usize,
    used: AtomicUsize,
}

/// The budgets of one connection; clones share them.
#[derive(Clone, Debug)]
pub struct Budgets {
    budgets: Arc<[Arc<Budget>]>,
}

/// The right to hold some bytes; dropping it gives them back.
#[derive(Debug)]
pub struct Lease {
    _parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    budget: Arc<Budget>,
    bytes: usize,
}

impl Budgets {
    /// The budgets of a new connection, beside those of its address, if it is limited, and of the process.
    #[must_use]
    pub fn of_connection(address: Option<Arc<Budget>>, process: Arc<Budget>) -> Self {
        let own = Budget::new(CONNECTION_BYTES_MAX);
        Self { budgets: [own, process].into_iter().chain(address).collect() }
    }

    /// Takes bytes from each budget; `None` when one has too few, which takes nothing.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Lease> {
        let parts: Option<Vec<Part>> =
            self.budgets.iter().map(|budget| Part::take(budget, bytes)).collect();
        parts.map(|parts| Lease { _parts: parts })
    }
}

impl Budget {
    /// The budget of an address.
    #[must_use]
    pub fn of_address() -> Arc<Self> {
        Self::new(ADDRESS_BYTES_MAX)
    }

    /// The budget of the process.
    #[must_use]
    pub fn of_process() -> Arc<Self> {
        Self::new(PROCESS_BYTES_MAX)
    }

    fn new(bytes_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, used: AtomicUsize::new(0) })
    }
}

impl Part {
    fn take(budget: &Arc<Budget>, bytes: usize) -> Option<Self> {
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= budget.bytes_max);
        budget.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Self { budget: Arc::clone(budget), bytes })
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_used_up_takes_nothing_from_the_others() {
        let process = Budget::new(250);
        let connection = |bytes_max| Budgets {
            budgets: [Budget::new(bytes_max), Arc::clone(&process)].into_iter().collect(),
        };
        let one = connection(100);
        let first = one.take(60).expect("enough");
        assert!(one.take(60).is_none(), "of its own budget");
        assert_eq!(process.used.load(Ordering::Relaxed), 60, "a refusal keeps nothing");
        let two = connection(1_000);
        let second = two.take(190).expect("the rest");
        assert!(two.take(1).is_none(), "of the process");
        drop((first, second));
        assert!(one.take(100).is_some());
    }
}
