//! `multi` on `zookeeper`: several names at once, all or none, in one transaction.
//!
//! **How it works.** One transaction creates a node for each name, or none when one of them exists
//! already. A refused contender watches a node that was in its way and tries again when it goes.
//! Nothing is ever held halfway, so opposite orders cannot block each other, and a crash leaves
//! nothing behind.
//!
//! **What can go wrong.** There is no order: a contender for many names may starve behind
//! contenders that each want only one of these names. Otherwise it fails as `spin` does.
//!
//! **When to use it.** Use it when one piece of work needs several names, and they are seldom
//! contended.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::fixed::FixedNodes;
use super::{Base, Ensemble};
use crate::{Capabilities, LeasedMutex, MultiMutex, Primitive};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::MultiLock,
    kind: "multi",
    summary: "an ephemeral node per name, all made in one transaction or none",
    fair_in_process: false,
    ..super::FENCED_MUTEX
};

/// Makes the lock. Connects when first used.
#[must_use]
pub fn mutex(ensemble: &Arc<Ensemble>, tasks: &TaskTracker) -> MultiMutex {
    let base = Base::new(ensemble, CAPABILITIES.kind);
    let mutex = LeasedMutex::start(FixedNodes::start(base, tasks), &CAPABILITIES, tasks);
    MultiMutex::all_at_once(mutex)
}
