//! The way from an order to the ledger that it is in.
//!
//! An order's id has a hint of its ledger. The ledger of its item decides: where the two differ the item
//! has moved, with its orders. With one ledger nothing is looked for.

use std::time::Duration;

use futures::future::join_all;
use tokio::time::timeout;

use super::{FindError, LedgerOrders, StepError};
use crate::domain::order::Step;
use crate::domain::payment::ReceivedPayment;
use crate::domain::{Home, LedgerError, Order, OrderId, ShardId, UserId};
use crate::order::Confirmed;
use crate::store::{Shards, Unreachable};

/// How long one of several ledgers may take for its part of a list; then the list is incomplete.
const ONE_OF_SEVERAL_MAX: Duration = Duration::from_secs(1);

/// Steps of orders. Clones share everything.
#[derive(Clone)]
pub struct Orders {
    ledgers: Shards<LedgerOrders>,
}

/// The routes that an order is looked for by.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Routes {
    /// Those that are remembered.
    Known,
    /// Those of the home ledger, after a remembered one was out of date.
    Fresh,
}

/// A page of a buyer's orders.
#[derive(Clone, Debug)]
pub struct Listed {
    /// Newest first.
    pub orders: Vec<Order>,
    /// Whether a ledger did not answer, so that its orders are missing.
    pub is_incomplete: bool,
}

impl Orders {
    /// The steps of the orders of these ledgers.
    #[must_use]
    pub fn new(ledgers: Shards<LedgerOrders>) -> Self {
        Self { ledgers }
    }

    /// The orders of each ledger.
    pub fn ledgers(&self) -> &Shards<LedgerOrders> {
        &self.ledgers
    }

    /// Pays an order: in time, or late if the units can be taken from the stock again.
    ///
    /// # Errors
    /// See [`StepError`]; nothing changed then.
    pub async fn pay(&self, id: OrderId, owner: UserId) -> Result<Order, StepError> {
        self.step(id, owner, Step::Pay).await
    }

    /// Cancels an unpaid order and gives its units back.
    ///
    /// # Errors
    /// See [`StepError`]; nothing changed then.
    pub async fn cancel(&self, id: OrderId, owner: UserId) -> Result<Order, StepError> {
        self.step(id, owner, Step::Cancel).await
    }

    /// Finds an owner's order, in a ledger or in a queue.
    ///
    /// # Errors
    /// See [`FindError`].
    pub async fn find(&self, id: OrderId, owner: UserId) -> Result<Option<Order>, FindError> {
        if let Some(only) = self.ledgers.if_only() {
            return only.find(id, owner).await;
        }
        if let Some((_, order)) = self.locate_of(id, Some(owner), Routes::Known).await? {
            return Ok(Some(order));
        }
        // Not written yet, perhaps: the queues of every ledger, and the ledgers once more.
        for (_, ledger) in self.ledgers.hinted_first(id) {
            if let Some(order) = ledger.find(id, owner).await? {
                return Ok(Some(order));
            }
        }
        Ok(None)
    }

    /// Lists an owner's orders, newest first, with the queued ones.
    ///
    /// # Errors
    /// When no ledger answers.
    pub async fn list(
        &self,
        owner: UserId,
        before: Option<OrderId>,
        limit: u32,
    ) -> Result<Listed, LedgerError> {
        if let Some(only) = self.ledgers.if_only() {
            let orders = only.list(owner, before, limit).await?;
            return Ok(Listed { orders, is_incomplete: false });
        }
        let lists = self.ledgers.iter().map(async |(shard, ledger)| {
            let listed = timeout(ONE_OF_SEVERAL_MAX, ledger.list(owner, before, limit)).await;
            let listed = listed.map_err(|_| LedgerError::Unavailable)??;
            self.by_home(shard, listed).await.map_err(|_| LedgerError::Unavailable)
        });
        let (mut found, mut failed): (Vec<(bool, Order)>, Vec<LedgerError>) = Default::default();
        for listed in join_all(lists).await {
            match listed {
                Ok(listed) => found.extend(listed),
                Err(error) => failed.push(error),
            }
        }
        if let Some(error) = failed.first()
            && failed.len() == self.ledgers.iter().count()
        {
            return Err(*error);
        }
        // A move leaves copies behind for a while: the one where the item lives comes first and counts.
        found.sort_unstable_by_key(|(is_home, order)| (std::cmp::Reverse(order.id), !is_home));
        found.dedup_by_key(|(_, order)| order.id);
        let orders = found.into_iter().map(|(_, order)| order).take(limit as usize).collect();
        Ok(Listed { orders, is_incomplete: !failed.is_empty() })
    }

    /// Takes money that came for an order. A repetition answers [`Confirmed::Known`]. Money for an order
    /// that does not exist is written in the home ledger.
    ///
    /// # Errors
    /// When a ledger does not answer; then the provider has to say it again.
    pub async fn confirm(&self, received: &ReceivedPayment) -> Result<Confirmed, LedgerError> {
        let (shard, home) = self.place_of(received.order).await?;
        match self.ledgers.at(shard).confirm(received, home).await {
            Err(LedgerError::Moving) => {
                let (shard, home) = self.place_by(received.order, Routes::Fresh).await?;
                self.ledgers.at(shard).confirm(received, home).await
            }
            confirmed => confirmed,
        }
    }

