//! `fair` on `redis`: `token` with a queue in front of it, first come first served across processes.
//!
//! **How it works.** Each process has one contender per name. Its first try puts its token into a
//! sorted set by the *server's* clock; only the head of the set may have the lock. A release hands the
//! lock on to the head and tells its process. Each look also says "still here"; a head that was not
//! seen for [`ALIVE`] is taken out by whoever comes next, so a dead waiter costs that much and no
//! more. Giving up takes the token out at once. A process passes a hold on among its own waiters
//! only while no other process waits.
//!
//! **What can go wrong.** What can go wrong with `token`; besides, a waiter that is paused for longer
//! than [`ALIVE`] loses its place, though never more than that. Without a
//! [`Subscriber`] the processes poll, and a hand-over waits for the head's next look.
//!
//! **When to use it.** When processes of different speed must have the same share. Each hand-over
//! between processes costs a round trip, also where `token` would pass the lock on locally.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::server::Server;
use super::subscriber::Subscriber;
use super::token_store::{Scripts, TokenStore};
use super::{Connection, Keys, WAITER_ALIVE};
use crate::LeasedMutex;
use crate::{Capabilities, Fencing, InvalidName, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Mutex,
    kind: "fair",
    backend: "redis",
    summary: "a queue by the server's clock in front of an owner token, renewed, with a fence",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: true,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Notified,
    hands_over: true,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// For how long a waiter that is not seen keeps its place: what a dead one costs the others.
pub const ALIVE: Duration = WAITER_ALIVE;

/// Makes the lock; arguments as for [`token::notified`](super::token::notified).
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let keys = Keys::of_kind(key_prefix, CAPABILITIES.kind)?;
    let server = Server::new(connection, keys, Some(subscriber));
    let store = TokenStore { server, fair: true, scripts: Scripts::of_token() };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
