//! Group commit: the orders of many buyers, of one hot item or of many items, in one transaction.
//!
//! Every ledger has one *shared* queue (or a few, by the item's id), whose batches have a fair share
//! of each item that waits. An item that objects, or whose row another transaction holds, is in *quarantine* for a
//! while: its orders have a queue of their own, so that it costs the others nothing.
//!
//! `group.rs` says which way an order takes, `fair_queue.rs` divides a batch among the items,
//! `queue.rs` gathers orders and cuts batches, `pipeline.rs` lets one batch write its rows while the
//! one before is committed, `quarantine.rs` says which items are apart, `batch.rs` decides what is
//! written together, `pre_check.rs` finds the orders that are not, `sql.rs` holds the transaction, `statements.rs`
//! the statements of these files, and `resources.rs` what batches run on.

mod batch;
mod batch_orders;
mod fair_queue;
mod group;
mod pipeline;
mod pre_check;
mod quarantine;
mod queue;
mod resources;
mod sql;
mod statements;

pub use batch::BatchWriter;
pub use batch_orders::{BatchOrders, Tell};
pub use group::GroupCommit;
pub use pipeline::SHARED_CONNECTIONS;
pub use queue::BATCH_MAX;
pub use resources::{BatchConnections, BatchTasks};
