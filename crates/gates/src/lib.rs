//! The gates: the strategies that decide who gets stock, and their counters in Redis and in memory.
//!
//! A gate may fail, lie or lose its data at any moment: the [`ledger`] takes the stock with a condition.
//!
//! # Modules, in reading order
//! 1. [`strategy`]: the list, and a file for each strategy, which begins with its manual page.
//! 2. [`store`]: the counters and queues in [Redis](store::redis) and in [memory](store::memory).

#[macro_use]
extern crate failpoint;

pub mod store;
pub mod strategy;

use ledger::arbiter;
use shop_domain as domain;
use shop_metrics as metrics;
