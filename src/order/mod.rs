//! Orders after they are placed: payment, cancellation, expiry, and finding them.
//!
//! The transactions are in `ledger::order`. After each transaction this module updates the counters in Redis
//! and sends the changed order to the event streams.

mod find;

use crate::live::Hub;
use gates::redis_store::{Counters, Queue};
use ledger::Ledger;
use ledger::cache::Cache;
use ledger::order::{
    ExpiryBatch, OrderSteps, Overdue, OverdueOrder, ReturnedUnits, StepResult, is_of_one_order,
};
use ledger::waiting_list::{LineChange, WaitingLine};
use ledger::work::nothing_was_sent;
use shop_domain::order::Step;
use shop_domain::payment::ReceivedPayment;
use shop_domain::{ItemId, LedgerError, Order, OrderId, OrderStatus, UserId};
use shop_metrics::Metrics;

pub use find::{OrderError, OrderPage};
pub use ledger::order::{PaymentResult, StepError};

/// Pages of overdue orders that one run tries one by one while some cannot expire: it ends within seconds. The next run
/// goes on behind them, so that no number of stuck orders stops those behind them.
const SINGLE_PAGES_MAX: usize = 10;
/// Items for which it is known where the next run goes on.
const TRIED_MAX: usize = 10_000;

/// Steps of orders. Clones share everything.
#[derive(Clone)]
pub struct Orders {
    steps: OrderSteps,
    counters: Counters,
    queue: Queue,
    hub: Hub,
    metrics: Metrics,
    /// The order of each item behind which the next run goes on.
    tried: Cache<ItemId, OverdueOrder>,
}

/// Is told of an item of which units have come back.
type ComeBack<'a> = &'a (dyn Fn(ItemId) + Sync);

/// The result of one batch of the job that expires orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExpiryRun {
    /// Orders that expired.
    pub expired: usize,
    /// Orders that cannot expire, at least.
    pub stuck: usize,
}

impl Orders {
    /// Makes the steps of the orders in `ledger`; changes go to `counters` and `hub` too, and returned
    /// units to the buyers in `line`.
    pub fn new(
        ledger: Ledger,
        counters: Counters,
        queue: Queue,
        hub: Hub,
        metrics: Metrics,
        line: WaitingLine,
    ) -> Self {
        let steps = OrderSteps { ledger, line };
        Self { steps, counters, queue, hub, metrics, tried: Cache::new(TRIED_MAX) }
    }

    /// Expires at most `limit` unpaid orders of `item` whose hold has run out, oldest first, and gives their units
    /// back; `come_back` is told of each item that has some. May run in every instance at once: rows that another one
    /// works on are skipped. An order that cannot expire, or for which a row of another item or a limit of its buyer is
    /// locked, is left for a later run.
    ///
    /// # Errors
    /// Those of the item; orders that expired before stay expired.
    pub async fn expire(
        &self,
        item: ItemId,
        limit: u32,
        come_back: ComeBack<'_>,
    ) -> Result<ExpiryRun, StepError> {
        let mut run = match self.steps.expire(item, Overdue::First(limit)).await {
            Ok(batch) => {
                self.publish_expired(&batch, come_back).await;
                ExpiryRun { expired: batch.orders.len(), stuck: batch.left_out }
            }
            // No connection was to be had: single orders would only add to the queue for one.
            Err(StepError::Unavailable(error)) if nothing_was_sent(&error) => {
                return Err(error.into());
            }
            // Single orders may still expire. If none can, the first one says why.
            Err(error) => {
                tracing::debug!(%error, %item, "a batch cannot expire; its orders are tried one by one");
                ExpiryRun { expired: 0, stuck: limit as usize }
            }
        };
        // They would fill the next batches, too.
        if run.stuck * 2 > limit as usize {
            let further = self.expire_singly(item, limit, come_back).await?;
            run = ExpiryRun { expired: run.expired + further.expired, ..further };
        }
        if run.stuck > 0 {
            tracing::warn!(%item, stuck = run.stuck, "orders cannot expire now; a later run tries again");
        }
        Ok(run)
    }

