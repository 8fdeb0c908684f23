//! `expiring-semaphore` on `redis`: a limited number of holders, each with a lease that is renewed.
//!
//! **How it works.** A sorted set of holders per name, each with the end of its lease by the
//! *server's* clock. One script removes the holders whose lease has ended, and adds the contender
//! if fewer than `permits_max` are left. A guard renews its own lease and nobody else's. A refused
//! contender enters a queue; a release gives each free permit to the next one and notifies its
//! client. The permit of a dead holder is found by the next attempt of a waiting contender.
//!
//! **What can go wrong.** A holder that is paused beyond its lease does not know that its permit
//! went to another one until it checks; a Redis that loses its data forgets all holders. Both lead
//! to more than `permits_max` holders. There is no fence: several hold at once, so no number orders
//! them.
//!
//! **When to use it.** Use it to limit how many callers do something at the same time, if one
//! holder too many for a moment does no lasting harm.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::Connection;
use super::script::{CLOCK, HOLDS, Scripts, WAITERS, script};
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use crate::{Capabilities, InvalidName, LeasedMutex, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Semaphore,
    kind: "expiring-semaphore",
    summary: "a sorted set of holders by the end of their leases, of limited size, renewed",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or a holder is paused beyond its lease",
    waiting: Waiting::Notified,
    ..super::MUTEX
};

/// Makes the semaphore: at most `permits_max` hold a name at the same time. All clients have to use
/// the same number. The other arguments are those of [`token::notified`](super::token::notified).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    permits_max: u32,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let server = Server::of_kind(connection, Some(subscriber), key_prefix, CAPABILITIES.kind)?;
    let scripts = Scripts {
        acquire: script(&[CLOCK, WAITERS, HOLDS, include_str!("expiring_semaphore_acquire.lua")]),
        renew: script(&[CLOCK, HOLDS, include_str!("expiring_renew.lua")]),
        release: script(&[CLOCK, WAITERS, HOLDS, include_str!("expiring_semaphore_release.lua")]),
    };
    let form = Form::Permits(permits_max.to_string());
    let store = ScriptStore { server, scripts, form };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
