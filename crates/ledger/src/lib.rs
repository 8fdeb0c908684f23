//! The ledger: every row of the shop in MySQL, and the only code that writes an order or takes stock.
//!
//! # Modules, in reading order
//! 1. [`write`]: the one transaction that writes an order, single or in a batch.
//! 2. [`waiting_list`]: buyers who wait for units that come back, and the offers to them.
//! 3. [`draw`]: entries of sales that are drawn, and their places.
//! 4. [`rows`]: the connections, and the statements that neither write an order nor take stock.
//! 5. [`breaker`]: calls that are refused while a server does not answer; [`cache`], [`gathered`] and
//!    [`single_flight`]: reads that many ask for at once.
//! 6. [`order`]: what happens to an order after it is placed.
//! 7. [`catalog`]: creating and editing items.
//! 8. [`endpoints`]: changes of the endpoints that get events.
//! 9. `item_concurrency` and `stock_lock`: what a transaction must have before it waits for an item.
//! 10. [`guests`]: the buyers of other shops.
//! 11. [`erasure`]: the deletion of a person.

#[macro_use]
extern crate failpoint;
#[macro_use]
extern crate shop_domain;

pub mod breaker;
pub mod cache;
pub mod catalog;
pub mod draw;
pub mod endpoints;
pub mod erasure;
pub mod gathered;
pub mod guests;
mod item_concurrency;
mod ledger;
mod options;
pub mod order;
pub mod rows;
pub mod single_flight;
mod stock_lock;
pub mod waiting_list;
pub mod write;

pub use item_concurrency::{ItemConcurrency, ItemPermit};
pub use ledger::{Ledger, RetryPolicy};
pub use options::LedgerOptions;
pub use rows::database::Database;
pub use shop_domain::Unreachable;
/// An error of the database, and a result with it.
pub use sqlx::{Error, Result};
