//! The way of a purchase: one key is one order, load, order in time, and models of a whole sale.

pub mod carts;
pub mod in_time;
pub mod linear;
pub mod model;
pub mod overload;
pub mod same_key;
