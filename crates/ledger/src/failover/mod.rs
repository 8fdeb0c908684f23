//! The connections to the ledger's server, and the change to another one while the writer is replaced.
//!
//! With several hosts in its URL, [`Writer`] asks all of them who writes (`replication.rs`), decides (`choice.rs`), and
//! leads the pools there. A pool ([`pool`]) gives only connections that lead to the writer (`pool.rs`). An answer
//! of a server that was replaced does not count ([`Destination`](crate::sql::Destination)).

pub mod check;
mod choice;
pub mod engine;
pub mod hosts;
pub mod monitor;
pub mod named_lock;
mod pool;
pub mod replication;
pub(crate) mod session;
pub(crate) mod shards;
mod writer;

pub use monitor::is_writable;
pub use pool::{pool, pool_of, pool_to, sign_of_life};
pub use session::{Snapshot, begin_snapshot};
pub use shards::Shards;
pub use writer::Writer;

/// The options of the ledger. A program makes them from its own settings.
#[derive(Clone)]
pub struct LedgerOptions {
    /// The URL of its hosts, with the password.
    pub url: String,
    /// Connections of the pool that most requests share.
    pub pool_connections_max: u32,
    /// How long a statement waits for a locked row, in seconds.
    pub lock_wait_timeout_seconds: u32,
    /// Whether each transaction writes rows of one shard, where the ledger has several. Others may write rows of two, at a
    /// higher price.
    pub one_shard: bool,
    /// How long a request waits for a connection, in milliseconds.
    pub acquire_timeout_ms: u64,
    /// Whether `schema::migrate` makes the procedure of an order.
    pub order_routine: bool,
    /// The currency of items of builds that knew none: `schema::migrate` writes it down once.
    pub currency: String,
}
