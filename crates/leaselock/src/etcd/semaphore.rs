//! `semaphore` on `etcd`: the first contenders of a queue hold, as many as there are permits.
//!
//! **How it works.** It works like `mutex`, but with `n` permits the first `n` contenders of the
//! queue hold. A waiting contender is notified of every key that goes, and asks again only when
//! fewer than `n` are left ahead of it. A permit belongs to a lease, so it comes back when its
//! holder dies.
//!
//! **What can go wrong.** It fails as `mutex` does. A holder that is paused beyond its
//! lease, or a lease that is revoked too early, can lead to one holder more than there are permits.
//! Fences rise in the order of the grants, and several of them are good at the same time, so a
//! store that accepts only the highest one refuses rightful holders. If clients use different
//! numbers of permits, each client applies its own number.
//!
//! **When to use it.** Use it to limit how many callers do something at once, in all programs
//! together.

use tokio_util::task::TaskTracker;

use super::client::Client;
use super::store::QueueStore;
use crate::core::queue_role::QueueRole;
use crate::{Capabilities, InvalidName, LeasedMutex, Primitive};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    primitive: Primitive::Semaphore,
    kind: "semaphore",
    summary: "the first contenders of a queue by create revision hold, as many as there are permits, each with a lease",
    breaks_when: "A holder is paused beyond its lease, or an etcd without the fix of its issue 15247 changes its leader",
    ..super::FAIR_MUTEX
};

/// Makes the semaphore: at most `permits_max` hold a name at the same time, at least one. The other
/// arguments are those of [`mutex::mutex`](super::mutex::mutex).
///
/// # Errors
/// When the prefix is not valid.
pub fn semaphore(
    client: Client,
    key_prefix: &str,
    permits_max: u32,
    tasks: &TaskTracker,
) -> Result<LeasedMutex, InvalidName> {
    QueueStore::start(client, key_prefix, QueueRole::permit(permits_max), &CAPABILITIES, tasks)
}
