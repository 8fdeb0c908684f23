//! The way from an order to the ledger that it is in.
//!
//! An order's id has a hint of its ledger, and the ledger of its item decides. While an item moves, both
//! ledgers have rows of its orders: a row counts only beside a stock row of the epoch that the item's home
//! has, so nobody sees an older state after a newer one. With one ledger nothing is looked for.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use futures::future::join_all;
use tokio::time::timeout;

use super::find::LedgerPage;
use super::{FindError, LedgerOrders, OrderRoute, PaymentResult, StepError};
use ledger::route::shards::PART_OF_LIST_MAX;
use ledger::route::{ROUTE_ATTEMPTS_MAX, RoutedError, Shards};
use ledger::rows::{RowAt, payments};
use shop_domain::order::Step;
use shop_domain::payment::{PaymentId, ReceivedPayment};
use shop_domain::{Home, ItemId, LedgerError, Order, OrderId, OrderStatus, ShardId, UserId};

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

/// The orders of a buyer that a ledger has.
#[derive(Default)]
struct SortedPage {
    /// Those of items that live there.
    current: BTreeMap<OrderId, Order>,
    /// Those that are left behind, or copied early: they are looked for where their items live.
    doubtful: BTreeSet<OrderId>,
    /// Queued ones.
    queued: Vec<Order>,
    /// Whether queued ones are missing.
    is_incomplete: bool,
}

/// A page of a buyer's orders.
#[derive(Clone, Debug)]
pub struct OrderPage {
    /// Newest first.
    pub orders: Vec<Order>,
    /// Whether a ledger or a server with queued orders did not answer, so that its orders are missing.
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

    /// Makes one step of an owner's order: payment, cancellation, extension or return.
    ///
    /// # Errors
    /// See [`StepError`]; nothing changed then.
    pub async fn step(&self, id: OrderId, owner: UserId, step: Step) -> Result<Order, StepError> {
        if let Some(only) = self.ledgers.if_only() {
            return only.step((id, owner), step, Home::ONLY).await;
        }
        match self.step_by((id, owner), step, Routes::Known).await {
            // The item has moved since.
            Err(error) if error.may_have_moved() => {
                self.step_by((id, owner), step, Routes::Fresh).await
            }
            stepped => stepped,
        }
    }

    /// Finds an owner's order, in a ledger or in a queue.
    pub async fn find(&self, id: OrderId, owner: UserId) -> Result<Option<Order>, FindError> {
        if let Some(only) = self.ledgers.if_only() {
            return only.find(id, owner).await;
        }
        if let Some((_, order)) = self.locate(id, Some(owner), Routes::Known).await? {
            return Ok(Some(order));
        }
        // Not written yet, perhaps.
        for (_, ledger) in self.ledgers.hinted_first(id) {
            if let Some(queued) = ledger.find_queued(id, owner).await? {
                return Ok(Some(queued));
            }
        }
        // It may have come from a queue to a ledger, or from one ledger to another, in between.
        Ok(self.locate(id, Some(owner), Routes::Known).await?.map(|(_, order)| order))
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
    ) -> Result<OrderPage, LedgerError> {
        if let Some(only) = self.ledgers.if_only() {
            return only.list(owner, before, limit).await;
        }
        let parts = self.ledgers.iter().map(async |(shard, ledger)| {
            let part = timeout(PART_OF_LIST_MAX, ledger.list_part(owner, before, limit)).await;
            self.sort(shard, part.map_err(|_| LedgerError::Unavailable)??).await
        });
        let (mut all, mut failed) = (SortedPage::default(), Vec::new());
        for part in join_all(parts).await {
            match part {
                Ok(sorted) => all.add(sorted),
                Err(error) => failed.push(error),
            }
        }
        if let Some(error) = failed.first()
            && failed.len() == self.ledgers.iter().count()
        {
            return Err(*error);
        }
        let SortedPage { mut current, mut doubtful, queued, mut is_incomplete } = all;
        doubtful.retain(|id| !current.contains_key(id));
        let again = doubtful.iter().rev().take(limit as usize);
        let again = again.map(|id| self.locate(*id, Some(owner), Routes::Known));
        is_incomplete |= !failed.is_empty();
        for located in join_all(again).await {
            match located {
                Ok(Some((_, order))) => {
                    current.insert(order.id, order);
                }
                Ok(None) => {}
                Err(_) => is_incomplete = true,
            }
        }
        for order in queued.into_iter().filter(|order| !doubtful.contains(&order.id)) {
            current.entry(order.id).or_insert(order);
        }
        let orders = current.into_values().rev().take(limit as usize).collect();
        Ok(OrderPage { orders, is_incomplete })
    }

