//! `mutex` on `etcd`: a queue by create revision; the first contender holds, each watches the one ahead.
//!
//! **How it works.** Each client has one contender per name. It writes a key with a lease of its
//! own. The key with the lowest create revision has the lock. The fence is this revision plus a
//! number that etcd stores, the *floor*. The others stay in the queue and watch the key just ahead,
//! so that a release wakes one of them. Each attempt decides only by the state that the store
//! returns after the attempt. If a key expired in the queue, it is written again at the end of the
//! queue; the expired key never counts as a grant.
//!
//! **What can go wrong.** A holder may be paused beyond its lease. After a change of leader, a
//! cluster without the fix of etcd#15247 (for example Debian's 3.4.23) can revoke leases that the
//! new leader had renewed. The fence protects the data in both cases. Without a quorum there is no
//! lock at all: an acquire fails as unavailable, and each holder gets its lost signal before
//! another caller can hold the name.
//!
//! **When to use it.** Use it when the death of a server must not make two holders. It is slower
//! than a lock on Redis: each acquire and each release needs two writes by a quorum.

use tokio_util::task::TaskTracker;

use super::client::Client;
use super::store::QueueStore;
use crate::core::queue_role::QueueRole;
use crate::{Capabilities, InvalidName, LeasedMutex};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "mutex",
    summary: "a queue by create revision with a lease per contender; each watches the one ahead",
    ..super::FAIR_MUTEX
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
    QueueStore::start(client, key_prefix, QueueRole::Exclusive, &CAPABILITIES, tasks)
}
