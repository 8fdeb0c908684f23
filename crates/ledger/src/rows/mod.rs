//! The rows in MySQL: all reads, and the writes of everything except orders and stock.
//!
//! Each folder has the rows of a subject: [`account`], [`item`] and [`order`]; [`tables`] has those that strategies
//! keep beside the stock row.

/// People: users, guests of other shops, operators, their sessions, and the traces of erased people.
pub mod account {
    pub mod actions;
    pub mod erased;
    pub mod guests;
    pub mod operators;
    pub mod sessions;
    pub mod shops;
    pub mod subjects;
    pub mod users;
}
pub mod audit;
/// Items with their stock, products of which they are variants, and groups that share a limit.
pub mod item {
    pub mod creations;
    pub mod draws;
    pub mod items;
    pub mod limit_groups;
    pub mod products;
}
/// Orders and their payments, and the requests that made them.
pub mod order {
    pub mod buyers;
    pub mod failures;
    pub mod orders;
    pub mod payments;
    pub mod request_keys;
    pub mod running;
}
pub mod outbox;
pub mod redis_lists;
pub mod tables;
pub mod waiting_list;

pub use account::*;
pub use item::*;
pub use order::*;
