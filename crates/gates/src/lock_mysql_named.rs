//! `lock-mysql-named`: one lock per item: GET_LOCK on a session of its own; read, check, write.
//!
//! # How it works
//! One session per instance holds all its named locks; GET_LOCK without waiting tries, RELEASE_LOCK
//! gives back.
//!
//! # What can go wrong
//! When the session breaks, the server frees all its locks before any holder knows. There is no
//! fence: only the arbiter's condition on the stock is left. The locks are those of one server: its
//! replicas and the other nodes of Galera know nothing of them, so they end when the writer changes.
//!
//! # When to use it
//! To keep two copies of a job apart. For a sale `lock-mysql-table` is the better one.

use super::kit::guarded_sale::GuardedSale;
use super::{Breaks, Card, Entry};
use leaselock::mysql::named;
use shop_domain::outcome::Dependency;

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-mysql-named",
        breaks_with: Breaks::Never,
        summary: "One lock per item: GET_LOCK on a session that does nothing else; under the lock the stock is read, checked and written.",
        breaks_when: "The session that holds the locks ends, or another server takes over the writes. In both cases all locks of the session end at once. There is no fence, so a late write of a former holder is not detected. On Galera, an instance that uses another node does not see the lock.",
        ..Card::LOCK
    },
    build: |context| {
        let locks = &context.locks;
        let pool = locks.mysql.for_locks().clone();
        let namespace = pool.connect_options().get_database().unwrap_or_default().to_owned();
        let server = move || pool.connect_options();
        let idle_min = named::SESSION_IDLE_MIN;
        let mutex = named::mutex(server, &namespace, idle_min, &locks.tasks);
        Ok(GuardedSale::per_item(context, mutex, None, Dependency::Mysql))
    },
};
