//! `lock-redlock`: one lock per item on a majority of independent Redis servers; read, check,
//! write.
//!
//! # How it works
//! The item's lock has to be granted by more than half of several Redis servers that know nothing
//! of each other, so it outlives the death of the others. Read, check and write happen under it.
//!
//! # What can go wrong
//! A server that restarts without its data helps a second holder to a majority; a holder that is
//! paused beyond its lease writes late. Redlock has no fence, so no store can tell the late write
//! from a good one by a number: the arbiter keeps it out, and with the arbiter off it is let in.
//!
//! # When to use it
//! To compare it. Where locks must outlive a server, etcd and ZooKeeper do it with a fence.

use super::kit::guarded_sale::GuardedSale;
use super::{Breaks, BuildError, Card, Entry};
use leaselock::redis::redlock;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redlock",
        breaks_with: Breaks::Never,
        summary: "One lock per item, held on a majority of independent Redis servers; under the lock the stock is read, checked and written.",
        breaks_when: "A holder is paused beyond its lease, or a server restarts without its data; there is no fence, so only the arbiter's condition on the stock is left.",
        needs: &[Dependency::Redlock],
        source: "S1, S2",
        ..Card::LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let servers = locks.redlock.clone();
        if servers.is_empty() {
            return Err(BuildError::NotConfigured);
        }
        let mutex = redlock::mutex(servers, &locks.prefix, &locks.tasks)?;
        Ok(GuardedSale::per_item(context, mutex, None, Dependency::Redlock))
    },
};
