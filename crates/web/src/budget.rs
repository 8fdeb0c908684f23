//! Bounds the bytes of large answers that wait for their clients: for a connection, an address and the
//! process.
//!
//! An answer of up to one piece ([`PIECE_BYTES`]) takes nothing from a budget: the number of streams and of
//! connections bounds those.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of an answer that are sent at once.
pub const PIECE_BYTES: usize = 16 * 1024;
/// Bytes of large answers that wait for one connection.
const CONNECTION_BYTES_MAX: usize = 16 << 20;
/// Bytes of large answers that wait for one address.
const ADDRESS_BYTES_MAX: usize = 64 << 20;
/// Bytes of large answers that wait for all clients of an instance.
const PROCESS_BYTES_MAX: usize = 256 << 20;

/// Bytes that may be held at once. Clones share them.
#[derive(Clone, Debug)]
pub struct Budget(pub(crate) Arc<Semaphore>);

/// The budgets of one connection; clones share them.
#[derive(Clone, Debug)]
pub struct Budgets(Arc<[Budget]>);

/// The right to hold some bytes; dropping it gives them back.
#[derive(Debug)]
pub struct Lease {
    _parts: Vec<OwnedSemaphorePermit>,
}

impl Budgets {
    /// The budgets of a new connection, beside those of its address, if it is limited, and of the process.
    #[must_use]
    pub fn of_connection(address: Option<Budget>, process: Budget) -> Self {
        let own = Budget::new(CONNECTION_BYTES_MAX);
        Self([own, process].into_iter().chain(address).collect())
    }

    /// Takes bytes from each budget; `None` when one has too few, which takes nothing.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Lease> {
        let bytes = u32::try_from(bytes).ok()?;
        let parts =
            self.0.iter().map(|Budget(left)| Arc::clone(left).try_acquire_many_owned(bytes));
        parts.collect::<Result<_, _>>().ok().map(|parts| Lease { _parts: parts })
    }
}

impl Budget {
    /// The budget of an address.
    #[must_use]
    pub fn of_address() -> Self {
        Self::new(ADDRESS_BYTES_MAX)
    }

    /// The budget of the process.
    #[must_use]
    pub fn of_process() -> Self {
        Self::new(PROCESS_BYTES_MAX)
    }

    fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Semaphore::new(bytes_max)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_is_used_up_takes_nothing_from_the_others() {
        let process = Budget::new(250);
        let connection = |bytes_max| Budgets([Budget::new(bytes_max), process.clone()].into());
        let one = connection(100);
        let first = one.take(60).expect("enough");
        assert!(one.take(60).is_none(), "of its own budget");
        assert_eq!(process.0.available_permits(), 190, "a refusal keeps nothing");
        let two = connection(1_000);
        let second = two.take(190).expect("the rest");
        assert!(two.take(1).is_none(), "of the process");
        drop((first, second));
        assert!(one.take(100).is_some());
    }
}
