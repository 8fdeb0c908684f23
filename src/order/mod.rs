//! Orders after they are placed: payment, cancellation, expiry, and finding them.
//!
//! Each step is one transaction that locks the order first, asks the table of transitions in
//! `domain::order`, and moves stock at most once: the movement's key is the order and the reason.
//! The order of statements is the arbiter's (order, limit, movement, stock last), so the two never
//! wait for each other in a circle. Every step is idempotent, so after a
//! lost answer to a COMMIT the step is tried again.

mod expiry;
mod find;
mod payment;
mod routed;
mod transaction;

use std::time::Duration;

use ledger::Database;
use tokio::sync::OwnedSemaphorePermit;

use crate::live::Hub;
use expiry::Expired;
use gates::redis_store::{Counters, Queue};
use ledger::route::breaker::Breaker;
use ledger::rows::link::{LONG_READ_MAX, TRANSACTION_MAX, answered, is_silence};
use ledger::rows::{self, Fault, within};
use ledger::waiting_list::{LineChange, WaitingLine};
use ledger::write::ItemConcurrency;
use shop_domain::order::Step;
use shop_domain::{Home, ItemId, LedgerError, Order, OrderId, Routed, UserId};
use shop_metrics::Metrics;
use transaction::Stepped;

pub use find::FindError;
pub use payment::Confirmed;
pub use routed::{Listed, OrderRoute, Orders};

/// Tries of a step.
const ATTEMPTS_MAX: u32 = 4;
/// The longest pause before the second try; it doubles, and is jittered.
const PAUSE_FIRST: Duration = Duration::from_millis(4);

/// The reason why a step was not made.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// There is no such order, or it belongs to another user.
    #[error("no such order")]
    NotFound,
    /// The order's state does not allow it.
    #[error("the order is {}", .0.status.as_str())]
    Conflict(Box<Order>),
    /// A late payment found no stock left.
    #[error("the hold ran out and the stock is sold")]
    SoldOut,
    /// A late payment found that the buyer has reached the limit with other orders.
    #[error("the hold ran out and the limit is reached")]
    LimitReached,
    /// The ledger did not answer; the step may be tried again.
    #[error("the ledger does not answer: {0}")]
    Unavailable(ledger::Error),
    /// The ledger is known not to answer, so it was not asked; nothing changed.
    #[error("the ledger is away")]
    Away,
    /// Too many transactions of the order's item are running; nothing changed.
    #[error("too many transactions of the item are running")]
    Contended,
    /// The ledger takes no writes; nothing changed.
    #[error("the ledger is read-only")]
    ReadOnly,
    /// The order's item is being moved to another ledger; nothing changed.
    #[error("the item is moving")]
    Moving,
}

impl StepError {
    /// The reason behind an error of the database.
    fn of(error: ledger::Error) -> Self {
        match Fault::of(&error) {
            Fault::Moved => Self::Moving,
            _ => Self::Unavailable(error),
        }
    }
}

/// Steps of the orders of one ledger. Clones share everything.
#[derive(Clone)]
pub struct LedgerOrders {
    pool: Database,
    breaker: Breaker,
    counters: Counters,
    queue: Queue,
    hub: Hub,
    metrics: Metrics,
    line: WaitingLine,
    concurrency: ItemConcurrency,
}

/// The result of one batch of the sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Swept {
    /// Orders that expired.
    pub expired: usize,
    /// Orders that cannot expire.
    pub stuck: usize,
}

impl LedgerOrders {
    /// Makes the steps for the ledger behind `pool` and its `breaker`; changes go to `counters` and
    /// `hub` too, and returned units to the buyers in `line`. `concurrency` is the limit of each item.
    #[must_use]
    pub fn new(
        pool: Database,
        breaker: Breaker,
        counters: Counters,
        queue: Queue,
        hub: Hub,
        (metrics, line, concurrency): (Metrics, WaitingLine, ItemConcurrency),
    ) -> Self {
        Self { pool, breaker, counters, queue, hub, metrics, line, concurrency }
    }

