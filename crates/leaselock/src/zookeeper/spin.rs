//! `spin` on `zookeeper`: one ephemeral node at the name itself; whoever makes it has the name.
//!
//! **How it works.** Creating a node that is there already fails, so only one contender makes it. The
//! others watch that node and try again when it goes.
//!
//! **What can go wrong.** A herd: every process that waits is woken by every release, and all but one
//! for nothing. There is no order among them, so one may starve. Otherwise what can go wrong with
//! `sequential`.
//!
//! **When to use it.** When contention is rare; and to see the herd next to the line of `sequential`.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::fixed::Fixed;
use super::{Base, Ensemble};
use crate::LeasedMutex;
use crate::{Capabilities, Fencing, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Mutex,
    kind: "spin",
    backend: "zookeeper",
    summary: "one ephemeral node that all who wait watch",
    breaks_when: "The holder is paused beyond its lease, or most of the ensemble loses its data",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
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
pub fn mutex(ensemble: &Arc<Ensemble>, tasks: &TaskTracker) -> LeasedMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    LeasedMutex::start(Fixed::start(base, tasks), &CAPABILITIES, tasks)
}
