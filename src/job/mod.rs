//! The background jobs of the core.

mod audit;
mod expire;
mod reconcile;
mod waiting_list;

pub use audit::Audit;
pub use expire::{Expire, Sweeper};
pub use reconcile::{Bounds, Reconcile};
pub use waiting_list::{FinishErasures, TendWaitingLists};
