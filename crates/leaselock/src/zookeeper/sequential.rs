//! `sequential` on `zookeeper`: first come, first served, each contender watches the one ahead of it.
//!
//! **How it works.** A contender makes an ephemeral sequential node below the name. The lowest
//! number holds; every other contender watches the node just ahead of its own, so a release wakes
//! exactly one.
//!
//! **What can go wrong.** A holder may be paused beyond its session: the next contender holds then,
//! and the fence (the number of the transaction that made the node) keeps the late one out. A
//! contender that dies in the queue is skipped only when its session ends. Without a quorum nobody
//! gets the name.
//!
//! **When to use it.** Use it when order and certainty matter more than speed: each acquire and
//! each release is a write that a majority of the servers has on its disks.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::queue::Queue;
use super::{Base, Ensemble};
use crate::core::queue_role::QueueRole;
use crate::{Capabilities, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "sequential",
    summary: "an ephemeral sequential node per contender, each watching the one before it",
    ..super::FAIR_MUTEX
};

/// Makes the lock. Connects when first used.
#[must_use]
pub fn mutex(ensemble: &Arc<Ensemble>, tasks: &TaskTracker) -> LeasedMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    LeasedMutex::start(Queue::start(base, QueueRole::Exclusive, tasks), &CAPABILITIES, tasks)
}
