//! `expiring-semaphore` on `redis`: up to so many holders, each for a lease that is renewed.
//!
//! **How it works.** A sorted set of holders per name, each with the time at which its lease ends by
//! the *server's* clock. Acquire takes out those that have ended and adds itself if fewer than
//! `permits_max` are left, in one script. A guard renews its own lease and nobody else's. Who is
//! refused stands in a queue; a release gives each permit that is free to the next in it and tells
//! its process. One whose holder died is found by the waiters' own looks.
//!
//! **What can go wrong.** A holder that is paused beyond its lease does not know that its permit was
//! given to somebody else until it looks; Redis that loses its data forgets all holders. Both make
//! more than `permits_max`. There is no fence: several hold at once, so no number orders them.
//!
//! **When to use it.** To limit how many do something at once, where one too many for a moment does
//! no lasting harm.

use std::sync::Arc;

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
    kind: "expiring-semaphore",
    backend: "redis",
    summary: "a sorted set of holders by the end of their leases, of limited size, renewed",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or a holder is paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::None,
    waiting: Waiting::Notified,
    hands_over: false,
    expires: true,
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
    const HOLDS: &str = include_str!("expiring_holds.lua");
    let keys = Keys::of_kind(key_prefix, CAPABILITIES.kind)?;
    let store = PermitStore {
        server: Server::new(connection, keys, Some(subscriber)),
        permits_max,
        acquire: script(&[CLOCK, WAITERS, HOLDS, include_str!("expiring_semaphore_acquire.lua")]),
        renew: script(&[CLOCK, HOLDS, include_str!("expiring_renew.lua")]),
        release: script(&[CLOCK, WAITERS, HOLDS, include_str!("expiring_semaphore_release.lua")]),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}
