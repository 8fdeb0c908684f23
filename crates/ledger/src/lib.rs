//! The ledger: every row of the shop in MySQL, and the only code that writes an order or takes stock.
//!
//! # Modules, in reading order
//! 1. [`arbiter`]: the one transaction that writes an order, single or in a batch, and the waiting list.
//! 2. [`store`]: the rows ([`store::mysql`]), and the routes between several ledgers.
//! 3. [`shard`]: moves of an item from one ledger to another.

#[macro_use]
extern crate failpoint;

pub mod arbiter;
mod options;
pub mod shard;
pub mod store;

pub use options::LedgerOptions;

use shop_domain as domain;
use shop_metrics as metrics;
