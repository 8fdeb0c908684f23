//! `expiring-semaphore` on `redis`: up to so many holders, each for a lease that is renewed.
//!
//! **How it works.** A sorted set of holders per name, each with the time at which its lease ends by
//! the *server's* clock. Acquire takes out those that have ended and adds itself if fewer than
//! `permits_max` are left, in one script. A guard renews its own lease and nobody else's.
//!
//! **What can go wrong.** A holder that is paused beyond its lease does not know that its permit was
//! given to somebody else until it looks; Redis that loses its data forgets all holders. Both make
//! more than `permits_max`. There is no fence: several hold at once, so no number orders them.
//!
//! **When to use it.** To limit how many do something at once, where one too many for a moment does
//! no lasting harm.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Script;
use tokio_util::task::TaskTracker;

use super::{Connection, Keys, run, script};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::{Capabilities, Fencing, InvalidName, LockName, Primitive, Waiting};

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
    waiting: Waiting::Polls,
    hands_over: false,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// Makes the semaphore; the other arguments as for [`token::mutex`](super::token::mutex). Up to
/// `permits_max` hold a name at the same time; everyone who uses it gives the same number.
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    permits_max: u32,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let with_heads =
        |code| script(&[include_str!("clock.lua"), include_str!("expiring_holds.lua"), code]);
    let store = ExpiringSemaphoreStore {
        connection,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        permits_max: permits_max.to_string(),
        acquire: with_heads(include_str!("expiring_semaphore_acquire.lua")),
        renew: with_heads(include_str!("expiring_renew.lua")),
        release: with_heads(include_str!("expiring_semaphore_release.lua")),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct ExpiringSemaphoreStore<C> {
    connection: C,
    keys: Keys,
    permits_max: String,
    acquire: Script,
    renew: Script,
    release: Script,
}

impl<C: Connection> LeaseStore for ExpiringSemaphoreStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let lease_ms = lease.as_millis().to_string();
            let arguments = [token.as_str(), &*lease_ms, &*self.permits_max];
            let keys = [&*self.keys.key("holders", name)];
            let granted: bool = run(&self.connection, &self.acquire, &keys, &arguments).await?;
            Ok(granted.then_some(Grant::UNFENCED))
        })
    }

    fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let arguments = [token.as_str(), &lease.as_millis().to_string()];
            let keys = [&*self.keys.key("holders", name)];
            run(&self.connection, &self.renew, &keys, &arguments).await
        })
    }

    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys = [&*self.keys.key("holders", name)];
            run(&self.connection, &self.release, &keys, &[token.as_str()]).await
        })
    }

    fn shared(&self) -> bool {
        true
    }
}
