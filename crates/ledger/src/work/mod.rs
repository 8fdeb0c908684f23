//! How work on the ledger is called: behind a breaker, tried again, with a permit of its item, and once for many who ask
//! for the same.

mod attempts;
pub mod breaker;
pub mod cache;
pub mod gathered;
pub(crate) mod item_concurrency;
pub(crate) mod item_permit;
mod ledger;
pub(crate) mod limit_lock;
pub mod monitor;
pub mod single_flight;
pub mod stock_lock;

pub(crate) use attempts::{ATTEMPTS_MAX, pause};
pub use ledger::{Ledger, RetryPolicy, ask, change, failed_change, failed_read, nothing_was_sent};
