//! `read-write` on `redis`: readers share a name, a writer has it to itself.
//!
//! **How it works.** The writer's hold is a key with its token and fence, as in `token`. The
//! readers are in a sorted set. It is sorted by the end of each reader's lease, measured by the
//! *server's* clock. Each reader renews only its own lease. A refused contender enters a queue. A
//! reader that comes while a writer waits has to wait, so readers cannot starve writers. A reader
//! that was already waiting when the most recent writer got the name goes before the next writer.
//! So writers cannot starve readers. A contender that has made no attempt for [`ALIVE`] (1.5 s)
//! does not count.
//!
//! **How it waits.** When a holder releases or a contender gives up, the same script grants the
//! name to the next contenders and notifies their clients. The next contenders are all readers
//! that go before the next writer, or else the writer that has waited longest.
//!
//! **What can go wrong.** It fails as `token` does. A dead reader keeps writers out until
//! its own lease ends, and no other reader prolongs that. A client has only one reader in the
//! queue at a time. So while writers queue, only one waiting reader of a client is granted between
//! two writers.
//!
//! **When to use it.** Use it when reading takes long and happens much more often than writing; for
//! short work `token` is quicker.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::task::TaskTracker;

use super::script::{CLOCK, HOLDS, MINT, Scripts, WAITERS, flag, script};
use super::server::Server;
use super::subscriber::Subscriber;
use super::{Connection, WAITER_ALIVE};
use crate::store::{Grant, LeaseStore, StoreResult, Subscription, Token, WatchedHold};
use crate::{Capabilities, Fence, InvalidName, LeasedMutex, LockName, Primitive, ReadWrite};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::ReadWrite,
    kind: "read-write",
    summary: "an owner token for the writer, a sorted set of leases for the readers, taking turns, renewed, with a fence for the writer",
    breaks_when: "Redis fails over or loses its data, its clock jumps ahead, or a holder is paused beyond its lease",
    ..super::FENCED_MUTEX
};

/// How long a contender counts after its last attempt: what a dead one costs the other side.
pub const ALIVE: Duration = WAITER_ALIVE;

/// Makes both halves, with the arguments of [`token::notified`](super::token::notified). Read guards have
/// no fence.
///
/// # Errors
/// When the prefix is not valid.
pub fn read_write<C: Connection>(
    connection: &C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<ReadWrite, InvalidName> {
    let half = |side: Side| {
        let connection = connection.clone();
        let kind = CAPABILITIES.kind;
        let server = Server::of_kind(connection, Some(subscriber), key_prefix, kind)?;
        let store = HalfStore { server, side, scripts: side.scripts() };
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
    server: Server<C>,
    side: Side,
    scripts: Scripts,
}

impl Side {
    fn scripts(self) -> Scripts {
        let queue = include_str!("read_write_queue.lua");
        let with_queue = |code| script(&[CLOCK, MINT, WAITERS, HOLDS, queue, code]);
        match self {
            Self::Read => Scripts {
                acquire: with_queue(include_str!("read_acquire.lua")),
                renew: script(&[CLOCK, HOLDS, include_str!("expiring_renew.lua")]),
                release: with_queue(include_str!("read_release.lua")),
            },
            Self::Write => Scripts {
                acquire: with_queue(include_str!("write_acquire.lua")),
                renew: script(&[include_str!("token_renew.lua")]),
                release: with_queue(include_str!("write_release.lua")),
            },
        }
    }
}

impl<C: Connection> HalfStore<C> {
    /// The keys of both sides' scripts: first the writer's hold and the readers' holds.
    fn keys(&self, name: &LockName) -> [String; 5] {
        let keys = &self.server.keys;
        let [readers, queue, last_writer] =
            ["readers", "queue", "last-writer"].map(|word| keys.key(word, name));
        [keys.lock(name), readers, queue, last_writer, keys.fence(name)]
    }
}

#[async_trait]
impl<C: Connection> LeaseStore for HalfStore<C> {
    async fn acquire(
        &self,
        name: &LockName,
        token: &Token,
        lease: Duration,
    ) -> StoreResult<Option<Grant>> {
        let lease_ms = lease.as_millis().to_string();
        let channel = &*self.server.channel_if_waiting(name, token);
        let attempt = token.attempt().to_string();
        let arguments = [token.as_str(), &lease_ms, channel, flag(token.waits()), &attempt];
        let answer: Option<u64> =
            self.server.run(&self.scripts.acquire, &self.keys(name), &arguments).await?;
        Ok(answer.map(|fence| match self.side {
            Side::Read => Grant::UNFENCED,
            Side::Write => Grant::fenced(fence),
        }))
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let [writer, readers, ..] = self.keys(name);
        let holds = if self.side == Side::Read { readers } else { writer };
        self.server.renew(&self.scripts.renew, &[holds], token, lease).await
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        self.server.run(&self.scripts.release, &self.keys(name), &[token.as_str()]).await
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        self.server.raise_fence(name, at_least).await
    }

    async fn watch(&self, name: &LockName, token: &Token) -> StoreResult<Option<Subscription>> {
        self.server.watch(name, token).await
    }

    fn listen(&self, name: &LockName, token: &Token) -> Option<Subscription> {
        self.server.listen(name, token)
    }

    fn watch_hold(&self, hold: WatchedHold) {
        // The readers share a key, which each of them changes.
        if self.side == Side::Write {
            self.server.watch_hold(hold, None);
        }
    }

    fn shared(&self) -> bool {
        self.side == Side::Read
    }

    fn queues(&self) -> bool {
        true
    }
}