    /// Takes money that came for an order. A repetition is [`PaymentResult::Known`]. Money for an order
    /// that does not exist is written in the home ledger.
    ///
    /// # Errors
    /// When a ledger does not answer; then the provider has to say it again.
    pub async fn confirm(&self, received: &ReceivedPayment) -> Result<PaymentResult, LedgerError> {
        let about = (received.order, &received.id);
        self.write(about, |ledger, route| ledger.confirm(received, route)).await
    }

    /// Writes something of a payment in the ledger in which its order is: once more when the order has moved since
    /// the way to it was found.
    ///
    /// # Errors
    /// Those of `write`; when a ledger that may have the order does not answer.
    pub async fn write<'a, R, F: Future<Output = Result<R, LedgerError>>>(
        &'a self,
        (order, payment): (OrderId, &PaymentId),
        write: impl Fn(&'a LedgerOrders, OrderRoute) -> F,
    ) -> Result<R, LedgerError> {
        let route = self.route_by(order, Routes::Known).await?;
        let route = self.or_of_payment(route, payment).await?;
        match write(self.ledgers.at(route.home.shard), route).await {
            Err(error) if error.may_have_moved() => {
                let route = self.route_by(order, Routes::Fresh).await?;
                write(self.ledgers.at(route.home.shard), route).await
            }
            written => written,
        }
    }

    /// The way to a payment whose order no ledger has: payments of archived orders stay where they came.
    async fn or_of_payment(
        &self,
        route: OrderRoute,
        payment: &PaymentId,
    ) -> Result<OrderRoute, LedgerError> {
        if route.home.is_only || route.item.is_some() {
            return Ok(route);
        }
        for (shard, orders) in self.ledgers.iter() {
            let ledger = orders.ledger();
            if ledger.read(payments::find_placed(&ledger.pool, payment)).await?.is_some() {
                return Ok(OrderRoute { home: Home { shard, ..route.home }, item: None });
            }
        }
        Ok(route)
    }

    /// The way to an order, by what the home ledger says now.
    ///
    /// # Errors
    /// When a ledger that may have the order does not answer.
    pub async fn fresh_route_of(&self, order: OrderId) -> Result<OrderRoute, LedgerError> {
        self.route_by(order, Routes::Fresh).await
    }

    async fn route_by(&self, order: OrderId, routes: Routes) -> Result<OrderRoute, LedgerError> {
        if self.ledgers.if_only().is_some() {
            return Ok(OrderRoute { home: Home::ONLY, item: None });
        }
        let mut located = self.locate(order, None, routes).await?;
        if located.is_none() {
            // It may have moved while the ledgers were asked one after the other.
            located = self.locate(order, None, routes).await?;
        }
        Ok(match located {
            Some((home, order)) => OrderRoute { home, item: Some(order.item_id) },
            None => {
                let home = Home { shard: ShardId::HOME, epoch: 1, is_only: false };
                OrderRoute { home, item: None }
            }
        })
    }

