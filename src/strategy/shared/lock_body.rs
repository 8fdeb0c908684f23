//! The textbook's read, check and write under a lock, whatever the lock.
//!
//! [`LockBody`] takes the locks of the scope in a fixed order (the buyer's without waiting, then the
//! shared one), reads, checks, writes, and releases. A strategy is a body with its kind of lock.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::combined::Combined;
use super::options::{Options, Scope, Store, WaitFor};
use super::taking::{item_lock, name_of, release};
use super::{ledger_view, redis_gate};
use crate::arbiter::{Bare, Fence, Verdict, Write};
use crate::domain::outcome::Dependency;
use crate::domain::{ArbiterMode, Outcome, Unavailable};
use crate::lock::{self, Fence as Accepted, Guard};
use crate::strategy::{Gear, Request, Strategy, outcome};

/// A lock strategy: one kind of lock around the same work.
pub struct LockBody {
    /// What strategies are made of.
    pub gear: Gear,
    /// The lock.
    pub mutex: Arc<dyn lock::Mutex>,
    /// The lock that a buyer's clicks exclude each other with; nobody waits for it.
    pub buyers: Arc<dyn lock::Mutex>,
    /// The counters that its fences come from, as the ledger names them: of an item's lock, and of
    /// the one lock for the whole market. They cannot be compared with each other. `None` where
    /// the lock has no fences that mean anything to another instance.
    pub fences: Option<(&'static str, &'static str)>,
    /// What is locked when the request does not say.
    pub scope: Scope,
    /// Does the work of those who wait for an item's lock in batches, where that is wanted.
    pub combined: Option<Combined>,
    /// What it means that the lock does not answer.
    pub dependency: Dependency,
}

impl LockBody {
    /// The same work under another lock: one per item, unless the request says otherwise.
    #[must_use]
    pub fn per_item(
        gear: &Gear,
        mutex: &Arc<dyn lock::Mutex>,
        fences: Option<(&'static str, &'static str)>,
        dependency: Dependency,
    ) -> Arc<dyn Strategy> {
        let (gear, mutex) = (gear.clone(), Arc::clone(mutex));
        let buyers = Arc::clone(&mutex);
        Arc::new(Self {
            gear,
            mutex,
            buyers,
            fences,
            scope: Scope::Item,
            combined: None,
            dependency,
        })
    }
}

/// The lock that guards the stock, with the name of the counter that its fence comes from.
type Held = (Guard, Option<&'static str>);

impl Strategy for LockBody {
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

impl LockBody {
    /// Takes the locks of the scope in their fixed order, works, and releases them. `None` means
    /// that the Redis counter has nothing left.
    async fn locked(&self, request: &Request) -> Result<Option<Outcome>, Outcome> {
        let scope = request.options.scope.unwrap_or(self.scope);
        let buyer = match scope {
            Scope::User | Scope::ItemUser => Some(self.try_buyer(request).await?),
            Scope::Market | Scope::Item => None,
        };
        if let Some(combined) = self.combined_for(request, scope) {
            let name = item_lock(request);
            let outcome = match combined.write(request, name).await {
                Ok(verdict) => outcome(verdict),
                Err(error) => self.not_submitted(error),
            };
            release(buyer).await;
            return Ok(Some(outcome));
        }
        let shared = match scope {
            Scope::User => Ok(None),
            Scope::Item | Scope::ItemUser => self
                .wait_for(request, &item_lock(request))
                .await
                .map(|guard| Some((guard, self.fences.map(|fences| fences.0)))),
            Scope::Market => self
                .wait_for(request, &name_of("market"))
                .await
                .map(|guard| Some((guard, self.fences.map(|fences| fences.1)))),
        };
        let outcome = match &shared {
            Ok(held) => Ok(self.work(request, held.as_ref()).await),
            Err(outcome) => Err(outcome.clone()),
        };
        // Both are free before the buyer is answered, so that the next click finds them so.
        tokio::join!(release(shared.ok().flatten().map(|(guard, _)| guard)), release(buyer));
        outcome
    }

    /// Where the request's own wishes allow that others do its work.
    fn combined_for(&self, request: &Request, scope: Scope) -> Option<&Combined> {
        let Options { store, wait, .. } = request.options;
        let alike = store == Store::Mysql
            && wait == WaitFor::Notify
            && matches!(scope, Scope::Item | Scope::ItemUser)
            && request.purchase.item.arbiter == ArbiterMode::On;
        self.combined.as_ref().filter(|_| alike)
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
            Some(Fence { backend: (*backend)?, token: guard.fence()?.get() })
        });
        let write = Write { purchase: &request.purchase, fence, version_seen: None, bare };
        let verdict = self.gear.arbiter.write(&write).await;
        if let (Verdict::Fenced { accepted }, Some((guard, _))) = (&verdict, held) {
            self.mutex.stats().count_fenced();
            self.catch_up(guard, *accepted).await;
        }
        verdict
    }

    /// The ledger has accepted a later fence than ours: either we are late, or the lock lost its
    /// counter and its clock is behind. Raising the counter is right in both cases.
    async fn catch_up(&self, guard: &Guard, accepted: u64) {
        let raised = self.mutex.raise_fence(guard.name(), Accepted(accepted)).await;
        if let Err(error) = raised {
            tracing::warn!(%error, "the fence counter was not raised");
        }
    }
}
