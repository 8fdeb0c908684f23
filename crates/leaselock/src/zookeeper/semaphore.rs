//! `semaphore` on `zookeeper`: up to so many holders, first come, first served.
//!
//! **How it works.** As `sequential`, but whoever has fewer nodes before it than there are permits
//! is in. A holder's node ends with its session, so no permit is lost with a dead holder.
//!
//! **What can go wrong.** Every release wakes one contender of each process that waits: any of the
//! nodes before it may be the one that goes. Processes that count with different numbers of permits
//! each go by their own. Otherwise what can go wrong with `sequential`.
//!
//! **When to use it.** To bound how many work on something at a time, across processes.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::queue::{Obstacle, Queue, Rule};
use super::{Base, Ensemble};
use crate::LeasedMutex;
use crate::{Capabilities, Fencing, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Semaphore,
    kind: "semaphore",
    backend: "zookeeper",
    summary: "an ephemeral sequential node per contender; the first so many are in",
    breaks_when: "The holder is paused beyond its lease, or most of the ensemble loses its data",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: true,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::RisingWhileKept,
    waiting: Waiting::Notified,
    hands_over: false,
    expires: true,
    between_processes: true,
    survives_failover: true,
};

/// Makes the lock. Connects when first used.
#[must_use]
pub fn mutex(ensemble: &Arc<Ensemble>, permits_max: u32, tasks: &TaskTracker) -> LeasedMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    let rule = Permits { permits_max: usize::try_from(permits_max).unwrap_or(usize::MAX) };
    LeasedMutex::start(Queue::start(base, rule, true, tasks), &CAPABILITIES, tasks)
}

struct Permits {
    permits_max: usize,
}

impl Rule for Permits {
    fn mark(&self) -> char {
        'p'
    }

    fn keeps_out(&self, before: &[char]) -> Option<Obstacle> {
        (before.len() >= self.permits_max).then_some(Obstacle::Any)
    }
}
