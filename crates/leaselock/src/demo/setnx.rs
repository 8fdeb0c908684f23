//! `setnx` on `redis`: the first lock in every textbook. Shown for its fault: it never expires.
//!
//! **How it works.** `SETNX key owner`: the contender that set the key holds the name. Release
//! compares the owner and deletes the key, by one command as `plain` does.
//!
//! **What can go wrong.** A holder that dies leaves its key behind, and everybody waits until an
//! operator deletes it. There is no fence.
//!
//! **When to use it.** Never. It shows what an expiry is for.

use tokio_util::task::TaskTracker;

use crate::redis::Connection;
use crate::redis::plain::{Expiry, start};
use crate::{Capabilities, InvalidName, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "setnx",
    summary: "SETNX with an owner and without an expiry, compare-and-delete",
    breaks_when: "Its holder dies: nobody can ever hold the name again",
    renewed: false,
    lost_signal: false,
    expires: false,
    ..crate::redis::MUTEX
};

/// Makes the lock, with the arguments of [`token::mutex`](crate::redis::token::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    start(connection, key_prefix, Expiry::Never, &CAPABILITIES, tasks)
}
