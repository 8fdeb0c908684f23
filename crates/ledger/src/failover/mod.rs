//! The connections to the ledger's server, and the change to another one while the writer is replaced.
//!
//! With several hosts in its URL, [`Writer`] asks all of them who writes (`replication.rs`), decides (`choice.rs`), and
//! leads the pools there. A pool ([`pool`]) gives only connections that lead to the writer (`link.rs`). An answer
//! of a server that was replaced does not count ([`Destination`](crate::sql::Destination)).

pub mod check;
mod choice;
pub mod engine;
pub mod hosts;
mod link;
pub mod monitor;
mod options;
mod pool;
pub mod replication;
pub(crate) mod session;
pub(crate) mod shards;
mod writer;

pub use monitor::is_writable;
pub use options::LedgerOptions;
pub use pool::{pool, pool_of, pool_to, sign_of_life};
pub use shards::Shards;
pub use writer::Writer;
