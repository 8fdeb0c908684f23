//! Seckill: a flash sale that sells the last unit once.
//!
//! # Bird's-eye view
//! Thousands of buyers press *Buy* in the same second. A *strategy* (the gate) decides who gets
//! stock: a lock, a script, a compare-and-set loop. Whatever it decides, the *arbiter*, one InnoDB
//! transaction, writes the order and takes the stock with a condition. Gates make the sale fast
//! and fair and may be lost at any moment; the arbiter makes it right.
//!
//! Data flows one way:
//!
//! ```text
//! http -> purchase -> strategy -> { lock, arbiter } -> store -> domain
//! ```
//!
//! # Invariants, as absences
//! * Nothing but `arbiter` and `order` writes an order or changes what is left of an item.
//! * Nothing but `http` knows a status code, and `http` never reaches into `store`.
//! * `domain` does no I/O; `lock` knows nothing of items or orders.
//! * No state of the process is needed by another process, and none is global.
//! * No money or quantity is a bare number once it is past the request's body.
//!
//! # Modules, in reading order
//! [`domain`], [`store`], [`arbiter`], [`lock`], [`strategy`], [`purchase`], [`consumer`], [`order`], [`job`],
//! [`live`], [`lab`], [`catalog`], [`account`], [`audit`], [`readiness`], [`http`], then what holds it together: [`config`], [`lifecycle`],
//! [`open_files`], [`metrics`], [`app`], [`dev`], and [`failpoint`] for tests.

#[macro_use]
pub mod failpoint;

pub mod account;
pub mod app;
pub mod arbiter;
pub mod audit;
pub mod catalog;
pub mod config;
pub mod consumer;
pub mod domain;
pub mod http;
pub mod job;
pub mod lab;
pub mod lifecycle;
pub mod live;
pub use leaselock as lock;
pub mod metrics;
pub mod open_files;
pub mod order;
pub mod purchase;
pub mod readiness;
pub mod store;
pub mod strategy;