    /// The ledger that has the order of a payment, and the route to its item; the home ledger for an
    /// order that does not exist.
    ///
    /// # Errors
    /// When a ledger that may have it does not answer.
    pub async fn place_of(&self, order: OrderId) -> Result<(ShardId, Home), LedgerError> {
        self.place_by(order, Routes::Known).await
    }

    async fn place_by(
        &self,
        order: OrderId,
        routes: Routes,
    ) -> Result<(ShardId, Home), LedgerError> {
        if self.ledgers.if_only().is_some() {
            return Ok((ShardId::HOME, Home::ONLY));
        }
        let nowhere = Home { shard: ShardId::HOME, epoch: 1, is_only: false };
        let found = self.locate_of(order, None, routes).await;
        let found = found.map_err(|_| LedgerError::Unavailable)?;
        Ok(found.map_or((ShardId::HOME, nowhere), |(home, _)| (home.shard, home)))
    }

    async fn step(&self, id: OrderId, owner: UserId, step: Step) -> Result<Order, StepError> {
        if let Some(only) = self.ledgers.if_only() {
            return only.step((id, owner), step, Home::ONLY).await;
        }
        match self.step_by((id, owner), step, Routes::Known).await {
            // The item has moved since.
            Err(StepError::Moving) => self.step_by((id, owner), step, Routes::Fresh).await,
            stepped => stepped,
        }
    }

    async fn step_by(
        &self,
        (id, owner): (OrderId, UserId),
        step: Step,
        routes: Routes,
    ) -> Result<Order, StepError> {
        let located = self.locate_of(id, Some(owner), routes).await;
        let located = located.map_err(|_| StepError::Away)?;
        match located {
            Some((home, _)) => self.ledgers.at(home.shard).step((id, owner), step, home).await,
            // It may be queued, which is another answer than "not found".
            None => match self.find(id, owner).await {
                Ok(Some(queued)) => Err(StepError::Conflict(Box::new(queued))),
                Ok(None) => Err(StepError::NotFound),
                Err(_) => Err(StepError::Away),
            },
        }
    }

    /// Finds an order where its item lives, with the route to it.
    async fn locate_of(
        &self,
        id: OrderId,
        owner: Option<UserId>,
        routes: Routes,
    ) -> Result<Option<(Home, Order)>, LedgerError> {
        let mut ledgers = self.ledgers.hinted_first(id);
        let Some((shard, first)) = ledgers.next() else { return Ok(None) };
        let hinted = first.find_of(id, owner).await;
        if let Ok(Some(order)) = hinted {
            return self.at_home(shard, order, (owner, routes)).await.map(Some);
        }
        // The hint may be wrong: ask all at once.
        let asked = ledgers.map(async |(shard, ledger)| (shard, ledger.find_of(id, owner).await));
        let mut found = None;
        let mut away = None;
        for (shard, answer) in join_all(asked).await {
            match answer {
                Ok(Some(order)) => found = Some((shard, order)),
                Ok(None) => {}
                Err(error) => away = Some(error),
            }
        }
        if let Some((shard, order)) = found {
            return self.at_home(shard, order, (owner, routes)).await.map(Some);
        }
        // Whether it does not exist can be said only when every ledger has said so.
        hinted?;
        away.map_or(Ok(None), Err)
    }

    /// An order that was found in `shard`, as the ledger of its item has it.
    async fn at_home(
        &self,
        shard: ShardId,
        order: Order,
        (owner, routes): (Option<UserId>, Routes),
    ) -> Result<(Home, Order), LedgerError> {
        let away = |_: Unreachable| LedgerError::Unavailable;
        let homes = self.ledgers.homes();
        let mut home = homes.find(order.item_id).await.map_err(away)?;
        if home.shard != shard || routes == Routes::Fresh {
            // It moves or has moved: the last word is in the home ledger.
            home = homes.find_again(order.item_id).await.map_err(away)?;
        }
        if home.shard == shard {
            return Ok((home, order));
        }
        let there = self.ledgers.at(home.shard).find_of(order.id, owner).await?;
        Ok((home, there.unwrap_or(order)))
    }

    /// A ledger's orders, each with whether its item lives there.
    async fn by_home(
        &self,
        shard: ShardId,
        orders: Vec<Order>,
    ) -> Result<Vec<(bool, Order)>, Unreachable> {
        let homes = self.ledgers.homes();
        let homes = homes.find_several(orders.iter().map(|order| order.item_id)).await?;
        let is_home =
            |order: &Order| homes.get(&order.item_id).is_some_and(|home| home.shard == shard);
        Ok(orders.into_iter().map(|order| (is_home(&order), order)).collect())
    }
}
