//! `multi` on `redis`: several names at once, all or none, on the keys of `token`.
//!
//! **How it works.** All names with one hash tag live in one slot: one script acquires all of them
//! if all are free, or none. Names of several slots are acquired slot by slot in the order of their
//! tags, which is the same for everybody, and released when a slot is refused. The keys and the
//! fences are those of [`token`](super::token), so a caller that holds only one of the names keeps
//! out a contender for several names, and their fences can be compared.
//!
//! **How it waits.** A contender waits in the queue of the first name that has another holder. The
//! release of that name notifies the contender, which asks again. If another name is taken by then,
//! the contender leaves the free names to others and waits in the queue of the taken name. If the
//! contender wants only one name, the name is handed on to it as by `token`.
//!
//! **What can go wrong.** It fails as `token` does. A contender for several names has to
//! find all of them free, so it may starve behind many contenders for single names. A program that
//! dies between two slots leaves the first ones to expire with their leases. If one key of a slot
//! is lost, the guard counts as lost for all names of that slot.
//!
//! **When to use it.** Use it when a change touches several guarded things. Give them one hash tag
//! where that is possible: then it is one command.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::script::{CLOCK, HAND_ON, MINT, Scripts, WAITERS, script};
use super::script_store::{Form, ScriptStore};
use super::server::Server;
use super::subscriber::Subscriber;
use super::{Connection, Keys};
use crate::core::backoff::WaitStrategy;
use crate::{Capabilities, InvalidName, LeasedMutex, MultiMutex, Primitive};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::MultiLock,
    kind: "multi",
    summary: "all names of a slot in one script, slots in a fixed order, on the keys of `token`",
    ..super::FENCED_MUTEX
};

/// Makes the lock, with the arguments of [`token::notified`](super::token::notified).
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex<C: Connection>(
    connection: C,
    subscriber: &Subscriber,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<MultiMutex, InvalidName> {
    let server = Server::new(connection, Keys::new(key_prefix)?, Some(subscriber));
    let store = group_store(server, WaitStrategy::Notified);
    Ok(MultiMutex::by_hash_tag(LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks)))
}

/// A store for groups of names whose contenders wait by `strategy`.
pub(super) fn group_store<C: Connection>(
    server: Server<C>,
    strategy: WaitStrategy,
) -> ScriptStore<C> {
    let with_names =
        |code| script(&[CLOCK, MINT, WAITERS, HAND_ON, include_str!("multi_names.lua"), code]);
    let scripts = Scripts {
        acquire: with_names(include_str!("multi_acquire.lua")),
        renew: with_names(include_str!("multi_renew.lua")),
        release: with_names(include_str!("multi_release.lua")),
    };
    ScriptStore { server, scripts, form: Form::Group(strategy) }
}
