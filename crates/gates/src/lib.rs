//! The gates: the strategies that decide who gets stock, and their counters in Redis and in memory.
//!
//! A strategy is a *gate*: it works on a lock, a counter or the stock row, and hands what it lets through
//! to the [`ledger`], which writes the order and takes the stock with a condition. So a gate may fail, lie
//! or lose its data at any moment. Each strategy's file reads like a manual page: how it works, what can
//! go wrong, when to use it.
//!
//! [`LIST`] has every strategy. To add one, write its file and add its name twice below: the module, and on
//! the list. The page of strategies, the documents, the metrics' labels and the conformance tests
//! read the list.

#[macro_use]
extern crate failpoint;

pub mod kit;
mod lock_etcd;
mod lock_local;
mod lock_mysql_named;
mod lock_mysql_table;
mod lock_redis;
mod lock_redis_fair;
mod lock_redis_getset;
mod lock_redis_reentrant;
mod lock_redis_setnx;
mod lock_redis_setnx_expire;
mod lock_redis_token;
mod lock_redlock;
mod lock_zookeeper;
mod lock_zookeeper_spin;
mod memory_mutex;
mod memory_naive;
pub mod memory_store;
mod mysql_atomic;
mod mysql_batch;
mod mysql_for_update;
mod mysql_mutex;
mod mysql_mutex_in_tx;
mod mysql_mutex_per_request;
mod mysql_naive;
mod mysql_timestamp;
mod mysql_unit_rows;
mod mysql_version;
mod redis_bucket;
mod redis_lua;
mod redis_mutex;
mod redis_naive;
pub mod redis_store;
pub mod redis_stream;
mod redis_watch;

use std::ptr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use mysql_connection::Database;
use tokio::time::Instant;

use crate::memory_store::MemoryCounters;
use crate::redis_store::{Buckets, Counters, Queue, RedisClient};
use leaselock::LeasedMutex;
use ledger::write::{Arbiter, GroupCommit};
use shop_domain::outcome::Dependency;
use shop_domain::{Outcome, Purchase};

pub use kit::locks::{LockSources, ZookeeperLocks};
pub use kit::options::{Options, OptionsError, Scope, Store, WaitFor};

/// Calls a macro with its arguments and the modules of all strategies, in the order in which pages show them: those to
/// use, then those to learn from.
#[macro_export]
macro_rules! with_strategies {
    ($($with:ident)::+! $($arguments:tt)*) => {
        $($with)::+! {
            $($arguments)*
            lock_redis lock_redis_token lock_redis_reentrant lock_redis_fair lock_redlock
            lock_mysql_table lock_mysql_named lock_etcd lock_zookeeper lock_zookeeper_spin
            mysql_atomic mysql_batch mysql_for_update mysql_unit_rows mysql_version redis_lua
            redis_bucket redis_stream redis_watch lock_local lock_redis_setnx_expire
            lock_redis_setnx lock_redis_getset mysql_mutex redis_mutex memory_mutex
            mysql_mutex_in_tx mysql_mutex_per_request mysql_timestamp mysql_naive redis_naive
            memory_naive
        }
    };
}

macro_rules! list {
    ($($name:ident)*) => { &[$($name::ENTRY),*] };
}

/// Every strategy.
pub static LIST: &[Entry] = with_strategies!(list!);

/// One line of the list.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Its description.
    pub card: &'static Card,
    /// Makes it.
    pub build: fn(&StrategyContext) -> Result<Arc<dyn Strategy>, BuildError>,
}

/// The number of instances of the service with which the gate alone, with the arbiter off,
/// oversells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Breaks {
    /// Never: any number of instances sells no unit twice.
    Never,
    /// One instance oversells.
    Alone,
    /// Two instances oversell; one does not.
    WithTwoInstances,
}