    /// Expires at most `limit` unpaid orders of `item` whose hold has run out, oldest first, and
    /// gives their units back. May run in every instance at once: rows that another one works on
    /// are skipped. An order that cannot expire is logged and left as it is.
    ///
    /// # Errors
    /// The database's; orders that expired before stay expired.
    pub async fn expire(&self, routed: Routed, limit: u32) -> ledger::Result<Swept> {
        let item = routed.item;
        let batch = expiry::expire(&self.pool, routed, (None, limit), &self.line);
        match within(LONG_READ_MAX, batch).await {
            Ok(expired) => {
                self.publish_expired(item, &expired).await;
                Ok(Swept { expired: expired.orders.len(), stuck: 0 })
            }
            Err(error) if is_of_one_order(&error) => self.expire_singly(routed, limit).await,
            Err(error) => Err(error),
        }
    }

    /// Expires each order in a transaction of its own, after a batch failed: the orders beside the
    /// one that cannot expire do not wait for it.
    async fn expire_singly(&self, routed: Routed, limit: u32) -> ledger::Result<Swept> {
        let item = routed.item;
        let mut swept = Swept { expired: 0, stuck: 0 };
        let overdue = expiry::overdue_orders(&self.pool, item, limit);
        let overdue = within(LONG_READ_MAX, overdue).await?;
        for order in overdue {
            let single = expiry::expire(&self.pool, routed, (Some(order), 1), &self.line);
            match within(TRANSACTION_MAX, single).await {
                Ok(expired) => {
                    self.publish_expired(item, &expired).await;
                    swept.expired += expired.orders.len();
                }
                Err(error) if is_of_one_order(&error) => {
                    tracing::warn!(%error, %item, %order, "order cannot expire");
                    swept.stuck += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(swept)
    }

    async fn publish_expired(&self, item: ItemId, batch: &Expired) {
        let expired = &batch.orders;
        if !expired.is_empty() {
            let returned = expired.iter().map(|order| (order.user_id, order.quantity.signed()));
            let returned: Vec<_> = returned.collect();
            self.publish_line(item, &batch.line, &returned).await;
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
        within(LONG_READ_MAX, expiry::overdue_items(&self.pool)).await
    }

    /// Makes one step of an owner's order, whose item is at the end of the route `home`.
    async fn step(
        &self,
        (id, owner): (OrderId, UserId),
        step: Step,
        home: Home,
    ) -> Result<Order, StepError> {
        let _permit = self.permit(id, step, home).await.map_err(|error| match error {
            LedgerError::Contended => StepError::Contended,
            _ => StepError::Away,
        })?;
        let mut attempt = 0;
        let mut lost = None;
        loop {
            attempt += 1;
            let work =
                transaction::step(&self.pool, (id, owner), (step, home), &self.line, &mut lost);
            // Boxed: it would make the future of each caller larger.
            let stepped = self.asked(Box::pin(work), attempt).await;
            let error = match stepped {
                Ok(stepped) => {
                    let stepped = or_before(stepped, lost);
                    self.publish(&stepped).await;
                    return Ok(stepped.order);
                }
                Err(StepError::Unavailable(error)) => error,
                // A queued order exists, but no step is possible yet.
                Err(StepError::NotFound) => {
                    return Err(match self.queue.find(id, owner).await {
                        Ok(Some(queued)) => StepError::Conflict(Box::new(queued)),
                        _ => StepError::NotFound,
                    });
                }
                Err(refused) => return Err(refused),
            };
            let passing = matches!(
                Fault::of(&error),
                Fault::Transient | Fault::Connection | Fault::Duplicate
            );
            let gone = rows::nothing_was_sent(&error);
            if !passing || gone || attempt >= ATTEMPTS_MAX {
                tracing::warn!(%error, order = %id, "order step failed");
                return Err(StepError::Unavailable(error));
            }
            let bound = PAUSE_FIRST * 2_u32.pow(attempt);
            tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
        }
    }

    /// Waits for a permit of the order's item, unless the step touches no row that the item's orders share.
    /// The order is looked at before its row is locked: what waits for its item holds no connection.
    ///
    /// # Errors
    /// When the ledger does not answer, or the item's permits are taken for too long; nothing changed.
    async fn permit(
        &self,
        id: OrderId,
        step: Step,
        home: Home,
    ) -> Result<Option<OwnedSemaphorePermit>, LedgerError> {
        let mut attempt = 0;
        let found = loop {
            attempt += 1;
            let look = answered(transaction::item_and_status(&self.pool, id));
            // Like the step that follows, it is never the breaker's probe.
            let error = match rows::change(&self.breaker, look).await {
                Ok(found) => break found,
                Err(error) => error,
            };
            // A connection that died unused.
            let passes = Fault::of(&error) == Fault::Connection
                && !rows::nothing_was_sent(&error)
                && !is_silence(&error);
            if !passes || attempt == ATTEMPTS_MAX {
                tracing::warn!(%error, order = %id, "order not looked at before a step");
                return Err(LedgerError::Unavailable);
            }
        };
        let Some((item, status)) = found else { return Ok(None) };
        // With several ledgers every step compares the epoch in the stock row.
        if home.is_only && !status.step(step).moves_stock() {
            return Ok(None);
        }
        let permit = self.concurrency.acquire_for_step(item).await;
        permit.map(Some).ok_or(LedgerError::Contended)
    }

    /// Tells the counters in Redis and the event streams of a step.
    async fn publish(&self, stepped: &Stepped) {
        if stepped.units_returned != 0 {
            let returned = [(stepped.order.user_id, stepped.units_returned)];
            self.publish_line(stepped.order.item_id, &stepped.line, &returned).await;
        }
        if stepped.changed {
            self.hub.order_changed(&stepped.order);
        }
    }

    /// Tells the counters of returned units, and the buyers who wait of their offers.
    async fn publish_line(&self, item: ItemId, change: &LineChange, returned: &[(UserId, i64)]) {
        let version = change.stock_version.unwrap_or_default();
        self.counters.apply_order_delta(item, (version, change.to_stock), returned).await;
        self.line.count(change);
        change.changed.iter().for_each(|(buyer, _)| self.hub.waiting_changed(item, *buyer));
    }

    /// Makes one try of a step, unless the breaker of the ledger is open, and reports the result to
    /// the breaker.
    async fn asked(
        &self,
        step: impl Future<Output = Result<Stepped, StepError>>,
        attempt: u32,
    ) -> Result<Stepped, StepError> {
        // The breaker counts failures of the ledger; a refused step is an answer of the ledger.
        let work = async {
            match step.await {
                Err(StepError::Unavailable(error)) => Err(error),
                answer => Ok(answer),
            }
        };
        match rows::change(&self.breaker, work).await {
            Ok(answer) => answer,
            // An earlier try may have come through.
            Err(error) if attempt == 1 && rows::nothing_was_sent(&error) => Err(StepError::Away),
            Err(error) if attempt == 1 && Fault::of(&error) == Fault::ReadOnly => {
                Err(StepError::ReadOnly)
            }
            Err(error) => Err(StepError::Unavailable(error)),
        }
    }
}

/// Whether an error belongs to one row that the database refuses: the other orders can still
/// expire.
fn is_of_one_order(error: &ledger::Error) -> bool {
    matches!(Fault::of(error), Fault::CheckViolated | Fault::Duplicate | Fault::Other)
}

/// The change by a step: that of its last try, or of an earlier try whose COMMIT was not answered.
fn or_before(stepped: Stepped, lost: Option<Stepped>) -> Stepped {
    match lost {
        Some(lost) if !stepped.changed && lost.order.status == stepped.order.status => lost,
        _ => stepped,
    }
}
