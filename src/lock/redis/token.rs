//! `token` on `redis`: one key per name that holds a random owner token.
//!
//! **How it works.** Acquire is one script: if the key is absent, mint a fence and `SET` the key to
//! `token:fence` with `NX PX`; if it holds our own token, the earlier answer was lost and the answer
//! is repeated. Release and renewal compare the token first, so nobody can free or prolong what
//! belongs to someone else. Uncontended it costs one round trip each way.
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
use std::time::Duration;

use ::redis::Script;
use tokio_util::task::TaskTracker;

use super::{Connection, FENCE_KEPT, Keys, run};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::{Capabilities, Fence, Fencing, InvalidName, LockName, Primitive, Waiting};

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
    waiting: Waiting::Polls,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// Makes the lock. `key_prefix` stands before all its keys: visible ASCII without braces, or empty.
/// Its two background tasks run on `tasks` and end when the lock and its last guard are gone.
/// Needs a tokio runtime. Nothing is sent yet.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let store = TokenStore {
        connection,
        keys: Keys::new(key_prefix)?,
        scripts: Scripts {
            acquire: Script::new(include_str!("token_acquire.lua")),
            renew: Script::new(include_str!("token_renew.lua")),
            release: Script::new(include_str!("token_release.lua")),
            raise_fence: Script::new(include_str!("raise_fence.lua")),
        },
    };
    Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
}

struct TokenStore<C> {
    connection: C,
    keys: Keys,
    scripts: Scripts,
}

struct Scripts {
    acquire: Script,
    renew: Script,
    release: Script,
    raise_fence: Script,
}

impl<C: Connection> LeaseStore for TokenStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let keys = [&*self.keys.lock(name), &*self.keys.fence(name)];
            let lease_ms = lease.as_millis().to_string();
            let arguments = [token.as_str(), &*lease_ms, &*FENCE_KEPT.as_millis().to_string()];
            let fence: Option<u64> =
                run(&self.connection, &self.scripts.acquire, &keys, &arguments).await?;
            Ok(fence.map(Grant::fenced))
        })
    }

    fn renew<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys = [&*self.keys.lock(name)];
            let arguments = [token.as_str(), &lease.as_millis().to_string()];
            run(&self.connection, &self.scripts.renew, &keys, &arguments).await
        })
    }

    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys = [&*self.keys.lock(name)];
            let arguments = [token.as_str()];
            run(&self.connection, &self.scripts.release, &keys, &arguments).await
        })
    }

    fn raise_fence<'a>(&'a self, name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(async move {
            let keys = [&*self.keys.fence(name)];
            let arguments = [&*at_least.to_string(), &*FENCE_KEPT.as_millis().to_string()];
            let _fence: u64 =
                run(&self.connection, &self.scripts.raise_fence, &keys, &arguments).await?;
            Ok(())
        })
    }
}
