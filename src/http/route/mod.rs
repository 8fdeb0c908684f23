//! The handlers, one file a resource: its bodies and its routes sit together.

pub mod actions;
pub mod admin;
pub mod audit;
pub mod events;
mod fields;
pub mod items;
pub mod limit_groups;
pub mod lists;
pub mod live;
pub mod operator;
pub mod orders;
pub mod products;
pub mod purchase;
pub mod reservation_batch;
pub mod reservations;
pub mod session;
mod texts;
pub mod ticket;
pub mod users;
mod variant;
pub mod waiting_list;

pub(in crate::http) use variant::options_of_table;