/// The description of a strategy, as data that pages, documents and tests read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Card {
    /// Its name in the route.
    pub name: &'static str,
    /// The family: `lock`, `sql`, `batch`, `cas`, `script`, `queue`, `watch`, `mutex`, `naive`.
    pub family: &'static str,
    /// The store of the counter that it decides by: `mysql`, `redis` or `memory`.
    pub store: &'static str,
    /// The number of instances that breaks the gate.
    pub breaks_with: Breaks,
    /// Its way of deciding, in one sentence.
    pub summary: &'static str,
    /// The fault that breaks it, in one sentence.
    pub breaks_when: &'static str,
    /// The servers that it needs beside MySQL.
    pub needs: &'static [Dependency],
    /// Whether an accepted answer means a durable order.
    pub durable_before_reply: bool,
    /// Its source: the article `S0` to `S4`, or `ours`.
    pub source: &'static str,
    /// Whether it takes the options of [`Options`].
    pub takes_options: bool,
}

impl Card {
    /// The beginning of most cards.
    const USUAL: Self = Self {
        name: "",
        family: "",
        store: "mysql",
        breaks_with: Breaks::Alone,
        summary: "",
        breaks_when: "",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    };
    /// The beginning of the cards of locks.
    const LOCK: Self = Self { family: "lock", takes_options: true, ..Self::USUAL };
    /// The beginning of the cards of gates that count in Redis.
    const REDIS: Self = Self { store: "redis", needs: &[Dependency::Redis], ..Self::USUAL };
    /// The beginning of the cards of locks in Redis. Those to use have a lease and a fence.
    const REDIS_LOCK: Self = Self {
        breaks_when: "A holder is paused beyond its lease, or Redis forgets the lock. Then the arbiter compares the fences and refuses the late write of the earlier holder.",
        needs: &[Dependency::Redis],
        ..Self::LOCK
    };

    /// Whether the gate alone, with the arbiter off and several instances, never oversells.
    pub fn is_safe(&self) -> bool {
        self.breaks_with == Breaks::Never
    }

    /// The number of instances that breaks the gate of the strategy with these options: a lock on
    /// the buyer alone leaves the stock to the arbiter.
    pub fn breaks_with_options(&self, options: &Options) -> Breaks {
        if options.scope == Some(Scope::User) { Breaks::Alone } else { self.breaks_with }
    }
}

/// The reason why a strategy was not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BuildError {
    /// Its servers are not configured: it is listed as not available.
    NotConfigured,
    /// A setting cannot be used, so that the service does not start.
    Unusable(String),
}

impl From<leaselock::InvalidName> for BuildError {
    fn from(error: leaselock::InvalidName) -> Self {
        Self::Unusable(format!("redis.prefix cannot be used: {error}"))
    }
}

impl From<leaselock::redis::redlock::InvalidRedlock> for BuildError {
    fn from(error: leaselock::redis::redlock::InvalidRedlock) -> Self {
        Self::Unusable(format!("lock.redlock_urls cannot be used: {error}"))
    }
}

/// The outcome of a purchase, in both cases. As an error it ends the purchase before its last step.
pub type Decision = Result<Outcome, Outcome>;

/// A way of deciding who gets stock.
#[async_trait]
pub trait Strategy: Send + Sync {
    /// Decides about one purchase and has the arbiter write an accepted one. Returns by the buyer's
    /// deadline, or soon after it. Options other than the defaults come only where the card says that the
    /// strategy takes them. Before it gives back what it holds, it sets the outcome for the buyer.
    async fn purchase(
        &self,
        purchase: Purchase,
        options: Options,
        buyer: &WaitingBuyer,
    ) -> Decision;

    /// The locks that it works with, for their figures.
    fn locks(&self) -> Vec<LeasedMutex> {
        Vec::new()
    }
}

/// A buyer who waits for the outcome of a purchase. Clones are the same buyer.
#[derive(Clone, Debug)]
pub struct WaitingBuyer {
    /// No try of the order begins after it.
    pub deadline: Instant,
    outcome: Arc<OnceLock<Outcome>>,
}

impl WaitingBuyer {
    /// A buyer for whom nothing begins after `deadline`.
    pub fn new(deadline: Instant) -> Self {
        Self { deadline, outcome: Arc::default() }
    }

    /// Sets the outcome. The buyer has it from now on, also if a server to which something is given back
    /// answers after the buyer's time.
    pub fn set_outcome(&self, outcome: &Outcome) {
        // The first one stays.
        let _ = self.outcome.set(outcome.clone());
    }

