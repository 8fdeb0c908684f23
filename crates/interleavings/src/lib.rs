//! Interleavings: the modules of `leaselock` and of the ledger's batches run on one thread, which [shuttle] switches from task
//! to task at each lock, atomic number, channel, permit and wait, thousands of times in another order.
//!
//! **How the real modules get here.** This crate includes their files, and copies of those in which `build.rs` plants a
//! mistake. In it `tokio`, `tokio_util` and `rand` are names of this crate: the channels, permits and locks of [`sync`]
//! are tokio's own with a switch before each operation, [`time`] is a clock that goes on at random moments, and
//! [`threads`] has shuttle's locks. The batches have a ledger in memory (`write/group_commit/batch.rs`) in place of their
//! SQL.
//!
//! [`lock_runs`] and [`batch_runs`] have the runs and their assertions, and [`explore`] repeats them. A test that plants a
//! mistake ([`threads::planted`]) asserts that it is found.
//!
//! [shuttle]: https://github.com/awslabs/shuttle

extern crate self as rand;
extern crate self as tokio;
extern crate self as tokio_util;

pub mod explore;
pub mod lock_runs;
pub mod runtime;
pub mod sync;
pub mod task;
pub mod threads;
pub mod time;

mod random;
#[doc(hidden)]
pub mod select;

// Leaselock, all of it but its servers.
include!(concat!(env!("OUT_DIR"), "/leaselock.rs"));
// What the ledger's batches see of the ledger.
#[allow(dead_code, reason = "the modules have more callers in the ledger")]
mod sql;
#[allow(dead_code, unused_imports, reason = "the modules have more callers in the ledger")]
mod work;
#[allow(dead_code, unused_imports, reason = "the modules have more callers in the ledger")]
mod write;

// Crates that only the included files name.
use ::time as _;
use async_trait as _;
use prometheus_client as _;
use quick_cache as _;
#[cfg(target_os = "linux")]
use rustix as _;
use serde as _;
use thiserror as _;
use tracing as _;

pub use random::{random, random_range};
pub use task::spawn;
pub use write::group_commit::batch_runs;

// `crate::Guard` and the others of its root.
#[allow(unused_imports, reason = "the files of leaselock use them")]
use leaselock::*;
