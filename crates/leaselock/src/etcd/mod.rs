//! Locks on etcd: a queue in the order in which the store itself numbers its changes.
//!
//! Every acquire writes one key under the name, with a lease of its own. The key's *create
//! revision* is its position in the queue: it is unique, and a later key has a higher one. The role of
//! a contender says whether it holds, and for which ones ahead of it it waits (`core/queue_role.rs`).
//!
//! | key | holds | lives |
//! |---|---|---|
//! | `P` kind `/N ` role token | nothing: only its existence counts | as long as its lease |
//! | `P` kind `/fences` | the number that is added to a revision to make a fence | for ever |
//!
//! `P` is the caller's prefix and `N` the name. No name contains a space, so no name is the
//! beginning of another.
//!
//! **Fences** are create revisions, above a floor. Revisions start again when a cluster loses its
//! data, so the floor is made from the clock, in microseconds: it has passed what was minted
//! before.
//!
//! **Leases** of etcd are whole seconds, at least two here, and never shorter than asked, so our
//! own deadline, which counts from before the command was sent, is always the earlier one. After a
//! holder has died the name is free some two seconds later than the lease that was asked for would
//! say.
//!
//! **Change of leader.** A member that does not know yet that it has lost the leadership renews
//! leases which the others let run out (etcd#15247). So a renewal counts only when a quorum
//! confirms afterwards, in the same term, that the key is still there.

mod api;
mod client;
mod login;
pub mod mutex;
mod queue;
pub mod read_write;
pub mod semaphore;
mod store;

#[cfg(feature = "etcd-tls")]
pub use client::Certificates;
pub use client::{Client, InvalidEndpoint};

use crate::{Capabilities, Fencing, Waiting};

/// The beginning of the cards: a queue, first come, first served, with fences.
const FAIR_MUTEX: Capabilities = Capabilities {
    backend: "etcd",
    breaks_when: "The holder is paused beyond its lease, or an etcd without the fix of its issue 15247 changes its leader",
    fair_between_processes: true,
    fencing: Fencing::Rising,
    waiting: Waiting::Notified,
    survives_failover: true,
    ..Capabilities::LEASED_MUTEX
};
