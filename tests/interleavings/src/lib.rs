//! Interleavings: the modules of `leaselock`, of the ledger's writes and of the consumers run on one thread, which [shuttle]
//! switches from task to task at each lock, atomic number, channel, permit and wait, thousands of times in another order.
//! Clock, servers and all random numbers follow from a seed, too: the same seed has the same [events], byte for byte.
//!
//! **How the real modules get here.** `build.rs` copies their files, plants mistakes in the copies, and replaces those with SQL
//! (`statements`). In this crate `tokio`, `tokio_util` and `rand` are names of the crate itself: the channels, permits and locks of
//! [`sync`] are tokio's own with a switch before each operation, [`time`] is a clock that goes on at random moments, and
//! [`threads`] has shuttle's locks. So are `sqlx`, `mysql_connection`, `ledger`, `gates` and `shop_traces`: statements go to a ledger in
//! memory (`book`), and the commands of queues to a Redis in memory.
//!
//! [`lock_runs`], [`batch_runs`] and [`service_runs`] have the runs and their assertions, and [`explore`] repeats them. A test
//! that plants a mistake ([`threads::planted`]) asserts that it is found.
//!
//! [shuttle]: https://github.com/awslabs/shuttle
//! [events]: explore::trace

extern crate self as gates;
extern crate self as ledger;
extern crate self as mysql_connection;
extern crate self as rand;
extern crate self as shop_traces;
extern crate self as sqlx;
extern crate self as tokio;
extern crate self as tokio_util;

/// A crash point: an instance dies at a server here.
macro_rules! failpoint {
    ($name:literal) => {};
}

pub mod explore;
pub mod lock_runs;
pub mod runtime;
pub mod service_runs;
pub mod sync;
pub mod task;
pub mod threads;
pub mod time;

mod events;
mod random;
#[doc(hidden)]
pub mod select;
mod shop;

// The servers.
mod book;
mod failover;
mod live;
mod queue;
mod rows;
#[allow(dead_code, reason = "the modules name more than they do here")]
mod sql;
mod redis_store {
    //! Where the consumers look for the queues.
    pub(crate) use crate::queue;
}

// Leaselock, all of it but its servers.
include!(concat!(env!("OUT_DIR"), "/leaselock.rs"));
// The ledger's writes, without SQL.
include!(concat!(env!("OUT_DIR"), "/write.rs"));
#[allow(dead_code, unused_imports, reason = "the modules have more callers in the ledger")]
mod work;
// The consumers.
include!(concat!(env!("OUT_DIR"), "/consumer.rs"));

// Crates that only the included files name.
use ::time as _;
use async_trait as _;
use prometheus_client as _;
use quick_cache as _;
#[cfg(target_os = "linux")]
use rustix as _;
use serde as _;
use serde_json as _;
use thiserror as _;

pub use futures::join;
pub use random::{random, random_range};
pub use task::spawn;
pub use write::batch_runs;

// The roots of crates whose names this crate has.
use failover::{Shards, Writer};
#[allow(unused_imports, reason = "the files of leaselock use them")]
use leaselock::*;
use live::Traces;
use sql::{Database, Error, Fault, MySqlConnection, Result, query, query_scalar};
use sql::{answered, begin, begin_on, confirmed, limits, statement, within};
