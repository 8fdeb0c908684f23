//! `semaphore` on `redis`: a limited number of holders. A dead holder leaks its permit.
//!
//! **How it works.** A set of holders per name. One script adds a contender if the set has fewer
//! than `permits_max` members. Textbooks and Redisson keep a number instead; with a set, a command
//! that is repeated takes no second permit, and nobody can give back a permit that it does not
//! have. A refused contender enters a queue; a release gives the permit to the first one and
//! notifies its client.
//!
//! **What can go wrong.** Nothing expires: a dead holder keeps its permit for ever, and when all
//! holders are dead everybody waits until an operator deletes the key. A Redis that loses its data
//! forgets all holders, so there may be up to twice as many holders as allowed.
//!
//! **When to use it.** Never where programs can die: take `expiring-semaphore`. It is here to show
//! the leak.

use std::sync::Arc;

use ::redis_connection::Script;
use tokio_util::task::TaskTracker;

use super::Connection;
use super::script::{CLOCK, Scripts, WAITERS, script};
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use crate::{Capabilities, InvalidName, LeasedMutex, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Semaphore,
    kind: "semaphore",
    summary: "a set of holders of limited size, without an expiry",
    breaks_when: "A holder dies: its permit never comes back; or Redis fails over or loses its data",
    renewed: false,
    lost_signal: false,
    waiting: Waiting::Notified,
    expires: false,
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
        acquire: script(&[CLOCK, WAITERS, include_str!("semaphore_acquire.lua")]),
        renew: Script::new(include_str!("semaphore_renew.lua")),
        release: script(&[CLOCK, WAITERS, include_str!("semaphore_release.lua")]),
    };
    let form = Form::Permits(permits_max.to_string());
    let store = ScriptStore { server, scripts, form };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
