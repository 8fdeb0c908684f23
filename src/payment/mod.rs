//! Payments: who takes the money for an order, and how the service learns of it.
//!
//! A [`Provider`] is one of two. `demo` records "paid" when the buyer presses *Pay*. `webhook`
//! sends the buyer to a checkout page, and its signed messages report each payment. The messages
//! may come late, twice, or in any order; each payment is taken once, or has to go back.

mod message;
mod provider;

use std::sync::Arc;
use std::time::Duration;

use sqlx::MySqlPool;

use crate::domain::payment::{PaymentId, PaymentStatus, RefundReason};
use crate::domain::{Clock, LedgerError, Order, OrderId, OrderStatus, UserId};
use crate::metrics::Metrics;
use crate::order::{Confirmed, FindError, Orders, StepError};
use crate::store::mysql::actions::{self, Actor};
use crate::store::mysql::{self, failed_change, failed_read, payments};
use crate::store::shards::{Ledger, Shards};

pub use crate::store::mysql::payments::Payment;
pub use message::{Headers, Message, MessageError};
pub use provider::{Demo, Provider, Webhook};

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

/// The reason why a payment is not possible.
#[derive(Debug, thiserror::Error)]
pub enum PayError {
    /// The step of the order failed.
    #[error(transparent)]
    Step(#[from] StepError),
    /// The order could not be read.
    #[error(transparent)]
    Find(#[from] FindError),
}

/// The reason why a message of the provider is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// No provider sends messages.
    #[error("the provider sends no messages")]
    Off,
    /// The message is forged, too old, or cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// An order on its way to be paid.
#[derive(Clone, Debug)]
pub struct Payable {
    /// The order: paid, or as it was.
    pub order: Order,
    /// Where the buyer pays, if not here.
    pub checkout_url: Option<String>,
}

/// What became of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// The order is paid.
    Paid,
    /// The money has to go back.
    RefundWanted(RefundReason),
    /// The refund is done.
    Refunded,
    /// Nothing changed: it was known, or says nothing that matters here.
    Unchanged,
}

/// The parts of [`Payments`].
#[derive(Clone)]
#[expect(missing_docs, reason = "each part is documented at its type")]
pub struct Parts {
    pub ledgers: Shards<Ledger>,
    pub orders: Orders,
    pub provider: Arc<dyn Provider>,
    pub clock: Clock,
}

/// The payments. Clones share everything.
#[derive(Clone)]
pub struct Payments {
    parts: Parts,
}

impl Payments {
    /// Payments of the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// Whether *Pay* pays at once, without a page of the provider.
    #[must_use]
    pub fn are_made_here(&self) -> bool {
        self.parts.provider.pays_at_once()
    }

    /// Pays an order, or says where its buyer pays it. An order that is paid already is answered as
    /// it is.
    ///
    /// # Errors
    /// See [`PayError`]; nothing changed then.
    pub async fn pay(&self, id: OrderId, owner: UserId) -> Result<Payable, PayError> {
        let Parts { orders, provider, .. } = &self.parts;
        if provider.pays_at_once() {
            let order = orders.pay(id, owner).await?;
            return Ok(Payable { order, checkout_url: None });
        }
        let order = orders.find(id, owner).await?.ok_or(StepError::NotFound)?;
        match order.status {
            OrderStatus::Paid => Ok(Payable { order, checkout_url: None }),
            OrderStatus::Pending | OrderStatus::Expired => {
                let checkout_url = Some(provider.checkout_url(&order));
                Ok(Payable { order, checkout_url })
            }
            _ => Err(StepError::Conflict(Box::new(order)).into()),
        }
    }

