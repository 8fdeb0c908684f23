//! `token` on `redis`: one key per name that holds a random owner token.
//!
//! **How it works.** Acquire is one script: if the key is absent, mint a fence and `SET` the key to
//! `token:fence` with `NX PX`; if it holds our own token, the earlier answer was lost and the answer
//! is repeated. Release and renewal compare the token first, so nobody can free or prolong what
//! belongs to someone else. Uncontended it costs one round trip each way.
//!
//! **How it waits.** With a [`Subscriber`], who is refused stands in a queue by arrival, and the
//! release hands the lock on: the same script grants it to the first in the queue and tells its
//! process. A waiter that has gone does not listen, so it is skipped; one that is stuck costs its
//! lease, like a holder that is. Who comes while the lock is free need not queue. Without a
//! subscriber each process polls.
//!
//! **What the fence is.** `max(last + 1, the server's clock in microseconds)`. The counter alone
//! would start again from 1 after the server lost its data, and everything that checks fences would
//! refuse every writer from then on; seeded from the clock it goes on rising. It stays below 2^53,
//! the last exact whole number of a Lua script, until the year 2255. If the clock was set back
//! while the data was lost, `raise_fence` repairs it.
//!
//! **What can go wrong.** A fail-over to a replica that had not heard of the hold, lost data, a
//! server whose clock jumps ahead, a holder that was paused beyond its lease: two holders at once.
//! The fence is there for these. A command that a broken link delivers late can leave a hold that
//! nobody owns: it blocks the name for one lease at most and never gets a second holder.
//!
//! **When to use it.** When Redis is there anyway and the guarded store checks the fence.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::server::Server;
use super::subscriber::Subscriber;
use super::token_store::{Scripts, TokenStore};
use super::{Connection, Keys};
use crate::LeasedMutex;
use crate::{Capabilities, Fencing, InvalidName, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Mutex,
    kind: "token",
    backend: "redis",
    summary: "SET NX PX with a random owner token, compare-and-delete, renewed, with a fence",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is \
                  paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Notified,
    hands_over: true,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// The same without a [`Subscriber`].
static POLLING: Capabilities =
    Capabilities { waiting: Waiting::Polls, hands_over: false, ..CAPABILITIES };

/// Makes the lock. `key_prefix` stands before all its keys: visible ASCII without braces, or empty.
/// Its background tasks run on `tasks` and end when the lock and its last guard are gone.
/// Needs a tokio runtime. Nothing is sent yet. Without a subscriber it polls: see [`notified`].
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = store(Server::new(connection, Keys::new(key_prefix)?, None));
    Ok(LeasedMutex::start(Arc::new(store), &POLLING, tasks))
}

/// Makes the lock whose waiters are told by `subscriber` when it is theirs. All processes that use
/// the same names should have one; those that have none still exclude each other, and poll.
///
/// # Errors
/// When the prefix is not one.
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
