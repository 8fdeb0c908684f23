//! Seckill: a flash sale that sells the last unit once.
//!
//! # Bird's-eye view
//! Thousands of buyers press *Buy* in the same second. A *strategy* (the gate) decides who gets
//! stock: a lock, a script, a compare-and-set loop. Whatever the gate decides, the *arbiter*, one
//! InnoDB transaction, writes the order and takes the stock with a condition. Gates make the sale
//! fast and fair and may be lost at any moment; the arbiter keeps it correct.
//!
//! Data flows one way. The two lines of defence are two crates, [`gates`] and [`ledger`], and the locks
//! are a third, [`leaselock`]:
//!
//! ```text
//! http -> purchase -> gates -> {leaselock, ledger} -> shop-domain
//! ```
//!
//! # Rules
//! A test (`tests/house/tidy.rs`) keeps the first three.
//!
//! * Only the [`ledger`] writes orders and stock. The service's other statements are in [`mysql_connection`] and in the
//!   folders `sql` of extensions.
//! * Only [`http`] knows status codes, and it never reads a row: it calls use cases.
//! * [`shop_domain`] does no I/O; `leaselock` knows no items, buyers or orders.
//! * No process needs the memory of another one.
//! * Money and quantities have types of their own as soon as a request's body is parsed.
//!
//! # Modules, in reading order
//! 1. The sale: [`purchase`] (one purchase from request to outcome), [`consumer`] (queued orders),
//!    [`order`] (payment, cancellation, expiry), [`waiting_list`] (buyers who wait for units that come back).
//! 2. The shop: [`catalog`] (items), [`account`] (users and sessions), [`live`] (events), [`job`]
//!    (background jobs), [`audit`] (the proof that nothing was oversold), [`trial`] (sales that are tried out), [`readiness`].
//! 3. The border: [`http`] (routes), [`extensions`] (the list of optional features).
//! 4. The process: [`config`], [`app`] (wiring), [`open_files`], and [`failpoint`] for tests.

#[macro_use]
pub extern crate failpoint;

pub mod account;
pub mod app;
pub mod audit;
pub mod catalog;
pub mod command;
pub mod config;
pub mod consumer;
pub mod extensions;
pub mod http;
pub mod job;
pub mod live;
pub mod open_files;
pub mod order;
pub mod purchase;
pub mod readiness;
pub mod trial;
pub mod waiting_list;
