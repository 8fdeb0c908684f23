//! `token` on `redis`: one key per name, whose value is a random owner token.
//!
//! **How it works.** Acquire is one script. If the key is absent, the script creates a fence and
//! sets the key, with an expiry, to `token:fence` (plus the holder's channel if it is to be told
//! about waiters). If the key already holds the caller's token, because a release granted it or an
//! earlier answer was lost, the script answers with that grant again and restarts its lease. Release
//! and renewal compare the token first, so nobody can free or prolong another one's hold. Without
//! contention, acquire and release take one round trip each.
//!
//! **How it waits.** With a [`Subscriber`] (a Redis connection that receives notifications), a
//! refused contender enters a queue in Redis, in order of arrival. The release script gives the lock
//! directly to the first waiting *process* (this is not the hand-over inside one process) and
//! notifies it. A process that has ended receives nothing, so the script skips it. If a process
//! hangs, the others wait until its lease ends. A new contender that finds the lock free takes it,
//! even if others are queued. Without a subscriber each process polls.
//!
//! **What the fence is.** `max(last + 1, the server's clock in microseconds)`. A counter alone
//! would start again from 1 after the server lost its data, and every store that checks fences
//! would refuse all writers from then on; seeded from the clock it goes on rising. It stays below
//! 2^53, the last exact whole number of a Lua script, until the year 2255. If the clock was set
//! back while the data was lost, `raise_fence` repairs it.
//!
//! **What can go wrong.** Two holders at once: after a failover to a replica that had not heard of
//! the hold, after a loss of data, when the server's clock jumps ahead, or when a holder is paused
//! beyond its lease. The fence protects the data in these cases. A command that a broken link
//! delivers late can leave a hold without an owner: it blocks the name for one lease at most.
//!
//! **When to use it.** When you have a Redis anyway, and the store that the lock protects checks the
//! fence.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::server::Server;
use super::subscriber::Subscriber;
use super::token_store::{Scripts, TokenStore};
use super::{Connection, Keys};
use crate::{Capabilities, Fencing, InvalidName, LeasedMutex, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "token",
    backend: "redis",
    summary: "SET NX PX with a random owner token, compare-and-delete, renewed, with a fence",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is \
                  paused beyond its lease",
    fencing: Fencing::Rising,
    waiting: Waiting::Notified,
    hands_over: true,
    ..Capabilities::LEASED_MUTEX
};

/// The capabilities without a [`Subscriber`].
static POLLING: Capabilities =
    Capabilities { waiting: Waiting::Polls, hands_over: false, ..CAPABILITIES };

/// Makes a lock without a subscriber: its waiters poll, and there is no hand-over inside the process.
/// For both, use [`notified`].
///
/// All its keys begin with `key_prefix`: visible ASCII without braces, or empty. Its background tasks
/// run on `tasks` and end when the lock and its last guard are gone. Needs a tokio runtime. Nothing
/// is sent yet.
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = store(Server::new(connection, Keys::new(key_prefix)?, None));
    Ok(LeasedMutex::start(Arc::new(store), &POLLING, tasks))
}

/// Makes a lock whose contenders are notified by `subscriber`. All processes that use the same names
/// should have one; those without still exclude the others, and poll.
///
/// # Errors
/// When the prefix is not valid.
pub fn notified<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = store(Server::new(connection, Keys::new(key_prefix)?, Some(subscriber)));
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

fn store<C: Connection>(server: Server<C>) -> TokenStore<C> {
    TokenStore { server, fair: false, scripts: Scripts::of_token() }
}
