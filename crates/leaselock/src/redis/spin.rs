//! `spin` on `redis`: an owner token, whose contenders poll and are never notified.
//!
//! **How it works.** The hold is that of `token`: a key with a random owner and its fence, set and
//! compared by scripts. The one contender of a client pauses for 1 ms after a refusal, then for
//! twice as long each time, up to 128 ms, with jitter.
//!
//! **What can go wrong.** It fails as `token` does. A release is noticed up to 128 ms late,
//! and the contender that has waited longest polls the least often.
//!
//! **When to use it.** Use it where no subscription is possible, and holds are short or seldom
//! contended.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::Connection;
use super::multi::group_store;
use super::server::Server;
use crate::core::backoff::WaitStrategy;
use crate::{Capabilities, Fencing, InvalidName, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "spin",
    summary: "an owner token, compare-and-delete, renewed, with a fence; waiters pause 1 ms to 128 ms",
    fencing: Fencing::Rising,
    ..super::MUTEX
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
    let server = Server::of_kind(connection, None, key_prefix, CAPABILITIES.kind)?;
    let store = group_store(server, WaitStrategy::Spin);
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
