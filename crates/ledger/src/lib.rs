//! The ledger: the rows of the shop in MySQL, and the only code that writes an order or takes stock.
//!
//! # Modules, in reading order
//! 1. [`write`]: the one transaction that writes an order, single or in a batch.
//! 2. [`waiting_list`]: buyers who wait for units that come back, and the offers to them.
//! 3. [`order`]: what happens to an order after it is placed.
//! 4. [`catalog`]: creating and editing items.
//! 5. [`erasure`]: the deletion of a person.
//! 6. [`rows`]: the statements that neither write an order nor take stock.
//! 7. [`schema`]: the tables, and how they are brought up to date.
//! 8. [`work`]: how work is called, with [`breaker`] (calls that are refused while a server does not answer),
//!    [`cache`], [`gathered`] and [`single_flight`] (reads that many ask for at once), and what a transaction must have
//!    before it waits for an item.
//!
//! The connections, statements and transactions are those of the crate [`mysql_connection`].
//!
//! # What the SQL of an extension uses
//! * [`mysql_connection::statement`] binds values to a statement and sends it.
//! * [`Ledger::read`] and [`Ledger::change`] are for requests, [`mysql_connection::transact`] is for jobs.
//! * [`work::stock_lock`] puts the changes of an item into one sequence. It takes the permit of the item, which is that of
//!   [`Ledger::permit`] for a request, and of [`ItemPermit::of_job`] for a job.
//! * [`mysql_connection::named_lock`] lets one instance at a time do something.
//! * [`mysql_connection::begin_snapshot`] begins a read of several statements.
//! * [`erasure::traces::Trace`] is a column about people, and what the deletion of a person does to it.

#[macro_use]
extern crate failpoint;
#[macro_use]
extern crate shop_domain;

pub mod catalog;
pub mod erasure;
pub mod order;
pub mod rows;
pub mod schema;
mod threads {
    //! The locks that threads of the batches share. The crate `interleavings` has a module of this name: it compiles
    //! the files of the batches against locks that try many interleavings of threads.

    pub(crate) use std::sync::atomic::AtomicBool;
    pub(crate) use std::sync::{Mutex, MutexGuard};
}
pub mod waiting_list;
pub mod work;
pub mod write;

pub use rows::account::guests;
/// An error of the database, and a result with it.
pub use sqlx::{Error, Result};
pub use work::item_concurrency::{ItemConcurrency, TellWait};
pub use work::item_permit::ItemPermit;
pub use work::{Ledger, RetryPolicy, breaker, cache, gathered, single_flight};
