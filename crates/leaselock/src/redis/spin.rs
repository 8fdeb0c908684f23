//! `spin` on `redis`: an owner token, whose contenders poll and are never notified.
//!
//! **How it works.** The hold is that of `token`: a key with a random owner and its fence, set and
//! compared by scripts. The one contender of a process pauses for 1 ms after a refusal, then for
//! twice as long each time, up to 128 ms, with jitter.
//!
//! **What can go wrong.** The same failures as of `token`. A release is noticed up to 128 ms late,
//! and the contender that has waited longest polls the least often.
//!
//! **When to use it.** Where no subscription is possible, and holds are short or seldom contended.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::multi::GroupStore;
use super::server::Server;
use super::{Connection, Keys};
use crate::LeasedMutex;
use crate::core::backoff::WaitStrategy;
use crate::{Capabilities, Fencing, InvalidName, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Mutex,
    kind: "spin",
    backend: "redis",
    summary: "an owner token, compare-and-delete, renewed, with a fence; waiters pause 1 ms to 128 ms",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Polls,
    hands_over: false,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// Makes the lock, with the arguments of [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let keys = Keys::of_kind(key_prefix, CAPABILITIES.kind)?;
    let store = GroupStore::new(Server::new(connection, keys, None), WaitStrategy::Spin);
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
