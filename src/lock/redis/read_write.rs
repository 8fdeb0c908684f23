//! `read-write` on `redis`: readers share a name, a writer has it to itself.
//!
//! **How it works.** The writer's hold is a key with its token and fence, as in `token`; readers are a
//! sorted set by the ends of their leases, by the *server's* clock, and each renews its own. Who is
//! refused leaves word that it waits. A reader that comes while a writer waits stays out, so readers
//! cannot starve writers; a reader that came before the last writer was let in goes before the next
//! writer, so writers cannot starve readers. The word of a waiter that is not seen for [`ALIVE`]
//! does not count.
//!
//! **What can go wrong.** What can go wrong with `token`. A dead reader keeps writers out until its
//! own lease ends, and no other reader prolongs that. A process asks for one read at a time: when
//! writers queue, its waiting readers get in one for each writer.
//!
//! **When to use it.** When reading takes long and happens much more often than writing; for short
//! work the plain lock is quicker.

use std::sync::Arc;
use std::time::Duration;

use ::redis::Script;
use tokio_util::task::TaskTracker;

use super::{Connection, Keys, raise_fence, run, script};
use crate::lock::lease::{Grant, LeaseStore, StoreFuture, Token};
use crate::lock::leased::LeasedMutex;
use crate::lock::{
    Capabilities, Fence, Fencing, InvalidName, LockName, Primitive, ReadWrite, Waiting,
};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::ReadWrite,
    kind: "read-write",
    backend: "redis",
    summary: "an owner token for the writer, a sorted set of leases for the readers, taking turns, renewed, with a fence for the writer",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or a holder is paused beyond its lease",
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

/// For how long the word of a waiter that is not seen again counts: what a dead one costs the other
/// side. Far above the longest pause between two tries and the longest command.
pub const ALIVE: Duration = Duration::from_millis(1_500);

/// Makes both halves; arguments as for [`token::mutex`](super::token::mutex). Read guards have no
/// fence.
///
/// # Errors
/// When the prefix is not one.
pub fn read_write<C: Connection>(
    connection: &C,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<ReadWrite, InvalidName> {
    let half = |side: Side| {
        let keys = Keys::of_kind(key_prefix, CAPABILITIES.kind)?;
        let store =
            HalfStore { connection: connection.clone(), keys, side, scripts: side.scripts() };
        Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
    };
    Ok(ReadWrite { read: half(Side::Read)?, write: half(Side::Write)? })
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Read,
    Write,
}

struct HalfStore<C> {
    connection: C,
    keys: Keys,
    side: Side,
    scripts: Scripts,
}

struct Scripts {
    acquire: Script,
    renew: Script,
    release: Script,
}

impl Side {
    fn scripts(self) -> Scripts {
        const HOLDS: &str = include_str!("expiring_holds.lua");
        const TURNS: &str = include_str!("read_write_turns.lua");
        const MINT: &str = include_str!("mint_fence.lua");
        const CLOCK: &str = include_str!("clock.lua");
        match self {
            Self::Read => Scripts {
                acquire: script(&[CLOCK, HOLDS, TURNS, include_str!("read_acquire.lua")]),
                renew: script(&[CLOCK, HOLDS, include_str!("expiring_renew.lua")]),
                release: script(&[CLOCK, HOLDS, include_str!("read_release.lua")]),
            },
            Self::Write => Scripts {
                acquire: script(&[CLOCK, HOLDS, TURNS, MINT, include_str!("write_acquire.lua")]),
                renew: script(&[include_str!("token_renew.lua")]),
                release: script(&[include_str!("write_release.lua")]),
            },
        }
    }
}

impl<C: Connection> HalfStore<C> {
    /// The key of this side's holds.
    fn holds(&self, name: &LockName) -> String {
        match self.side {
            Side::Read => self.keys.key("readers", name),
            Side::Write => self.keys.lock(name),
        }
    }
}

impl<C: Connection> LeaseStore for HalfStore<C> {
    fn acquire<'a>(
        &'a self,
        name: &'a LockName,
        token: &'a Token,
        lease: Duration,
    ) -> StoreFuture<'a, Option<Grant>> {
        Box::pin(async move {
            let [readers, waiting, granted] =
                ["readers", "waiting", "granted"].map(|word| self.keys.key(word, name));
            let (lock, fence) = (self.keys.lock(name), self.keys.fence(name));
            let keys = [&*lock, &*readers, &*waiting, &*granted, &*fence];
            let [lease_ms, alive_ms] = [lease, ALIVE].map(|span| span.as_millis().to_string());
            let arguments = [token.as_str(), &*lease_ms, &*alive_ms];
            let answer: Option<u64> =
                run(&self.connection, &self.scripts.acquire, &keys, &arguments).await?;
            Ok(answer.map(|fence| match self.side {
                Side::Read => Grant::UNFENCED,
                Side::Write => Grant::fenced(fence),
            }))
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
            run(&self.connection, &self.scripts.renew, &[&*self.holds(name)], &arguments).await
        })
    }

    fn release<'a>(&'a self, name: &'a LockName, token: &'a Token) -> StoreFuture<'a, bool> {
        Box::pin(async move {
            let keys = [&*self.holds(name), &*self.keys.key("waiting", name)];
            run(&self.connection, &self.scripts.release, &keys, &[token.as_str()]).await
        })
    }

    fn raise_fence<'a>(&'a self, name: &'a LockName, at_least: Fence) -> StoreFuture<'a, ()> {
        Box::pin(raise_fence(&self.connection, self.keys.fence(name), at_least))
    }

    fn shared(&self) -> bool {
        self.side == Side::Read
    }

    fn queues(&self) -> bool {
        true
    }
}
