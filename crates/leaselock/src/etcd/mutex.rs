//! `mutex` on `etcd`: a queue by create revision; the first contender holds, each watches the one ahead.
//!
//! **How it works.** Each process has one contender per name. It writes a key with a lease of its
//! own; the key with the lowest create revision has the lock, and the revision is the fence. The
//! others stay in the queue and watch the key just ahead, so that a release wakes one of them. Only
//! what the store says afterwards counts: a key that expired in the queue is written anew at its
//! end, never a grant.
//!
//! **What can go wrong.** A holder may be paused beyond its lease. A cluster without the fix of
//! etcd#15247, such as Debian's 3.4.23, can revoke leases after a change of leader that the new
//! leader had renewed. The fence protects the data in both cases. Without a quorum there is no lock
//! at all: an acquire fails as unavailable, and holders lose theirs in time.
//!
//! **When to use it.** When the death of a server must not make two holders. Two writes by a quorum
//! per acquire and two per release make it slower than Redis.

use tokio_util::task::TaskTracker;

use super::client::Client;
use super::queue::{Contender, Keys};
use super::store::{Ahead, QueueStore, Rule};
use crate::{Capabilities, Fencing, InvalidName, LeasedMutex, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "mutex",
    backend: "etcd",
    summary: "a queue by create revision with a lease per contender; each watches the one ahead",
    breaks_when: "The holder is paused beyond its lease, or an etcd without the mend of its issue 15247 changes its leader",
    fair_between_processes: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Notified,
    survives_failover: true,
    ..Capabilities::LEASED_MUTEX
};

/// Makes the lock. All keys begin with `key_prefix`; the tasks of the lock run on `tasks`.
///
/// # Errors
/// When the prefix is not valid.
pub fn mutex(
    client: Client,
    key_prefix: &str,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    let keys = Keys::new(key_prefix, CAPABILITIES.kind)?;
    Ok(LeasedMutex::start(QueueStore::new(client, keys, First), &CAPABILITIES, tasks))
}

/// The first contender holds.
struct First;

impl Rule for First {
    fn ahead<'a>(&self, queue: &'a [Contender], index: usize) -> Option<Ahead<'a>> {
        let before = index.checked_sub(1)?;
        Some(Ahead { contenders: &queue[before..index], until_left: 0 })
    }
}
