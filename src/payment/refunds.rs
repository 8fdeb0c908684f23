//! Money that goes back: telling the provider, hearing of it, and what operators see and note of it.
//!
//! With several ledgers a payment is where its order is. Each change checks that in its transaction, since
//! rows that a move leaves behind, or has copied early, are not the payment.

use std::collections::BTreeMap;
use std::time::Duration;

use sqlx::MySqlConnection;

use super::{Payment, Payments, Taken};
use crate::order::OrderRoute;
use ledger::route::Unreachable;
use ledger::route::shards::Ledger;
use ledger::rows::actions::{self, Actor};
use ledger::rows::stock::check_home;
use ledger::rows::{self, Fault, RowAt, failed_change, failed_read, payments};
use shop_domain::payment::{PaymentId, PaymentStatus, ReceivedPayment};
use shop_domain::{Cents, LedgerError, Routed, ShardId};
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
pub struct Asked {
    /// Refunds that the provider has accepted.
    pub accepted: u32,
    /// Tries that failed.
    pub failed: u32,
    /// Refunds whose item is being moved: they are told after the move.
    pub later: u32,
}

/// What became of an operator's note that money went back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ByHand {
    /// The refund is noted.
    Noted,
    /// The money has paid an order, so it does not have to go back.
    HasPaid,
    /// There is no such payment that is not refunded.
    NotFound,
}

