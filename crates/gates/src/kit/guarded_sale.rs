//! The textbook's read, check and write under a lock, whatever the lock.
//!
//! [`GuardedSale`] takes the locks of the scope in a fixed order (the buyer's without waiting, then
//! the shared one), reads, checks, writes, and releases. A lock strategy is a `GuardedSale` with
//! its kind of lock.

use std::sync::Arc;

use async_trait::async_trait;

use super::combined_sale::CombinedSale;
use super::options::{Options, Scope, Store, WaitFor};
use super::sale_locks::{self, FenceCounters, Held, SaleLocks};
use super::{steps, textbook};
use crate::{Decision, Strategy, StrategyContext, WaitingBuyer};
use leaselock::LeasedMutex;
use ledger::write::{Conflict, OrderWrite, StockWrite, UnguardedWrite};
use shop_domain::outcome::Dependency;
use shop_domain::{ArbiterMode, Outcome, Purchase, Unavailable};

/// A lock strategy: one kind of lock around the same work.
pub struct GuardedSale {
    /// The parts of the service that strategies use.
    pub context: StrategyContext,
    pub locks: SaleLocks,
    /// The scope when the request names none.
    pub scope: Scope,
    /// Does the work of the requests that wait for an item's lock in batches; `None`: each alone.
    pub combined: Option<CombinedSale>,
}

#[async_trait]
impl Strategy for GuardedSale {
    async fn purchase(
        &self,
        purchase: Purchase,
        options: Options,
        buyer: &WaitingBuyer,
    ) -> Decision {
        let scope = options.scope.unwrap_or(self.scope);
        if let Some(combined) = self.combined_for(&purchase, options, scope) {
            return self.sell_combined(combined, purchase, scope, buyer).await;
        }
        loop {
            if let Some(outcome) = self.sell_alone(&purchase, options, scope, buyer).await? {
                return Ok(outcome);
            }
            // The counter has nothing left; the ledger decides whether that is the end.
            steps::sold_out(&self.context, &purchase, buyer.deadline).await?;
        }
    }

    fn locks(&self) -> Vec<LeasedMutex> {
        vec![self.locks.mutex.clone(), self.locks.buyers.clone()]
    }
}

impl GuardedSale {
    /// The work under one lock per item, unless the request says otherwise.
    pub fn per_item(
        context: &StrategyContext,
        mutex: LeasedMutex,
        fences: Option<FenceCounters>,
        dependency: Dependency,
    ) -> Arc<dyn Strategy> {
        let buyers = mutex.clone();
        let locks = SaleLocks { mutex, buyers, fences, dependency, lease: context.lease };
        Arc::new(Self { context: context.clone(), locks, scope: Scope::Item, combined: None })
    }

    /// The combined sale, if the request's options allow that another request does its work.
    fn combined_for(
        &self,
        purchase: &Purchase,
        options: Options,
        scope: Scope,
    ) -> Option<&CombinedSale> {
        let is_alike = options.store == Store::Mysql
            && options.wait == WaitFor::Notify
            && matches!(scope, Scope::Item | Scope::ItemUser)
            && purchase.item.arbiter == ArbiterMode::On;
        self.combined.as_ref().filter(|_| is_alike)
    }

    /// Joins the batch that is sold under the next hold of the item's lock.
    async fn sell_combined(
        &self,
        combined: &CombinedSale,
        purchase: Purchase,
        scope: Scope,
        buyer: &WaitingBuyer,
    ) -> Decision {
        let own = self.locks.try_buyer(&purchase, scope).await?;
        let name = sale_locks::item_lock(&purchase);
        let outcome = match combined.write(purchase, name, buyer.deadline).await {
            Ok(outcome) => outcome,
            Err(error) => self.locks.not_submitted(error),
        };
        buyer.set_outcome(&outcome);
        sale_locks::release(own).await;
        Ok(outcome)
    }

    /// Takes the locks of the scope in their fixed order, works, and releases them. `None` means
    /// that the Redis counter has nothing left.
    async fn sell_alone(
        &self,
        purchase: &Purchase,
        options: Options,
        scope: Scope,
        buyer: &WaitingBuyer,
    ) -> Result<Option<Outcome>, Outcome> {
        let own = self.locks.try_buyer(purchase, scope).await?;
        let wait = options.wait.until(buyer.deadline);
        let held = self.locks.acquire_shared(purchase, scope, wait).await;
        let outcome = match &held {
            Ok(held) => self.work(purchase, options.store, held.as_ref(), buyer).await,
            Err(outcome) => Err(outcome.clone()),
        };
        if let Ok(Some(known)) | Err(known) = &outcome {
            buyer.set_outcome(known);
        }
        // Both are free before the buyer is answered, so that the next click finds them so, unless
        // their server does not answer.
        let shared = held.ok().flatten().map(|held| held.guard);
        tokio::join!(sale_locks::release(shared), sale_locks::release(own));
        outcome
    }

    /// The textbook's read, check and write, under the lock.
    async fn work(
        &self,
        purchase: &Purchase,
        store: Store,
        held: Option<&Held>,
        buyer: &WaitingBuyer,
    ) -> Result<Option<Outcome>, Outcome> {
        let context = &self.context;
        if store == Store::Mysql {
            let set = textbook::read_and_compute(context, purchase, buyer.deadline).await?;
            return Ok(Some(self.write(purchase, set, held, buyer).await));
        }
        let taken = textbook::on_counter(context, purchase, buyer.deadline).await?;
        let Some(epoch) = taken else { return Ok(None) };
        let outcome = self.write(purchase, UnguardedWrite::Record, held, buyer).await;
        let units = purchase.quantity.signed();
        let give_back = context.counters.give_back(purchase.item.id, epoch, units);
        steps::give_back_if_refused(&outcome, buyer, give_back).await;
        Ok(Some(outcome))
    }

    async fn write(
        &self,
        purchase: &Purchase,
        unguarded: UnguardedWrite<'_>,
        held: Option<&Held>,
        buyer: &WaitingBuyer,
    ) -> Outcome {
        if held.is_some_and(|held| held.guard.is_lost()) {
            return Outcome::Unavailable(Unavailable::Contended);
        }
        let fence = held.and_then(Held::fence);
        let stock = StockWrite::of(&purchase.item, StockWrite::Guarded, unguarded);
        let write = OrderWrite { purchase, fence, stock, deadline: Some(buyer.deadline) };
        let answer = self.context.arbiter.write(&write).await;
        if let (Err(conflict @ Conflict::Fenced { accepted }), Some(held)) = (&answer, held) {
            buyer.set_outcome(&Outcome::from(*conflict));
            sale_locks::catch_up(&self.locks.mutex, held.guard.name(), *accepted).await;
        }
        answer.unwrap_or_else(Outcome::from)
    }
}
