//! `lock-redis`, the main one: the buyer's lock without waiting, then the item's lock, waiting.
//!
//! # How it works
//! 1. The buyer's lock is *tried*: a buyer whose other click is still running is answered 409
//!    `request_in_progress` at once.
//! 2. The item's lock is *waited for*, first come first served inside this process. The order of
//!    the two is fixed, so that no two buyers can wait for each other.
//! 3. Under both: read the stock, check, write. Both locks are leases with a random owner, renewed
//!    while they are held and released by compare-and-delete; the item's lock carries a fence,
//!    which the arbiter raises in the same transaction.
//!
//! `store=redis` guards the counter in Redis instead of the stock row; `scope` chooses what is
//! locked: `market`, `item`, `user`, or `item-user` (both, the default).
//!
//! # What can go wrong
//! * A holder that is paused beyond its lease does not know that another one holds the lock now.
//!   The fence keeps its late write out; with the arbiter off it is let in.
//! * A failover of Redis may forget the lock: two holders, and again the fence decides.
//! * `scope=user` does not guard the stock at all, only the buyer's clicks.
//!
//! # When to use it
//! When the work under the lock is more than one statement. To take stock alone, `mysql-atomic`
//! does the same with one round trip fewer.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::shared::options::{Scope, Store};
use super::shared::{ledger_view, redis_gate};
use super::{Breaks, Card, Entry, Gear, Request, Strategy, outcome};
use crate::arbiter::{Bare, Fence, Verdict, Write};
use crate::domain::outcome::Dependency;
use crate::domain::{Outcome, Refusal, Unavailable};
use crate::lock::{AcquireError, AcquireOptions, Fence as Accepted, Guard, LockName, Wait};

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "lock-redis",
        family: "lock",
        store: "mysql",
        safe: true,
        breaks_with: Breaks::Never,
        summary: "The buyer's lock without waiting, then the item's lock; read, check, write.",
        breaks_when: "A holder is paused beyond its lease, or Redis forgets the lock; the fence saves it.",
        needs: &["redis"],
        durable_before_reply: true,
        source: "S0, S1, S2, S3, S4",
        takes_options: true,
    },
    build: |gear| Some(Arc::new(LockRedis { gear: gear.clone() })),
};

struct LockRedis {
    gear: Gear,
}

/// The lock that guards the stock, with the name of the counter that its fence comes from.
type Held = (Guard, &'static str);

impl Strategy for LockRedis {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            loop {
                match self.locked(request).await {
                    Ok(Some(outcome)) | Err(outcome) => return outcome,
                    Ok(None) => {}
                }
                // The counter has nothing left; the ledger decides whether that is the end.
                if let Some(outcome) = redis_gate::sold_out(&self.gear, request).await {
                    return outcome;
                }
            }
        })
    }
}

impl LockRedis {
    /// Takes the locks of the scope in their fixed order, works, and releases them. `None` means
    /// that the Redis counter has nothing left.
    async fn locked(&self, request: &Request) -> Result<Option<Outcome>, Outcome> {
        let scope = request.options.scope;
        let buyer = match scope {
            Scope::User | Scope::ItemUser => Some(self.try_buyer(request).await?),
            Scope::Market | Scope::Item => None,
        };
        let shared = match scope {
            Scope::User => Ok(None),
            Scope::Item | Scope::ItemUser => {
                let name = format!("{{item:{}}}", request.purchase.item.id);
                self.wait_for(request, &name).await.map(|guard| Some((guard, "redis")))
            }
            Scope::Market => {
                self.wait_for(request, "market").await.map(|guard| Some((guard, "redis/market")))
            }
        };
        let outcome = match &shared {
            Ok(held) => Ok(self.work(request, held.as_ref()).await),
            Err(outcome) => Err(outcome.clone()),
        };
        // Both are free before the buyer is answered, so that the next click finds them so.
        tokio::join!(release(shared.ok().flatten().map(|(guard, _)| guard)), release(buyer));
        outcome
    }

