//! Storage in MySQL: the connections, all SQL that neither writes an order nor takes stock, the routes
//! between several ledgers, caches, and the circuit breakers.
//!
//! The ledger in MySQL is the truth; counters in Redis are loaded from it, never the other way.

pub mod breaker;
pub mod cache;
pub mod gathered;
pub mod mysql;
pub mod shards;
pub mod single_flight;

pub use shards::{Homes, Ledger, Shards};

/// Error: the ledger does not answer, and nothing is remembered.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the ledger does not answer")]
pub struct Unreachable;
