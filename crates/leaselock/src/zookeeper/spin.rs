//! `spin` on `zookeeper`: one ephemeral node at the name itself; the contender that creates it holds.
//!
//! **How it works.** A node that exists cannot be created again, so only one contender succeeds.
//! The others watch that node and try again when it goes.
//!
//! **What can go wrong.** A thundering herd: every release wakes every client that waits, all but
//! one of them for nothing. There is no order among them, so one may starve. Otherwise the same
//! failures as of `sequential`.
//!
//! **When to use it.** Use it when contention is rare, or to compare the herd with the queue of
//! `sequential`.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::fixed::FixedNodes;
use super::{Base, Ensemble};
use crate::{Capabilities, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "spin",
    summary: "one ephemeral node that all who wait watch",
    ..super::FENCED_MUTEX
};

/// Makes the lock. Connects when first used.
#[must_use]
pub fn mutex(ensemble: &Arc<Ensemble>, tasks: &TaskTracker) -> LeasedMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    LeasedMutex::start(FixedNodes::start(base, tasks), &CAPABILITIES, tasks)
}
