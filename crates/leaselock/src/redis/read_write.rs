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

use ::redis_connection::Script;
use tokio_util::task::TaskTracker;

use super::script::{CLOCK, HOLDS, MINT, Scripts, WAITERS, script};
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use super::{Connection, WAITER_ALIVE};
use crate::{Capabilities, InvalidName, LeasedMutex, Primitive, ReadWrite};

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
    let half = |form, scripts| -> Result<LeasedMutex, InvalidName> {
        let connection = connection.clone();
        let kind = CAPABILITIES.kind;
        let server = Server::of_kind(connection, Some(subscriber), key_prefix, kind)?;
        let store = ScriptStore { server, scripts, form };
        Ok(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks))
    };
    let read = half(Form::Readers, scripts_of_readers())?;
    let write = half(Form::Writers, scripts_of_writers())?;
    Ok(ReadWrite { read, write })
}

fn scripts_of_readers() -> Scripts {
    Scripts {
        acquire: with_queue(include_str!("read_acquire.lua")),
        renew: script(&[CLOCK, HOLDS, include_str!("expiring_renew.lua")]),
        release: with_queue(include_str!("read_release.lua")),
    }
}

fn scripts_of_writers() -> Scripts {
    Scripts {
        acquire: with_queue(include_str!("write_acquire.lua")),
        renew: script(&[include_str!("token_renew.lua")]),
        release: with_queue(include_str!("write_release.lua")),
    }
}

fn with_queue(code: &str) -> Script {
    script(&[CLOCK, MINT, WAITERS, HOLDS, include_str!("read_write_queue.lua"), code])
}
