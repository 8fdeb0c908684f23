//! Money that goes back: telling the provider, hearing of it, and what operators see and note of it.
//!
//! The transactions are in `ledger::order::refund`.

use std::time::Duration;

use async_trait::async_trait;
use prometheus_client::metrics::gauge::Gauge;

use crate::payments::Payments;
use crate::provider::Provider;
use extension::job::Job;
use ledger::order::refund::{self, ByHand};
use ledger::rows::actions::Actor;
use ledger::rows::payments::{self, Payment};
use ledger::work::nothing_was_sent;
use outgoing_https::Target;
use shop_domain::LedgerError;
use shop_domain::payment::{PaymentId, PaymentStatus};
use webhooks::{Failure, pause_after};

/// Open refunds that one run counts: with more, it would not get to telling the provider.
const OPEN_COUNTED_MAX: u32 = 100_000;
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

/// The job that asks for refunds.
pub struct RequestRefunds {
    pub payments: Payments,
    /// Payments that have to go back, and are not known to have done so; at most 100,000.
    pub open: Gauge,
}

#[async_trait]
impl Job for RequestRefunds {
    async fn run(&self) -> Result<String, String> {
        let asked = self.request().await;
        let (accepted, failed) = asked.map_err(|error| error.to_string())?;
        match failed {
            0 => Ok(format!("{accepted} refunds asked for")),
            _ => Err(format!("the provider did not take {failed} refunds; {accepted} asked for")),
        }
    }
}

impl RequestRefunds {
    /// Tells the provider of refunds that are due, and forgets old messages. May run in every instance at
    /// once: the provider knows a repetition by its id. Returns the refunds that the provider has accepted, and the tries
    /// that failed.
    async fn request(&self) -> ledger::Result<(u32, u32)> {
        let Payments { core, provider, .. } = &self.payments;
        let pool = &core.ledger.pool;
        self.open.set(payments::count_open_refunds(pool, OPEN_COUNTED_MAX).await?);
        payments::forget_messages(pool, MESSAGES_KEPT_DAYS, FORGOTTEN_MAX).await?;
        let mut accepted = 0;
        let mut failed = 0;
        let mut broken = None;
        let provider = provider.as_ref();
        let receiver = provider.and_then(|provider| Some((provider, provider.refunds.as_ref()?)));
        let Some((provider, target)) = receiver else { return Ok((0, 0)) };
        for id in payments::due_refunds(pool, REFUNDS_MAX).await? {
            match self.tell(provider, target, &id).await {
                Ok(None) => {}
                Ok(Some(Ok(()))) => accepted += 1,
                Ok(Some(Err(Failure::Refused(_)))) => failed += 1,
                Ok(Some(Err(Failure::Away(_)))) => {
                    failed += 1;
                    // Each further try would wait for the whole time limit, and a stop of the service for all of them.
                    break;
                }
                // The ledger fails, not this payment.
                Err(error) if nothing_was_sent(&error) => return Err(error),
                Err(error) => {
                    tracing::warn!(%error, payment = %id, "refund not read or noted; it is tried again");
                    broken = broken.or(Some(error));
                }
            }
        }
        broken.map_or(Ok((accepted, failed)), Err)
    }

    /// Tells the provider of one refund, and notes its answer; `None` when the money need not go back any more.
    async fn tell(
        &self,
        provider: &Provider,
        target: &Target,
        id: &PaymentId,
    ) -> ledger::Result<Option<Result<(), Failure>>> {
        let core = &self.payments.core;
        let pool = &core.ledger.pool;
        // Read again: while the others were told, an operator may have noted that this money went back by hand.
        let found = payments::find(pool, id).await?;
        let is_due = |payment: &Payment| payment.status == PaymentStatus::RefundWanted;
        let Some(payment) = found.filter(is_due) else { return Ok(None) };
        let told = provider.refund(target, &payment, core.kit.clock.now()).await;
        let pause = pause_after(payment.failures, PAUSE_FIRST, PAUSE_MAX);
        let noted = match &told {
            Ok(()) => Ok(()),
            Err(Failure::Away(error) | Failure::Refused(error)) => {
                tracing::warn!(payment = %id, error, "provider not told of a refund; it is tried again");
                Err((error.as_str(), pause))
            }
        };
        refund::note_request(pool, id, noted).await?;
        Ok(Some(told))
    }
}

impl Payments {
    /// Notes that an operator has paid back by hand all of the money that has to go back.
    pub async fn refunded_by_hand(
        &self,
        id: &PaymentId,
        actor: &Actor,
    ) -> Result<ByHand, LedgerError> {
        let ledger = &self.core.ledger;
        // Read first: if the ledger does not answer here, nothing has changed for certain.
        if ledger.read(payments::find(&ledger.pool, id)).await?.is_none() {
            return Ok(ByHand::NotFound);
        }
        refund::note_by_hand(ledger, id, actor).await
    }
}