    async fn step_by(
        &self,
        (id, owner): (OrderId, UserId),
        step: Step,
        routes: Routes,
    ) -> Result<Order, StepError> {
        if let Some((home, _)) = self.locate(id, Some(owner), routes).await? {
            return self.ledgers.at(home.shard).step((id, owner), step, home).await;
        }
        match self.find(id, owner).await {
            // That is another answer than "not found".
            Ok(Some(order)) if order.status == OrderStatus::Queued => {
                Err(StepError::Conflict(Box::new(order)))
            }
            Ok(Some(_)) => Err(StepError::Moving),
            Ok(None) => Err(StepError::NotFound),
            Err(_) => Err(StepError::Away),
        }
    }

    /// Finds a written order where its item lives, with the route to it.
    async fn locate(
        &self,
        id: OrderId,
        owner: Option<UserId>,
        routes: Routes,
    ) -> Result<Option<(Home, Order)>, LedgerError> {
        let homes = self.ledgers.homes();
        for _ in 0..ROUTE_ATTEMPTS_MAX {
            let Some((shard, found)) = self.probe(id, owner).await? else { return Ok(None) };
            let item = found.row.item_id;
            if routes == Routes::Fresh {
                homes.find_again(item).await?;
            }
            if homes.holds(shard, &found).await? {
                return Ok(Some((homes.find(item).await?, found.row)));
            }
            // A move has left it behind, or has copied it and not flipped.
            let home = homes.find(item).await?;
            let there = self.ledgers.at(home.shard).find_placed(id, owner).await?;
            if let Some(there) = there
                && homes.holds(home.shard, &there).await?
            {
                return Ok(Some((homes.find(item).await?, there.row)));
            }
        }
        Err(LedgerError::Moving)
    }

    /// Finds a row of a written order in any ledger: first in the one that its id names.
    async fn probe(
        &self,
        id: OrderId,
        owner: Option<UserId>,
    ) -> Result<Option<(ShardId, RowAt<Order>)>, LedgerError> {
        let mut ledgers = self.ledgers.hinted_first(id);
        let Some((shard, first)) = ledgers.next() else { return Ok(None) };
        let hinted = first.find_placed(id, owner).await;
        if let Ok(Some(found)) = hinted {
            return Ok(Some((shard, found)));
        }
        // The hint may be wrong: ask all at once.
        let asked = ledgers.map(async |(shard, ledger)| {
            let found = ledger.find_placed(id, owner).await?;
            Ok::<_, LedgerError>(found.map(|found| (shard, found)))
        });
        let mut away = None;
        for answer in join_all(asked).await {
            match answer {
                Ok(None) => {}
                Ok(found) => return Ok(found),
                Err(error) => away = Some(error),
            }
        }
        // Whether it does not exist can be said only when every ledger has said so.
        hinted?;
        away.map_or(Ok(None), Err)
    }

    /// Sorts the part of a list that one ledger has.
    async fn sort(&self, shard: ShardId, part: LedgerPage) -> Result<SortedPage, LedgerError> {
        let LedgerPage { queued, is_incomplete, .. } = part;
        let mut sorted = SortedPage { queued, is_incomplete, ..SortedPage::default() };
        // All rows are of one moment, so those of an item count together.
        let mut held: HashMap<ItemId, bool> = HashMap::new();
        for placed in part.written {
            let item = placed.row.item_id;
            let is_current = match held.get(&item) {
                Some(is_current) => *is_current,
                None => self.ledgers.homes().holds(shard, &placed).await?,
            };
            held.insert(item, is_current);
            if is_current {
                sorted.current.insert(placed.row.id, placed.row);
            } else {
                sorted.doubtful.insert(placed.row.id);
            }
        }
        Ok(sorted)
    }
}

impl SortedPage {
    fn add(&mut self, other: Self) {
        self.current.extend(other.current);
        self.doubtful.extend(other.doubtful);
        self.queued.extend(other.queued);
        self.is_incomplete |= other.is_incomplete;
    }
}
