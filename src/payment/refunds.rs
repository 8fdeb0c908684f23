//! Money that goes back: telling the provider, hearing of it, and what operators see and note of it.
//!
//! The transactions are in `ledger::order::refund`.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{MessageResult, Payment, Payments};
use ledger::Ledger;
use ledger::order::refund::{self, ByHand, RefundResult};
use ledger::route::Unreachable;
use ledger::rows::actions::Actor;
use ledger::rows::{Fault, RowAt, payments};
use shop_domain::payment::{PaymentId, PaymentStatus, ReceivedPayment};
use shop_domain::{ItemRoute, LedgerError, ShardId};
use shop_metrics::Metrics;

/// Refunds that one run tells the provider.
const REFUNDS_MAX: u32 = 50;
/// The pause after the first failed try to tell a refund; it doubles.
const PAUSE_FIRST: Duration = Duration::from_secs(2);
/// The longest pause; the provider is told until it answers.
const PAUSE_MAX: Duration = Duration::from_secs(600);
/// How long the ids of the provider's messages are kept.
const MESSAGES_KEPT_DAYS: u32 = 30;
/// Ids that one run forgets.
const FORGOTTEN_MAX: u32 = 1_000;

/// What became of the refunds that were due.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefundRun {
    /// Refunds that the provider has accepted.
    pub accepted: u32,
    /// Tries that failed.
    pub failed: u32,
    /// Refunds whose item is being moved: they are told after the move.
    pub later: u32,
}

/// The way to the item of a payment.
enum Route {
    To(ItemRoute),
    /// The payment is of no item, or there is one ledger.
    NotNeeded,
    /// The payment may not be changed here: the item is being moved, or has moved.
    Elsewhere,
}

impl Payments {
    /// Tells the provider of refunds of one ledger that are due, and forgets old messages. May run in
    /// every instance at once: the provider knows a repetition by its id.
    pub async fn request_refunds(
        &self,
        shard: ShardId,
        metrics: &Metrics,
    ) -> ledger::Result<RefundRun> {
        let Ledger { pool, .. } = self.parts.ledgers.at(shard);
        let (provider, clock) = (&self.parts.provider, &self.parts.clock);
        metrics.refunds_open.set(payments::count_open_refunds(pool).await?);
        payments::forget_messages(pool, MESSAGES_KEPT_DAYS, FORGOTTEN_MAX).await?;
        let mut asked = RefundRun::default();
        if !provider.takes_refunds() {
            return Ok(asked);
        }
        for due in payments::due_refunds(pool, REFUNDS_MAX).await? {
            let route = match self.route_to(shard, &due).await {
                Ok(route) => route,
                Err(Unreachable) => return Err(ledger::Error::PoolTimedOut),
            };
            let routed = match route {
                Route::To(routed) => Some(routed),
                Route::NotNeeded => None,
                Route::Elsewhere => {
                    asked.later += 1;
                    continue;
                }
            };
            let payment = due.row;
            let told = provider.refund(&payment, clock.now()).await;
            let answer = match &told {
                Ok(()) => Ok(()),
                Err(error) => Err((error.as_str(), pause_after(payment.failures))),
            };
            let note = refund::note_request(pool, &payment.id, answer, routed);
            match (note.await, &told) {
                // It is noted where the payment lives by then, after the provider was told once more.
                (Err(error), _) if Fault::of(&error) == Fault::Moved => asked.later += 1,
                (Err(error), _) => return Err(error),
                (Ok(()), Ok(())) => asked.accepted += 1,
                (Ok(()), Err(error)) => {
                    tracing::warn!(payment = %payment.id, error, "provider not told of a refund; it is tried again");
                    asked.failed += 1;
                }
            }
        }
        Ok(asked)
    }

    /// Finds the route to the item of a payment that was read in `shard`.
    async fn route_to(&self, shard: ShardId, due: &RowAt<Payment>) -> Result<Route, Unreachable> {
        let homes = self.parts.ledgers.homes();
        let (false, Some(item)) = (homes.is_only(), due.item) else { return Ok(Route::NotNeeded) };
        if !homes.holds(shard, due).await? {
            return Ok(Route::Elsewhere);
        }
        let home = homes.find(item).await?;
        // Closed for a move, it has a later epoch.
        let is_open = home.shard == shard && due.home_epoch == Some(home.epoch);
        Ok(if is_open { Route::To(ItemRoute { item, home }) } else { Route::Elsewhere })
    }

    /// Notes that money went back, as the provider says.
    pub(super) async fn take_refund(
        &self,
        received: &ReceivedPayment,
    ) -> Result<MessageResult, LedgerError> {
        let noted = self.parts.orders.write((received.order, &received.id), |orders, route| {
            refund::note_message(orders.ledger(), received, route)
        });
        Ok(match noted.await? {
            RefundResult::Refunded => MessageResult::Refunded,
            RefundResult::PartlyRefunded => MessageResult::PartlyRefunded,
            RefundResult::Unchanged => MessageResult::Unchanged,
        })
    }

    /// Lists payments, of one status or of all, behind the id `after`.
    ///
    /// # Errors
    /// When a ledger does not answer, or an item is just being moved.
    pub async fn list(
        &self,
        status: Option<PaymentStatus>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Payment>, LedgerError> {
        let homes = self.parts.ledgers.homes();
        let (mut all, mut doubtful) = (BTreeMap::new(), Vec::new());
        for (shard, ledger) in self.parts.ledgers.iter() {
            let listed = ledger.read(payments::list(&ledger.pool, status, after, limit));
            for placed in listed.await? {
                if homes.holds(shard, &placed).await? {
                    all.insert(placed.row.id.as_str().to_owned(), placed.row);
                } else {
                    doubtful.push(placed.row);
                }
            }
        }
        // A move has left them behind, or has copied them and not flipped.
        for row in doubtful {
            if all.contains_key(row.id.as_str()) {
                continue;
            }
            let found = self.find_again(&row).await?;
            if let Some(found) = found.filter(|found| status.is_none_or(|one| one == found.status))
            {
                all.insert(found.id.as_str().to_owned(), found);
            }
        }
        Ok(all.into_values().take(limit as usize).collect())
    }

    /// Reads a payment where its order is.
    async fn find_again(&self, payment: &Payment) -> Result<Option<Payment>, LedgerError> {
        let route = self.parts.orders.fresh_route_of(payment.order).await?;
        let ledger = self.parts.ledgers.at(route.home.shard);
        let found = ledger.read(payments::find_placed(&ledger.pool, &payment.id)).await?;
        let Some(found) = found else { return Ok(None) };
        match self.parts.ledgers.homes().holds(route.home.shard, &found).await? {
            true => Ok(Some(found.row)),
            false => Err(LedgerError::Moving),
        }
    }

    /// Notes that an operator has paid back by hand all of the money that has to go back.
    pub async fn refunded_by_hand(
        &self,
        id: &PaymentId,
        actor: &Actor,
    ) -> Result<ByHand, LedgerError> {
        let mut found = None;
        for (_, ledger) in self.parts.ledgers.iter() {
            found = ledger.read(payments::find_placed(&ledger.pool, id)).await?;
            if found.is_some() {
                break;
            }
        }
        let Some(payment) = found else { return Ok(ByHand::NotFound) };
        let noted = self.parts.orders.write((payment.row.order, id), |orders, route| {
            refund::note_by_hand(orders.ledger(), id, actor, route)
        });
        noted.await
    }
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.min(16));
    PAUSE_FIRST.saturating_mul(doubled).min(PAUSE_MAX)
}