    async fn try_buyer(&self, request: &Request) -> Result<Guard, Outcome> {
        let name = format!("user:{}", request.purchase.buyer);
        let in_progress = Outcome::Refused(Refusal::RequestInProgress);
        self.acquire(&name, Wait::Never, in_progress).await
    }

    async fn wait_for(&self, request: &Request, name: &str) -> Result<Guard, Outcome> {
        let contended = Outcome::Unavailable(Unavailable::Contended);
        self.acquire(name, Wait::Until(request.deadline), contended).await
    }

    async fn acquire(&self, name: &str, wait: Wait, taken: Outcome) -> Result<Guard, Outcome> {
        let name = LockName::new(name).expect("made of digits and fixed words");
        let options = AcquireOptions { lease: self.gear.lease, wait };
        self.gear.lock_redis.acquire(&name, options).await.map_err(|error| match error {
            AcquireError::Busy | AcquireError::TimedOut => taken,
            AcquireError::TooManyWaiters => Outcome::Unavailable(Unavailable::Overloaded),
            AcquireError::Unavailable(_) | AcquireError::InvalidOptions(_) => {
                tracing::warn!(%error, "no lock");
                Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis))
            }
        })
    }

    /// The textbook's read, check and write, under the lock.
    async fn work(&self, request: &Request, held: Option<&Held>) -> Option<Outcome> {
        match request.options.store {
            Store::Mysql => Some(self.work_on_ledger(request, held).await),
            Store::Redis => self.work_on_counter(request, held).await,
        }
    }

    async fn work_on_ledger(&self, request: &Request, held: Option<&Held>) -> Outcome {
        let purchase = &request.purchase;
        let seen = match ledger_view::look(&self.gear.pool, purchase).await {
            Ok(row) => row,
            Err(outcome) => return outcome,
        };
        let bare = Bare::Set { available: seen.available - purchase.quantity.signed() };
        outcome(self.write(request, held, bare).await)
    }

    async fn work_on_counter(&self, request: &Request, held: Option<&Held>) -> Option<Outcome> {
        let (item, units) = (request.purchase.item.id, request.purchase.quantity.signed());
        let seen = match self.gear.counters.read(item).await {
            Ok(counter) if counter.available < units => return None,
            Ok(counter) => counter,
            Err(error) => return Some(redis_gate::unavailable(&error)),
        };
        if self.gear.counters.overwrite(item, seen.available - units).await.is_err() {
            return Some(Outcome::Unavailable(Unavailable::Dependency(Dependency::Redis)));
        }
        let verdict = self.write(request, held, Bare::Record).await;
        redis_gate::give_back_if_refused(&self.gear, request, seen.epoch, &verdict).await;
        Some(outcome(verdict))
    }

    async fn write(&self, request: &Request, held: Option<&Held>, bare: Bare) -> Verdict {
        if held.is_some_and(|(guard, _)| guard.is_lost()) {
            return Verdict::Unavailable(Unavailable::Contended);
        }
        let fence = held.and_then(|(guard, backend)| {
            guard.fence().map(|fence| Fence { backend, token: fence.get() })
        });
        let write = Write { purchase: &request.purchase, fence, version_seen: None, bare };
        let verdict = self.gear.arbiter.write(&write).await;
        if let (Verdict::Fenced { accepted }, Some((guard, _))) = (&verdict, held) {
            self.catch_up(guard, *accepted).await;
        }
        verdict
    }

    /// The ledger has accepted a later fence than ours: either we are late, or Redis lost its
    /// counter and its clock is behind. Raising the counter is right in both cases.
    async fn catch_up(&self, guard: &Guard, accepted: u64) {
        let raised = self.gear.lock_redis.raise_fence(guard.name(), Accepted(accepted)).await;
        if let Err(error) = raised {
            tracing::warn!(%error, "the fence counter was not raised");
        }
    }
}

async fn release(guard: Option<Guard>) {
    if let Some(guard) = guard {
        // Lost meanwhile or not: the write is judged already, by its fence.
        let _ = guard.release().await;
    }
}
