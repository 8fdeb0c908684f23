//! `fair` on `redis`: `token` with a queue in front of it, first come, first served across clients.
//!
//! **How it works.** Each client has one contender per name. Its first attempt puts its token into
//! a queue in Redis: a hash with the time of each contender's arrival, by the *server's* clock. The
//! contender that arrived first is the *head*, and only the head may have the lock. A release hands
//! the lock on to the head and notifies its client. Each attempt also proves that the contender is
//! alive. If the head has made no attempt for [`ALIVE`] (1.5 s), the next attempt of another
//! contender removes it. So a dead contender delays the others by at most [`ALIVE`] and the pause
//! until that attempt (at most a second). A contender that gives up is removed at once. A client
//! hands a hold over among its own waiters only while no other client waits.
//!
//! **What can go wrong.** It fails as `token` does. Besides, a contender that is paused for
//! longer than [`ALIVE`] loses its position in the queue, and nothing else. Without a
//! [`Subscriber`] the clients poll, and a release takes effect at the head's next attempt.
//!
//! **When to use it.** Use it when clients of different speed must have the same share. Each time
//! the lock goes from one client to another, this costs a round trip. In such a case `token` might
//! hand the lock over inside its client without one.

use std::sync::Arc;
use std::time::Duration;

use tokio_util::task::TaskTracker;

use super::script::Scripts;
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use super::{Connection, WAITER_ALIVE};
use crate::{Capabilities, InvalidName, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "fair",
    summary: "a queue by the server's clock in front of an owner token, renewed, with a fence",
    fair_between_processes: true,
    hands_over: true,
    ..super::FENCED_MUTEX
};

/// How long a contender keeps its position after its last attempt: what a dead one costs the others.
pub const ALIVE: Duration = WAITER_ALIVE;

/// Makes the lock, with the arguments of [`token::notified`](super::token::notified).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let server = Server::of_kind(connection, Some(subscriber), key_prefix, CAPABILITIES.kind)?;
    let form = Form::Token { fair: true, owner_field: None };
    let store = ScriptStore { server, scripts: Scripts::of_token(), form };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
