//! The ledger: transactions, batches, waiting lists, and its failures.

pub mod backup;
pub mod batches;
pub mod commit;
pub mod draw;
pub mod engines;
pub mod expiry;
pub mod failover;
pub mod fences;
pub mod hostile_server;
pub mod item_reads;
pub mod limit_groups;
pub mod long_sale;
pub mod planted;
pub mod reparents;
pub mod restore;
pub mod shards;
pub mod shared_batches;
pub mod silence;
pub mod tls;
pub mod transactions;
pub mod trouble;
pub mod unpaid;
pub mod upgrade;
pub mod vitess;
pub mod waiting_list;
pub mod writer;
