//! The ledger: the rows of the shop in MySQL, and the only code that writes an order or takes stock.
//!
//! # Modules, in reading order
//! 1. [`write`]: the one transaction that writes an order, single or in a batch.
//! 2. [`waiting_list`]: buyers who wait for units that come back, and the offers to them.
//! 3. [`draw`]: entries of sales that are drawn, and their places.
//! 4. [`order`]: what happens to an order after it is placed.
//! 5. [`catalog`]: creating and editing items.
//! 6. [`erasure`]: the deletion of a person.
//! 7. [`rows`]: the statements that neither write an order nor take stock.
//! 8. [`schema`]: the tables, and how they are brought up to date.
//! 9. [`failover`]: the connections, which follow the writer among several hosts.
//! 10. [`work`]: how work is called, with [`breaker`] (calls that are refused while a server does not answer),
//!     [`cache`], [`gathered`] and [`single_flight`] (reads that many ask for at once), and what a transaction must have
//!     before it waits for an item.
//! 11. [`sql`]: statements, transactions, their errors and their time limits, also for extensions with SQL of their own.

#[macro_use]
extern crate failpoint;
#[macro_use]
extern crate shop_domain;

pub mod catalog;
pub mod draw;
pub mod erasure;
pub mod failover;
pub mod order;
pub mod rows;
pub mod schema;
pub mod sql;
mod threads {
    //! The locks that threads of the batches share. The crate `interleavings` has a module of this name: it compiles
    //! the files of the batches against locks that try many interleavings of threads.

    pub(crate) use std::sync::atomic::AtomicBool;
    pub(crate) use std::sync::{Mutex, MutexGuard};
}
pub mod waiting_list;
pub mod work;
pub mod write;

pub use failover::LedgerOptions;
pub use rows::account::guests;
pub use shop_domain::Unreachable;
pub use sql::Database;
/// An error of the database, and a result with it.
pub use sqlx::{Error, Result};
pub use work::item_concurrency::{ItemConcurrency, ItemPermit, TellWait};
pub use work::{Ledger, RetryPolicy, breaker, cache, gathered, single_flight};
