//! `multi` on `redis`: several names at once, all or none, on the keys of `token`.
//!
//! **How it works.** All names with one hash tag live in one slot: one script sees whether all of
//! them are free and takes them together, or none. Names of several slots are taken slot by slot in
//! the order of their tags, which is the same for everyone, and given back when one is not granted.
//! The keys and the fences are those of [`token`](super::token), so whoever holds one of the names
//! alone excludes whoever wants it with others, and fences compare.
//!
//! **What can go wrong.** What can go wrong with `token`. A process that dies between two slots leaves
//! the first ones to expire with their leases; meanwhile nobody gets them, but nobody waits for
//! ever. If one key of a slot is lost, the guard counts as lost for all of that slot.
//!
//! **When to use it.** When a change touches several guarded things. Give them one hash tag where
//! that is possible: then it is one command.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Script;
use tokio_util::task::TaskTracker;

use super::{Connection, Keys, raise_fence, run, script};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::pauses::Manner;
use crate::lock::{
    Capabilities, Fence, Fencing, InvalidName, LockName, MultiMutex, Primitive, Waiting,
};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::MultiLock,
    kind: "multi",
    backend: "redis",
    summary: "all names of a slot in one script, slots in a fixed order, on the keys of `token`",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or the holder is paused beyond its lease",
    reentrant: false,
    fair_in_process: true,
    fair_between_processes: false,
    renewed: true,
    lost_signal: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Polls,
    hands_over: false,
    expires: true,
    between_processes: true,
    survives_failover: false,
};

/// Makes the lock; arguments as for [`token::mutex`](super::token::mutex).
///
/// # Errors
/// When the prefix is not one.
pub fn mutex<C: Connection>(
    connection: C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<MultiMutex, InvalidName> {
    let store = GroupStore::new(connection, Keys::new(key_prefix)?, Manner::Notified);
    Ok(MultiMutex::by_hash_tag(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks)))
}

/// The names of a group, which is one name or several with one hash tag, each with an owner token.
pub(super) struct GroupStore<C> {
    connection: C,
    keys: Keys,
    manner: Manner,
    acquire: Script,
    renew: Script,
    release: Script,
}

impl<C: Connection> GroupStore<C> {
    /// Over these keys; its contenders wait in this manner unless they are told of changes.
    pub(super) fn new(connection: C, keys: Keys, manner: Manner) -> Self {
        const WAITERS: &str = include_str!("waiters.lua");
        const MINT: &str = include_str!("mint_fence.lua");
        const OURS: &str = include_str!("multi_ours.lua");
        const CLOCK: &str = include_str!("clock.lua");
        Self {
            connection,
            keys,
            manner,
            acquire: script(&[CLOCK, MINT, OURS, include_str!("multi_acquire.lua")]),
            renew: script(&[OURS, include_str!("multi_renew.lua")]),
            release: script(&[CLOCK, MINT, WAITERS, OURS, include_str!("multi_release.lua")]),
        }
    }

    fn locks(&self, group: &LockName) -> Vec<String> {
        group.parts().map(|name| self.keys.lock(&name)).collect()
    }

    /// The counter that all names of the group share.
    fn fence(&self, group: &LockName) -> String {
        self.keys.fence(&group.parts().next().expect("a group has a name"))
    }
}

impl<C: Connection> LeaseStore for GroupStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let (fence, locks) = (self.fence(name), self.locks(name));
            let keys: Vec<&str> = [&fence].into_iter().chain(&locks).map(|key| &**key).collect();
            let arguments = [token.as_str(), &*lease.as_millis().to_string()];
            let fence: Option<u64> =
                run(&self.connection, &self.acquire, &keys, &arguments).await?;
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
            let locks = self.locks(name);
            let keys: Vec<&str> = locks.iter().map(|key| &**key).collect();
            let arguments = [token.as_str(), &lease.as_millis().to_string()];
            run(&self.connection, &self.renew, &keys, &arguments).await
        })
    }

    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys: Vec<String> = name.parts().flat_map(|name| self.keys.all(&name)).collect();
            run(&self.connection, &self.release, &keys, &[token.as_str()]).await
        })
    }

    fn raise_fence<'a>(&'a self, name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(raise_fence(&self.connection, self.fence(name), at_least))
    }

    fn manner(&self) -> Manner {
        self.manner
    }
}
