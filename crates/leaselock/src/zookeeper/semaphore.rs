//! `semaphore` on `zookeeper`: a limited number of holders, first come, first served.
//!
//! **How it works.** It works like `sequential`, but a contender holds when fewer nodes are ahead
//! of its own than there are permits. A holder's node ends with its session, so a dead holder leaks
//! no permit.
//!
//! **What can go wrong.** Every release wakes one contender of each client that waits: any of the
//! nodes ahead of it may be the one that went. If clients use different numbers of permits, each
//! client applies its own number. Otherwise it fails as `sequential` does.
//!
//! **When to use it.** Use it to limit how many callers work on something at the same time, across
//! programs.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::queue::Queue;
use super::{Base, Ensemble};
use crate::core::queue_role::QueueRole;
use crate::{Capabilities, LeasedMutex, Primitive};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Semaphore,
    kind: "semaphore",
    summary: "an ephemeral sequential node per contender; the first ones hold, as many as there are permits",
    ..super::FAIR_MUTEX
};

/// Makes the semaphore: at most `permits_max` hold a name at the same time, at least one. Connects
/// when first used.
#[must_use]
pub fn mutex(ensemble: &Arc<Ensemble>, permits_max: u32, tasks: &TaskTracker) -> LeasedMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    let role = QueueRole::permit(permits_max);
    LeasedMutex::start(Queue::start(base, role, tasks), &CAPABILITIES, tasks)
}
