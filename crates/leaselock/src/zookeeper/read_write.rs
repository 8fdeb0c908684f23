//! `read-write` on `zookeeper`: many readers or one writer, in the order in which they came.
//!
//! **How it works.** Readers and writers are in one queue. A reader holds when no writer is ahead
//! of it, and otherwise watches the last writer ahead; a writer holds when nobody is ahead of it,
//! and otherwise watches the node just ahead. So neither side can starve the other.
//!
//! **What can go wrong.** When a writer goes, all readers behind it are woken: they may all hold. A
//! reader that wants to write has to release first, or it waits for itself. Otherwise the same
//! failures as of `sequential`.
//!
//! **When to use it.** Use it when reading under the lock takes long and happens far more often
//! than writing.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::queue::Queue;
use super::{Base, Ensemble};
use crate::core::queue_role::QueueRole;
use crate::{Capabilities, LeasedMutex, Primitive, ReadWrite};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::ReadWrite,
    kind: "read-write",
    summary: "one queue of readers and writers: a reader waits for writers, a writer for everybody",
    ..super::FAIR_MUTEX
};

/// Makes the lock. Connects when first used.
#[must_use]
pub fn read_write(ensemble: &Arc<Ensemble>, tasks: &TaskTracker) -> ReadWrite {
    let half = |role| {
        let queue = Queue::start(Base::new(ensemble, CAPABILITIES.kind), role, tasks);
        LeasedMutex::start(queue, &CAPABILITIES, tasks)
    };
    ReadWrite { read: half(QueueRole::Reader), write: half(QueueRole::Exclusive) }
}
