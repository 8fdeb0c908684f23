//! Storage: all SQL that neither writes an order nor takes stock, all Redis commands of the gates,
//! the counters in this process's memory, its caches, and the circuit breakers.
//!
//! The ledger in MySQL is the truth; counters in Redis are loaded from it, never the other way.

pub mod breaker;
pub mod cache;
pub mod gathered;
pub mod memory;
pub mod mysql;
pub mod redis;
pub mod shards;
pub mod single_flight;
pub mod tls;

pub use shards::{Homes, Ledger, Shards};

/// Error: the ledger does not answer, and nothing is remembered.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the ledger does not answer")]
pub struct Unreachable;