    /// Takes a message of the provider. A repetition has no further effect.
    ///
    /// # Errors
    /// See [`TakeError`]. After an error of the ledger the provider has to send it again.
    pub async fn take(&self, headers: &Headers<'_>, body: &[u8]) -> Result<Taken, TakeError> {
        let Parts { orders, provider, clock, .. } = &self.parts;
        let secret = provider.secret().ok_or(TakeError::Off)?;
        match Message::read(secret, headers, body, clock.now())? {
            Message::Succeeded(received) => Ok(match orders.confirm(&received).await? {
                Confirmed::Known => Taken::Unchanged,
                Confirmed::Paid(order) => {
                    tracing::info!(payment = %received.id, order = %order.id, "order paid");
                    Taken::Paid
                }
                Confirmed::RefundWanted(reason) => Taken::RefundWanted(reason),
            }),
            Message::Refunded(received) => {
                let (shard, _) = orders.place_of(received.order).await?;
                let Ledger { pool, breaker } = self.parts.ledgers.at(shard);
                let refunded = async {
                    let mut transaction = pool.begin().await?;
                    payments::note_message(&mut transaction, &received.message).await?;
                    let known = payments::find_for_update(&mut transaction, &received.id).await?;
                    match known.map(|payment| payment.status) {
                        Some(PaymentStatus::Refunded) => return Ok(Taken::Unchanged),
                        Some(_) => {
                            payments::set_refunded(&mut transaction, &received.id).await?;
                        }
                        // The refund is told before the payment: the payment must not pay.
                        None => {
                            let payment = (&received.id, received.order, received.amount);
                            let refunded = (PaymentStatus::Refunded, None);
                            payments::insert(&mut transaction, payment, refunded).await?;
                        }
                    }
                    transaction.commit().await?;
                    Ok(Taken::Refunded)
                };
                let refunded = mysql::change(breaker, refunded).await;
                Ok(refunded.map_err(|error| failed_change(&error))?)
            }
            Message::Other => Ok(Taken::Unchanged),
        }
    }

    /// Tells the provider of refunds of one ledger that are due, and forgets old messages; answers how many
    /// refunds it has accepted and how many tries failed. May run in every instance at once: the
    /// provider knows a repetition by its id.
    ///
    /// # Errors
    /// The database's.
    pub async fn request_refunds(
        &self,
        pool: &MySqlPool,
        metrics: &Metrics,
    ) -> sqlx::Result<(u32, u32)> {
        let Parts { provider, clock, .. } = &self.parts;
        metrics.refunds_open.set(payments::count_open_refunds(pool).await?);
        payments::forget_messages(pool, MESSAGES_KEPT_DAYS, FORGOTTEN_MAX).await?;
        let (mut accepted, mut failed) = (0, 0);
        if !provider.takes_refunds() {
            return Ok((accepted, failed));
        }
        for payment in payments::due_refunds(pool, REFUNDS_MAX).await? {
            match provider.refund(&payment, clock.now()).await {
                Ok(()) => {
                    payments::refund_requested(pool, &payment.id).await?;
                    accepted += 1;
                }
                Err(error) => {
                    tracing::warn!(payment = %payment.id, error, "provider not told of a refund; it is tried again");
                    let doubled = 2_u32.saturating_pow(payment.failures.min(16));
                    let pause = PAUSE_FIRST.saturating_mul(doubled).min(PAUSE_MAX);
                    payments::refund_failed(pool, &payment.id, &error, pause).await?;
                    failed += 1;
                }
            }
        }
        Ok((accepted, failed))
    }

    /// Lists payments, of one status or of all, behind the id `after`.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn list(
        &self,
        status: Option<PaymentStatus>,
        after: &str,
        limit: u32,
    ) -> Result<Vec<Payment>, LedgerError> {
        let mut all = Vec::new();
        for (_, Ledger { pool, breaker }) in self.parts.ledgers.iter() {
            let listed = mysql::ask(breaker, payments::list(pool, status, after, limit)).await;
            all.extend(listed.map_err(|error| failed_read(&error))?);
        }
        if self.parts.ledgers.if_only().is_none() {
            all.sort_by(|one, other| one.id.as_str().cmp(other.id.as_str()));
            all.dedup_by(|one, other| one.id == other.id);
            all.truncate(limit as usize);
        }
        Ok(all)
    }

    /// Notes that an operator has paid the money back by hand; `false` if there is no such payment
    /// that is not refunded.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn refunded_by_hand(
        &self,
        id: &PaymentId,
        actor: &Actor,
    ) -> Result<bool, LedgerError> {
        for (_, ledger) in self.parts.ledgers.iter() {
            if refunded_by_hand(ledger, id, actor).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

async fn refunded_by_hand(
    Ledger { pool, breaker }: &Ledger,
    id: &PaymentId,
    actor: &Actor,
) -> Result<bool, LedgerError> {
    let note = async {
        let mut transaction = pool.begin().await?;
        let set = payments::set_refunded(&mut transaction, id).await?;
        if set {
            let detail = serde_json::json!({ "payment": id.as_str() });
            actions::record(&mut transaction, actor, "payment_refunded", None, &detail).await?;
        }
        transaction.commit().await?;
        Ok(set)
    };
    let noted = mysql::change(breaker, note).await;
    noted.map_err(|error| failed_change(&error))
}
