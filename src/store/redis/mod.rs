//! Redis: the connection, and the counters that gates work on.
//!
//! | key | type | life | what |
//! |---|---|---|---|
//! | `{item:ID}:stock` | hash: `available`, `epoch` | until it is loaded again | units left, as a gate counts |
//! | `…lock…` | see `lock::redis` | a lease | locks and their fence counters |
//! | `orders` | channel | - | changes of orders, between instances |
//!
//! Every key begins with the configured prefix; all keys of an item share a hash tag, so that a
//! script touches one slot of a cluster.

pub mod connection;
pub mod counters;

pub use connection::RedisClient;
pub use counters::{Counter, CounterError, Counters};
