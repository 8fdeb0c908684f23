//! `reentrant` on `redis`: a hash per name, with its owner, its fence and one field per entry.
//!
//! **How it works.** The first acquire makes the hash and mints the fence, as `token` does. The
//! owner of a guard may call [`enter_again`](crate::Guard::enter_again), which makes a further
//! *entry*. The guard proves the ownership. Other libraries use the thread as the proof, but a task
//! is not bound to a thread. Each entry is a field of its own and not a share in a count, so a
//! command that is repeated after a lost answer makes no further entry. Each entry is renewed and
//! released by itself; the last release deletes the hash, or hands the lock on to the client that
//! has waited longest, as `token` does.
//!
//! **What can go wrong.** It fails as `token` does: a failover, lost data, a jump of the
//! server's clock, a holder that is paused beyond its lease. All entries share one fence: it orders
//! the owners, not the entries of one owner.
//!
//! **When to use it.** Use it when a function that locks a name calls another function that locks
//! the same name, and cannot pass its guard on.

use std::sync::Arc;

use ::redis_connection::Script;
use tokio_util::task::TaskTracker;

use super::Connection;
use super::script::{CLOCK, MINT, Scripts, WAITERS, script};
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use crate::{Capabilities, InvalidName, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "reentrant",
    summary: "a hash of owner and entries, changed by scripts, renewed, with a fence",
    reentrant: true,
    hands_over: true,
    ..super::FENCED_MUTEX
};

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
    let scripts = Scripts {
        acquire: script(&[CLOCK, MINT, WAITERS, include_str!("reentrant_acquire.lua")]),
        renew: Script::new(include_str!("reentrant_renew.lua")),
        release: script(&[CLOCK, MINT, WAITERS, include_str!("reentrant_release.lua")]),
    };
    let form = Form::Token { fair: false, owner_field: Some("owner") };
    let store = ScriptStore { server, scripts, form };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