/// The way to the item of a payment.
enum Route {
    To(Routed),
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
    ) -> ledger::Result<Asked> {
        let Ledger { pool, .. } = self.parts.ledgers.at(shard);
        let (provider, clock) = (&self.parts.provider, &self.parts.clock);
        metrics.refunds_open.set(payments::count_open_refunds(pool).await?);
        payments::forget_messages(pool, MESSAGES_KEPT_DAYS, FORGOTTEN_MAX).await?;
        let mut asked = Asked::default();
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
            let note = async {
                let mut transaction = rows::begin(pool).await?;
                match &told {
                    Ok(()) => payments::refund_requested(&mut transaction, &payment.id).await?,
                    Err(error) => {
                        let pause = pause_after(payment.failures);
                        payments::refund_failed(&mut transaction, &payment.id, error, pause)
                            .await?;
                    }
                }
                check(&mut transaction, routed).await?;
                transaction.commit().await
            };
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
        Ok(if is_open { Route::To(Routed { item, home }) } else { Route::Elsewhere })
    }

    /// Notes that money went back, as the provider says.
    pub(super) async fn take_refund(
        &self,
        received: &ReceivedPayment,
    ) -> Result<Taken, LedgerError> {
        let route = self.parts.orders.route_of(received.order).await?;
        match self.note_refund(received, route).await {
            Err(LedgerError::Moving) => {
                let route = self.parts.orders.fresh_route_of(received.order).await?;
                self.note_refund(received, route).await
            }
            noted => noted,
        }
    }

    async fn note_refund(
        &self,
        received: &ReceivedPayment,
        route: OrderRoute,
    ) -> Result<Taken, LedgerError> {
        let Ledger { pool, breaker } = self.parts.ledgers.at(route.home.shard);
        let note = async {
            let mut transaction = rows::begin(pool).await?;
            // A refund of a part may come several times, each with a message of its own.
            if !payments::note_message(&mut transaction, &received.message).await?
                || !payments::note_refund(&mut transaction, received).await?
            {
                // Committed all the same: only so it is sure that the present writer says it.
                transaction.commit().await?;
                return Ok(Taken::Unchanged);
            }
            let taken = match payments::find_for_update(&mut transaction, &received.id).await? {
                Some(payment) => add_refund(&mut transaction, &payment, received).await?,
                // The refund is told before the payment: the payment must not pay.
                None => {
                    payments::insert_refund_alone(&mut transaction, received).await?;
                    Taken::Refunded
                }
            };
            check(&mut transaction, route.routed()).await?;
            transaction.commit().await?;
            Ok(taken)
        };
        rows::change(breaker, note).await.map_err(|error| failed_change(&error))
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
        let away = |_: Unreachable| LedgerError::Unavailable;
        let homes = self.parts.ledgers.homes();
        let (mut all, mut doubtful) = (BTreeMap::new(), Vec::new());
        for (shard, Ledger { pool, breaker }) in self.parts.ledgers.iter() {
            let listed = rows::ask(breaker, payments::list(pool, status, after, limit)).await;
            for placed in listed.map_err(|error| failed_read(&error))? {
                if homes.holds(shard, &placed).await.map_err(away)? {
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
        let Ledger { pool, breaker } = self.parts.ledgers.at(route.home.shard);
        let found = rows::ask(breaker, payments::find_placed(pool, &payment.id)).await;
        let Some(found) = found.map_err(|error| failed_read(&error))? else { return Ok(None) };
        let holds = self.parts.ledgers.homes().holds(route.home.shard, &found).await;
        match holds.map_err(|_| LedgerError::Unavailable)? {
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
        for (_, Ledger { pool, breaker }) in self.parts.ledgers.iter() {
            let placed = rows::ask(breaker, payments::find_placed(pool, id)).await;
            found = placed.map_err(|error| failed_read(&error))?;
            if found.is_some() {
                break;
            }
        }
        let Some(payment) = found else { return Ok(ByHand::NotFound) };
        let route = self.parts.orders.route_of(payment.row.order).await?;
        match self.note_by_hand(id, actor, route).await {
            Err(LedgerError::Moving) => {
                let route = self.parts.orders.fresh_route_of(payment.row.order).await?;
                self.note_by_hand(id, actor, route).await
            }
            noted => noted,
        }
    }

    async fn note_by_hand(
        &self,
        id: &PaymentId,
        actor: &Actor,
        route: OrderRoute,
    ) -> Result<ByHand, LedgerError> {
        let Ledger { pool, breaker } = self.parts.ledgers.at(route.home.shard);
        let note = async {
            let mut transaction = rows::begin(pool).await?;
            let found = payments::find_for_update(&mut transaction, id).await?;
            let noted = match found.map(|payment| (payment.status, payment)) {
                Some((PaymentStatus::RefundWanted | PaymentStatus::RefundRequested, due)) => {
                    let left = due.left_cents();
                    let rest = Cents::new(left).unwrap_or(due.amount);
                    payments::add_refund(&mut transaction, &due, rest).await?;
                    let detail =
                        serde_json::json!({ "payment": id.as_str(), "amount_cents": left });
                    let action = "payment_refunded";
                    actions::record(&mut transaction, actor, action, None, &detail).await?;
                    ByHand::Noted
                }
                Some((PaymentStatus::Accepted, _)) => ByHand::HasPaid,
                Some((PaymentStatus::Refunded, _)) | None => ByHand::NotFound,
            };
            check(&mut transaction, route.routed()).await?;
            transaction.commit().await?;
            Ok(noted)
        };
        let noted = rows::change(breaker, note).await;
        noted.map_err(|error| failed_change(&error))
    }
}

/// Adds a refund that the provider tells to a payment that is known.
async fn add_refund(
    transaction: &mut MySqlConnection,
    payment: &Payment,
    refund: &ReceivedPayment,
) -> ledger::Result<Taken> {
    if payment.status == PaymentStatus::Refunded && !payment.is_refund_alone() {
        return Ok(Taken::Unchanged);
    }
    if payment.foreign_currency != refund.foreign_currency {
        tracing::warn!(payment = %payment.id, "a refund in another currency than its payment is not counted");
        return Ok(Taken::Unchanged);
    }
    if payment.status == PaymentStatus::Accepted {
        tracing::warn!(payment = %payment.id, order = %payment.order, amount_cents = refund.amount.cents(), "money that has paid an order went back; the order stays paid");
    }
    match payments::add_refund(transaction, payment, refund.amount).await? {
        true => Ok(Taken::Refunded),
        false => Ok(Taken::PartlyRefunded),
    }
}

/// Checks that the item of a payment still lives at the end of its route, where there is one.
async fn check(transaction: &mut MySqlConnection, routed: Option<Routed>) -> ledger::Result<()> {
    match routed {
        Some(routed) => check_home(transaction, routed).await,
        None => Ok(()),
    }
}

fn pause_after(failures: u32) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.min(16));
    PAUSE_FIRST.saturating_mul(doubled).min(PAUSE_MAX)
}
