//! Storage, which is in crates of its own: the ledger in MySQL, and the counters of the gates.

pub mod tls;

pub use gates::store::{memory, redis};
pub use ledger::store::{
    Homes, Ledger, Shards, Unreachable, breaker, cache, gathered, mysql, shards, single_flight,
};
