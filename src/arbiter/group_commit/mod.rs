//! Group commit: the orders of many buyers of one hot item in one transaction.
//!
//! `queue.rs` gathers orders by item while the batch before is written, `pipeline.rs` lets one
//! batch write its rows while the one before is committed, `batch.rs` decides what is written
//! together and what singly, `sql.rs` holds the statements.

mod batch;
mod pipeline;
mod queue;
mod sql;

pub use batch::{BatchConnections, BatchWriter};
pub use queue::{BATCH_MAX, GroupCommit};
