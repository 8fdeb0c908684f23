//! `semaphore` on `redis`: up to so many holders. A dead holder leaks its permit.
//!
//! **How it works.** A set of holders per name; whoever finds fewer than `permits_max` in it adds
//! itself, in one script. Textbooks and Redisson keep a number instead; with a set, a command that
//! is sent again takes no second permit, and nobody gives back what it does not have.
//!
//! **What can go wrong.** Nothing expires: a holder that dies keeps its permit for ever, and when all
//! have died everyone waits, until an operator deletes the key. Redis that loses its data forgets all
//! holders, and there are up to twice as many.
//!
//! **When to use it.** Never where processes can die; take `expiring-semaphore`. To see the leak.

use std::sync::Arc;
use std::time::Duration;

use ::redis::{AsyncCommands, Script};
use tokio_util::task::TaskTracker;

use super::{Connection, Keys, run, unanswered};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::{Capabilities, Fencing, InvalidName, LockName, Primitive, Waiting};

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
    waiting: Waiting::Polls,
    hands_over: false,
    expires: false,
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
    let store = SemaphoreStore {
        connection,
        keys: Keys::of_kind(key_prefix, CAPABILITIES.kind)?,
        permits_max: permits_max.to_string(),
        acquire: Script::new(include_str!("semaphore_acquire.lua")),
        release: Script::new(include_str!("semaphore_release.lua")),
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct SemaphoreStore<C> {
    connection: C,
    keys: Keys,
    permits_max: String,
    acquire: Script,
    release: Script,
}

impl<C: Connection> LeaseStore for SemaphoreStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        _lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let arguments = [token.as_str(), &*self.permits_max];
            let keys = [&*self.keys.key("holders", name)];
            let granted: bool = run(&self.connection, &self.acquire, &keys, &arguments).await?;
            Ok(granted.then_some(Grant::UNFENCED))
        })
    }

    /// There is nothing to prolong; what can be told is whether somebody took the permit away.
    fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        _lease: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let holders = self.keys.key("holders", name);
            self.connection.clone().sismember(holders, token.as_str()).await.map_err(unanswered)
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
