//! The routes between several ledgers, caches, and the circuit breakers.

pub mod breaker;
pub mod cache;
pub mod gathered;
pub mod shards;
pub mod single_flight;

pub use shards::{Homes, Ledger, ROUTE_ATTEMPTS_MAX, RoutedError, Shards};

use shop_domain::LedgerError;

/// Error: the ledger does not answer, and nothing is remembered.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the ledger does not answer")]
pub struct Unreachable;

impl From<Unreachable> for LedgerError {
    fn from(_: Unreachable) -> Self {
        Self::Unavailable
    }
}
