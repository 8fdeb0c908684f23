//! `semaphore` on `redis`: up to so many holders. A dead holder leaks its permit.
//!
//! **How it works.** A set of holders per name; whoever finds fewer than `permits_max` in it adds
//! itself, in one script. Textbooks and Redisson keep a number instead; with a set, a command that
//! is sent again takes no second permit, and nobody gives back what it does not have. Who is refused
//! stands in a queue; a release gives the permit to the first in it and tells its process.
//!
//! **What can go wrong.** Nothing expires: a holder that dies keeps its permit for ever, and when all
//! have died everyone waits, until an operator deletes the key. Redis that loses its data forgets all
//! holders, and there are up to twice as many.
//!
//! **When to use it.** Never where processes can die; take `expiring-semaphore`. To see the leak.

use std::sync::Arc;

use ::redis::Script;
use tokio_util::task::TaskTracker;

use super::permit_store::PermitStore;
use super::server::Server;
use super::subscriber::Subscriber;
use super::{Connection, Keys, script};
use crate::LeasedMutex;
use crate::{Capabilities, Fencing, InvalidName, Primitive, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Semaphore,
    kind: "semaphore",
    backend: "redis",
    summary: "a set of holders of limited size, without an expiry",
    breaks_when: "A holder dies: its permit never comes back; or Redis fails over or loses its data",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: false,
    lost_signal: false,
    fencing: Fencing::None,
    waiting: Waiting::Notified,
    hands_over: false,
    expires: false,
    between_processes: true,
    survives_failover: false,
};

/// Makes the semaphore; the other arguments as for [`token::notified`](super::token::notified). Up to
/// `permits_max` hold a name at the same time; everyone who uses it gives the same number.
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    permits_max: u32,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    const CLOCK: &str = include_str!("clock.lua");
    const WAITERS: &str = include_str!("waiters.lua");
    let keys = Keys::of_kind(key_prefix, CAPABILITIES.kind)?;
    let store = PermitStore {
        server: Server::new(connection, keys, Some(subscriber)),
        permits_max,
        acquire: script(&[CLOCK, WAITERS, include_str!("semaphore_acquire.lua")]),
        renew: Script::new(include_str!("semaphore_renew.lua")),
        release: script(&[CLOCK, WAITERS, include_str!("semaphore_release.lua")]),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
