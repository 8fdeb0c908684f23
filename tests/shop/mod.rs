//! The use cases around a sale: accounts, payments, events, exports, operators and the lab.

pub mod events;
pub mod exports;
pub mod identity;
pub mod lab;
pub mod operators;
pub mod payments;
