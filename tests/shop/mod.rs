//! The use cases around a sale: accounts, payments, events, exports, operators, other shops and the lab.

pub mod core;
pub mod currency;
pub mod events;
pub mod exports;
mod foreign_values;
pub mod identity;
pub mod imports;
pub mod lab;
pub mod operators;
pub mod payments;
pub mod products;
pub mod shops;
pub mod tables;
