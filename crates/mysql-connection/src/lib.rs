//! Connections to MySQL and its relatives: pools which follow the writer among several hosts, and the statements and
//! transactions on them. The crate knows nothing of sales.
//!
//! With several hosts in its URL, [`Writer`] asks all of them who writes, decides, and leads the pools there. A
//! [`pool`](fn@pool) gives only connections that lead to the writer. An answer of a server that was replaced does not
//! count ([`Destination`]).
//!
//! # Modules, in reading order
//! 1. [`statement`]: binds values to a statement and sends it.
//! 2. `transaction.rs`: begins a transaction ([`transact`]) and ends it. `database.rs`: the handle of the connections.
//! 3. `error.rs`: errors by their meaning ([`Fault`]), without the values of a statement.
//! 4. [`limits`]: how long an answer is awaited. `new_id.rs`: ids that no other row has ([`with_new_id`]).
//! 5. `pool.rs`, `writer.rs`, `choice.rs`: pools, and the writer that they follow.
//! 6. [`session`]: how each session is set up. [`hosts`]: the URL. [`named_lock`]: one session at a time does something.
//! 7. [`replication`] and [`shards`]: what stands behind a server. [`engine`] and [`check`]: what an operator is told of it.

pub mod check;
mod choice;
mod database;
pub mod engine;
mod error;
pub mod hosts;
pub mod limits;
pub mod named_lock;
mod new_id;
mod pool;
pub mod replication;
pub mod session;
pub mod shards;
pub mod statement;
mod transaction;
mod writer;

pub use database::{Database, Destination};
pub use error::{Fault, all_in_use, contended, is_unconfirmed, out_of_range, unconfirmed};
pub use limits::{answered, within};
pub use new_id::{is_taken_id, with_new_id};
pub use pool::{PoolOptions, SignOfLife, pool, pool_of, pool_to, sign_of_life};
pub use session::{Snapshot, begin_snapshot};
pub use shards::Shards;
pub use transaction::{
    LedgerTransaction, Rollback, WorkError, begin, begin_on, confirmed, transact,
};
pub use writer::Writer;
