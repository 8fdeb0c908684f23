//! `token` on `redis`: one key per name; its value begins with a random owner token.
//!
//! **How it works.** Acquire is one Redis script. If the key is absent, the script creates a fence.
//! It then stores the value `token:fence` in the key, with an expiry. A holder that may hand its
//! hold over inside its client has to learn that other clients wait. For such a holder the value
//! also contains its notification channel. The key may already contain the caller's token, because
//! a release granted the lock to this caller or because an earlier answer was lost. Then the script
//! repeats that grant and restarts its lease. Release and renewal compare the token first, so no
//! caller can free or prolong the hold of another caller. Without contention, acquire and release
//! take one round trip each.
//!
//! **How it waits.** A [`Subscriber`] is a Redis connection that receives notifications. With a
//! subscriber, a contender that is refused enters a queue in Redis, in order of arrival. The
//! release script grants the lock directly to the first waiting *client* and notifies this
//! client. (The hand-over inside one client is something else, and does not use Redis.) A client
//! that has ended receives no notification, so the script skips it. If the script grants the lock
//! to a client that hangs, the others wait until this lease ends. The lock can be free while
//! others are queued, for example when its lease has expired without a release. Then a new
//! contender that finds it free takes it. Without a subscriber each client polls.
//!
//! **Why it is all scripts.** The commands of newer servers that compare one value (`DELIFEQ`, `DELEX`,
//! `SET IFEQ`) cannot release this lock: the release also looks for waiters, and grants the lock to one.
//! They cannot acquire it either, because the acquire mints the fence. `fair`, `reentrant`, `spin`,
//! `multi` and `redlock` keep more than an owner in their keys, too. [`plain`](super::plain) uses them.
//!
//! **What the fence is.** `max(last + 1, the server's clock in microseconds)`. A plain counter
//! would start again from 1 after the server lost its data. Then every store that checks fences
//! would refuse all writers until the counter had passed the last accepted fence. With the clock,
//! the fences go on rising. A Lua script represents each whole number exactly only up to 2^53; the
//! fences stay below this limit until the year 2255. If the server loses its data and its clock is
//! set back, the next fences are too low. Then `raise_fence` makes all later fences high enough.
//!
//! **What can go wrong.** There can be two holders at once: after a failover to a replica that had
//! not yet received the hold, after a loss of data, after a jump of the server's clock, or while a
//! holder is paused beyond its lease. The fence protects the data in these cases. A command that a
//! broken link delivers late can leave a hold without an owner. Such a hold blocks the name for one
//! lease at most.
//!
//! **When to use it.** Use it when your program already has a Redis, and the store that the lock
//! protects checks the fence.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::script::Scripts;
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use super::{Connection, Keys};
use crate::{Capabilities, InvalidName, LeasedMutex, Waiting};

/// The properties of this kind.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "token",
    summary: "SET NX PX with a random owner token, compare-and-delete, renewed, with a fence",
    hands_over: true,
    ..super::FENCED_MUTEX
};

/// The capabilities without a [`Subscriber`].
static POLLING: Capabilities =
    Capabilities { waiting: Waiting::Polls, hands_over: false, ..CAPABILITIES };

/// Makes a lock without a subscriber: waiting clients poll, and a holder does not hand its hold
/// over inside its client. [`notified`] makes a lock with notifications and hand-over.
///
/// All keys of the lock begin with `key_prefix`: at most 200 visible ASCII characters without
/// braces, or empty. The background tasks of the lock run on `tasks`, and end after the lock and
/// its last guard were dropped. Needs a tokio runtime. This call sends nothing to Redis.
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

/// Makes a lock whose contenders are notified by `subscriber`; the other arguments are those of
/// [`mutex`]. Every client that uses the same names should have a subscriber. A client without a
/// subscriber polls; it cannot hold a name that another client holds.
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

fn store<C: Connection>(server: Server<C>) -> ScriptStore<C> {
    let form = Form::Token { fair: false, owner_field: None };
    ScriptStore { server, scripts: Scripts::of_token(), form }
}
