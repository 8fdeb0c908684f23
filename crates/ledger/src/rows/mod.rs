//! The rows in MySQL: all reads, and the writes of everything except orders and stock.
//!
//! Each folder has the rows of a subject: [`account`], [`item`], [`order`], [`event`] and [`draw`];
//! [`tables`] has those that strategies keep beside the stock row.

pub mod account;
pub mod audit;
pub mod draw;
pub mod event;
pub mod export;
pub mod item;
pub mod order;
pub mod redis_lists;
pub mod tables;
pub mod waiting_list;

pub use account::{actions, erased, operators, sessions, shops, subjects, users};
pub use draw::draws;
pub use event::{deliveries, endpoints, event_log, outbox};
pub use item::{items, limit_groups, products, stock};
pub use order::{buyers, failures, orders, payments, request_keys, running};

pub use crate::failover::{
    Writer, check, engine, hosts, is_writable, monitor, pool, pool_of, pool_to, replication,
    sign_of_life,
};
pub use crate::sql::{
    Destination, Fault, LedgerTransaction, Rollback, WorkError, all_in_use, answered, begin,
    begin_on, confirmed, is_unconfirmed, limits, transact, unconfirmed, with_new_id, within,
};
pub use crate::work::{ask, change, failed_change, failed_read, nothing_was_sent};
