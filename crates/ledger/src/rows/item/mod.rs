//! Items with their stock, products of which they are variants, and groups that share a limit.

pub mod creations;
pub mod items;
pub mod limit_groups;
pub mod products;
pub mod stock;