    /// The outcome, once it is known.
    pub fn outcome(&self) -> Option<&Outcome> {
        self.outcome.get()
    }
}

/// The strategies of a running service, by name.
pub struct Strategies {
    built: Vec<BuiltStrategy>,
    offers: BuiltStrategy,
}

/// A strategy of the list in a running service.
pub struct BuiltStrategy {
    /// Its description.
    pub card: &'static Card,
    /// The strategy itself; `None` when its servers are not configured.
    pub strategy: Option<Arc<dyn Strategy>>,
}

impl Strategies {
    /// Builds every strategy on the list.
    ///
    /// # Errors
    /// A sentence for the operator when a setting cannot be used.
    pub fn new(context: &StrategyContext) -> Result<Self, String> {
        let build = |entry: &Entry| match (entry.build)(context) {
            Ok(strategy) => Ok(BuiltStrategy { card: entry.card, strategy: Some(strategy) }),
            Err(BuildError::NotConfigured) => {
                Ok(BuiltStrategy { card: entry.card, strategy: None })
            }
            Err(BuildError::Unusable(why)) => Err(why),
        };
        let built = LIST.iter().map(build).collect::<Result<_, _>>()?;
        Ok(Self { built, offers: build(&mysql_atomic::OFFERS)? })
    }

    /// The strategy that takes a unit which is offered to a buyer who waited.
    pub fn offers(&self) -> &BuiltStrategy {
        &self.offers
    }

    /// Finds a strategy of the list.
    pub fn find(&self, name: &str) -> Option<&BuiltStrategy> {
        self.built.iter().find(|built| built.card.name == name)
    }

    /// Every card, with whether the strategy is available here.
    pub fn cards(&self) -> impl Iterator<Item = (&'static Card, bool)> {
        self.built.iter().map(|built| (built.card, built.strategy.is_some()))
    }

    /// The locks of all strategies, each once.
    pub fn locks(&self) -> Vec<LeasedMutex> {
        let mut locks: Vec<LeasedMutex> = Vec::new();
        let strategies = self.built.iter().filter_map(|built| built.strategy.as_ref());
        for mutex in strategies.flat_map(|strategy| strategy.locks()) {
            if !locks.iter().any(|known| ptr::eq(known.stats(), mutex.stats())) {
                locks.push(mutex);
            }
        }
        locks
    }
}

/// The parts of the service that strategies use.
#[derive(Clone)]
pub struct StrategyContext {
    /// The arbiter for single orders.
    pub arbiter: Arbiter,
    /// The group commit in front of the arbiter.
    pub group_commit: GroupCommit,
    /// The connection pool for reading the stock.
    pub pool: Database,
    /// Redis, for connections lent to one caller.
    pub redis: RedisClient,
    /// The Redis counters.
    pub counters: Counters,
    /// The Redis counters that are split over several keys.
    pub buckets: Buckets,
    /// The queues of orders on their way to the arbiter.
    pub queue: Queue,
    /// The counters of this process.
    pub memory: MemoryCounters,
    /// The servers of the locks.
    pub locks: LockSources,
    /// How long locks are held without a renewal.
    pub lease: Duration,
}

/// The card of a name on the list.
pub fn card(name: &str) -> Option<&'static Card> {
    LIST.iter().map(|entry| entry.card).find(|card| card.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_are_unique_and_cards_are_filled_in() {
        let names: BTreeSet<_> = LIST.iter().map(|entry| entry.card.name).collect();
        assert_eq!(names.len(), LIST.len());
        for card in LIST.iter().map(|entry| entry.card) {
            assert!(
                card.summary.ends_with('.') && card.breaks_when.ends_with('.'),
                "{}",
                card.name
            );
            assert!(!card.family.is_empty(), "{}", card.name);
            assert!(["mysql", "redis", "memory"].contains(&card.store), "{}", card.name);
            let sources = ["S0", "S1", "S2", "S3", "S4", "ours"];
            assert!(
                card.source.split(", ").all(|source| sources.contains(&source)),
                "{}",
                card.name
            );
        }
    }
}
