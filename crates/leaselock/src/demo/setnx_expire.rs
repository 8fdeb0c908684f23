//! `setnx-expire` on `redis`: SETNX, then the expiry as a second command. Shown for its fault.
//!
//! **How it works.** `SETNX key owner`, then `PEXPIRE key lease`. A contender that finds a key
//! without an expiry sets one, in case the winner died between the two commands
//! ([`Repair::ByWaiters`]). Renewal and release compare the owner first, by scripts.
//!
//! **What can go wrong.** A winner that dies between its two commands leaves a key that never
//! expires. Without the repair everybody waits for ever. With the repair everybody waits one more
//! lease, but the repair happens only if another contender comes. `SET NX PX` does both at once and
//! needs no repair. There is no fence against a holder that is paused beyond its lease.
//!
//! **When to use it.** Never. It shows why the key and its expiry must be one command.

use tokio_util::task::TaskTracker;

use crate::redis::Connection;
use crate::redis::plain::{Expiry, start};
use crate::{Capabilities, InvalidName, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "setnx-expire",
    summary: "SETNX, then PEXPIRE as a second command, whose lack waiters repair",
    breaks_when: "A winner dies between its two commands: the name is blocked until a waiter repairs it; or Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    ..crate::redis::MUTEX
};

/// Whether contenders set the expiry that a dead winner did not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Repair {
    /// Every refused contender that finds no expiry sets one.
    ByWaiters,
    /// Nobody sets it, as in the textbook form.
    Never,
}

/// Makes the lock; the other arguments are those of [`token::mutex`](crate::redis::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    repair: Repair,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let expiry = Expiry::Afterwards { repairs: repair == Repair::ByWaiters };
    start(connection, key_prefix, expiry, &CAPABILITIES, tasks)
}