    /// Expires each order in a transaction of its own, after a batch failed or left out most of its orders: those beside
    /// and behind the orders that cannot expire do not wait for them, and a batch that is too slow for one transaction
    /// ends nevertheless. Another error ends the run, so an order without an answer costs it the time of one transaction.
    async fn expire_singly(
        &self,
        item: ItemId,
        limit: u32,
        come_back: ComeBack<'_>,
    ) -> Result<ExpiryRun, StepError> {
        let mut last = self.tried.get(item);
        // The batch has just failed at one in front of the place where the last run has ended.
        let mut run = ExpiryRun { expired: 0, stuck: usize::from(last.is_some()) };
        for _ in 0..SINGLE_PAGES_MAX {
            let page = self.steps.overdue_orders(item, last, limit).await?;
            // Behind a page that is not full there is none, and the next run begins with the oldest order.
            last = page.last().filter(|_| page.len() == limit as usize).copied();
            for order in page {
                match self.steps.expire(item, Overdue::One(order.id)).await {
                    Ok(batch) => {
                        self.publish_expired(&batch, come_back).await;
                        run.expired += batch.orders.len();
                        run.stuck += batch.left_out;
                    }
                    Err(error) if is_of_one_order(&error) => {
                        tracing::debug!(%error, %item, order = %order.id, "order cannot expire");
                        run.stuck += 1;
                    }
                    Err(error) => {
                        // It may be of this order alone, such as that no answer comes: the next run goes on behind it.
                        self.tried.insert(item, order);
                        return Err(error);
                    }
                }
            }
            if last.is_none() || run.stuck == 0 {
                break;
            }
        }
        match last {
            Some(last) if run.stuck > 0 => self.tried.insert(item, last),
            _ => self.tried.remove(item),
        }
        Ok(run)
    }

    async fn publish_expired(&self, batch: &ExpiryBatch, come_back: ComeBack<'_>) {
        let expired = &batch.orders;
        for ReturnedUnits { item, line, .. } in &batch.returned {
            let lines = expired.iter().flat_map(Order::lines).filter(|line| line.item_id == *item);
            let returned: Vec<_> =
                lines.map(|line| (line.user_id, line.quantity.signed())).collect();
            self.publish_line(*item, line, &returned).await;
            come_back(*item);
        }
        for order in expired {
            self.metrics.orders_expired.inc();
            if let Some(at) = batch.at {
                let lag = at - order.expires_at;
                self.metrics.expiry_lag.observe(lag.as_seconds_f64().max(0.0));
            }
            self.hub.order_changed(order);
        }
    }

    /// Lists the items with unpaid orders whose hold has run out.
    pub async fn overdue_items(&self) -> ledger::Result<Vec<ItemId>> {
        self.steps.overdue_items().await
    }

    /// Makes one step of an owner's order: payment, cancellation, extension or return.
    ///
    /// # Errors
    /// See [`StepError`]; nothing changed, unless the ledger did not answer.
    pub async fn step(
        &self,
        id: OrderId,
        owner: UserId,
        step: Step,
    ) -> Result<StepResult, OrderError> {
        let mut made = self.steps.step(id, owner, step).await;
        if matches!(made, Err(StepError::NotFound)) {
            hold!("step-found-nothing", owner.get());
            made = match self.find(id, owner).await? {
                // A queued order exists, but no step is possible yet.
                Some(order) if order.status == OrderStatus::Queued => {
                    Err(StepError::Conflict(Box::new(order)))
                }
                // It has moved from the queue to the ledger meanwhile.
                Some(_) => self.steps.step(id, owner, step).await,
                None => Err(StepError::NotFound),
            };
        }
        let made = made?;
        self.publish(&made).await;
        Ok(made)
    }

    /// Takes money that came for an order. A repetition is [`PaymentResult::Known`].
    ///
    /// # Errors
    /// When the ledger does not answer; then the provider has to say it again.
    pub async fn confirm(&self, received: &ReceivedPayment) -> Result<PaymentResult, LedgerError> {
        let result = self.steps.confirm(received).await?;
        if let PaymentResult::Paid(made) = &result {
            self.publish(made).await;
        }
        Ok(result)
    }

    /// Tells the counters in Redis and the event streams of a step.
    async fn publish(&self, made: &StepResult) {
        for ReturnedUnits { item, units, line } in &made.returned {
            self.publish_line(*item, line, &[(made.order.user_id, *units)]).await;
        }
        if made.changed {
            self.hub.order_changed(&made.order);
        }
    }

    /// Tells the counters of returned units, and the buyers who wait of their offers.
    async fn publish_line(&self, item: ItemId, change: &LineChange, returned: &[(UserId, i64)]) {
        let version = change.stock_version.unwrap_or_default();
        self.counters.apply_delta(item, (version, change.to_stock), returned).await;
        self.steps.line.count(change);
        change.changed.iter().for_each(|(buyer, _)| self.hub.waiting_changed(item, *buyer));
    }
}
