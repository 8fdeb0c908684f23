//! Step 3: one permit for all that a running purchase needs: the circuit breakers of its servers, a
//! place among the purchases that run, its item's share of these places, and its request's key.

use std::sync::{Arc, Weak};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::load_shedder::{ItemLimits, LoadPermit, LoadShedder};
use super::requests::{Requests, RunningRequest, WaitingClient};
use super::{Lines, OrderRequest};
use gates::Card;
use ledger::TellWait;
use ledger::breaker::{BreakerPermit, Breakers};
use shop_domain::outcome::Dependency;
use shop_domain::{Doubt, ItemId, Outcome, RequestKey, Unavailable, UserId};
use shop_metrics::Metrics;

/// Limits the purchases that run at once. Clones share the limits.
#[derive(Clone)]
pub struct Admission {
    places: Arc<Semaphore>,
    load_shedder: LoadShedder,
    /// Requests with a caller's key that run in this process. Between processes the ledger's
    /// unique key decides; here it would hold a connection while waiting for it.
    pub(super) requests: Requests,
    metrics: Metrics,
}

/// The right of one line of an order to run. Dropping it gives everything back.
pub(super) struct PurchasePermit {
    /// The permits of the whole order, which its first line holds: an order counts as one call, however many lines it
    /// has.
    breakers: Option<BreakerPermits>,
    request: Option<RunningRequest>,
    _in_flight: InFlight,
    _place: OwnedSemaphorePermit,
    load: Arc<LoadPermit>,
}

impl Admission {
    /// Admits `in_flight_max` purchases at once, and of each item no more than its limits allow.
    pub fn new(
        in_flight_max: usize,
        item_limits: ItemLimits,
        requests: Requests,
        metrics: Metrics,
    ) -> Self {
        let places = Arc::new(Semaphore::new(in_flight_max.min(Semaphore::MAX_PERMITS)));
        Self { places, load_shedder: LoadShedder::new(item_limits), requests, metrics }
    }

    /// Admits each line of an order without waiting, or says why it may not run now. Nothing is waited for with
    /// a permit, so two orders do not wait for each other either.
    pub(super) fn admit(
        &self,
        order: &OrderRequest,
        breakers: &Breakers,
        card: &Card,
    ) -> Result<Lines<PurchasePermit>, Outcome> {
        let mut breakers = Some(BreakerPermits::of(breakers, card)?);
        let mut enter = |item| self.enter(breakers.take(), order.buyer, item, order.key.as_ref());
        order.lines.iter().map(|line| enter(line.item)).collect()
    }

    fn enter(
        &self,
        breakers: Option<BreakerPermits>,
        buyer: UserId,
        item: ItemId,
        key: Option<&RequestKey>,
    ) -> Result<PurchasePermit, Outcome> {
        let free = self.places.available_permits();
        let place = Arc::clone(&self.places).try_acquire_owned().ok();
        let load = place.as_ref().and_then(|_| self.load_shedder.enter(item, free));
        let (Some(place), Some(load)) = (place, load) else {
            self.metrics.purchases_shed.inc();
            return Err(Outcome::Unavailable(Unavailable::Overloaded));
        };
        let in_progress = Outcome::Unknown(Doubt::InProgress);
        let request = match key {
            Some(key) => Some(self.requests.begin(buyer, item, key).ok_or(in_progress)?),
            None => None,
        };
        let _in_flight = InFlight::new(&self.metrics);
        Ok(PurchasePermit { breakers, request, _in_flight, _place: place, load: Arc::new(load) })
    }
}

impl PurchasePermit {
    /// The client that waits for the answer, if it can ask again.
    pub(super) fn client(&self) -> Option<WaitingClient> {
        self.request.as_ref().map(RunningRequest::client)
    }

    /// Counts an order of several lines for the item that it waits for; `None` for a single line.
    pub(super) fn tell_wait(lines: &[Self]) -> Option<TellWait> {
        if lines.len() < 2 {
            return None;
        }
        let loads: Vec<Weak<LoadPermit>> =
            lines.iter().map(|line| Arc::downgrade(&line.load)).collect();
        Some(Arc::new(move |awaited: Option<ItemId>| {
            let loads: Vec<Arc<LoadPermit>> = loads.iter().filter_map(Weak::upgrade).collect();
            LoadPermit::wait(&loads, awaited);
        }))
    }

    /// Ends it, and reports the outcome to the breakers.
    pub(super) fn ended(self, outcome: &Outcome) {
        self.load.ended();
        if let Some(breakers) = self.breakers {
            breakers.ended(outcome);
        }
    }
}

/// Counts a purchase as running until it is dropped.
struct InFlight(Metrics);

impl InFlight {
    fn new(metrics: &Metrics) -> Self {
        metrics.purchases_in_flight.inc();
        Self(metrics.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.purchases_in_flight.dec();
    }
}

/// The permits of the circuit breakers, one for each server that the strategy needs.
struct BreakerPermits {
    /// The permit of the ledger. Purchases are never its probe: reading an item is.
    mysql: BreakerPermit,
    /// The permit of the server that the strategy needs beside the ledger.
    gate: Option<BreakerPermit>,
}

impl BreakerPermits {
    /// Asks the breakers. `Err` when one of the servers is known not to answer.
    fn of(breakers: &Breakers, card: &Card) -> Result<Self, Outcome> {
        let refused = |dependency| Outcome::Unavailable(Unavailable::Dependency(dependency));
        let mysql = breakers.mysql.enter_closed().ok_or_else(|| refused(Dependency::Mysql))?;
        let gate = match card.needs.first() {
            Some(&needed) => Some(breakers.of(needed).enter().ok_or_else(|| refused(needed))?),
            None => None,
        };
        Ok(Self { mysql, gate })
    }

    /// Reports the outcome to the breakers. A server fails when it does not answer; a purchase that
    /// waited for its item, or was not over in time, is counted for no server.
    fn ended(self, outcome: &Outcome) {
        match outcome {
            Outcome::Unavailable(Unavailable::Dependency(dependency))
            | Outcome::Unknown(Doubt::Unanswered(dependency)) => self.failed(*dependency),
            Outcome::Sold(_) | Outcome::Replayed(_) => {
                self.mysql.answered();
                self.gate.into_iter().for_each(BreakerPermit::answered);
            }
            // The ledger has not been asked yet.
            Outcome::Queued(_) => self.gate.into_iter().for_each(BreakerPermit::answered),
            Outcome::Refused(refusal) if refusal.is_by_the_ledger() => {
                self.mysql.answered();
                self.gate.into_iter().for_each(BreakerPermit::answered);
            }
            Outcome::Refused(_) | Outcome::Unavailable(_) | Outcome::Unknown(_) => {}
        }
    }

    fn failed(self, dependency: Dependency) {
        match dependency {
            Dependency::Mysql => self.mysql.failed(),
            other => self
                .gate
                .into_iter()
                .filter(|permit| permit.dependency() == other)
                .for_each(BreakerPermit::failed),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::purchase::{LineRequest, Source};
    use gates::LIST;
    use ledger::breaker::CALLS_MIN;
    use shop_domain::order::LINES_MAX;
    use shop_domain::{Quantity, Refusal, Trace};
    use shop_metrics::Metrics;

    /// The breakers that are open after many purchases with this outcome.
    fn opened_by(outcome: &Outcome) -> Vec<Dependency> {
        let breakers = Breakers::new(&Metrics::new());
        let entry = LIST.iter().find(|entry| entry.card.name == "redis-lua").expect("a strategy");
        for _ in 0..CALLS_MIN {
            let permits = BreakerPermits::of(&breakers, entry.card);
            permits.unwrap_or_else(|refused| panic!("it opened early: {refused:?}")).ended(outcome);
        }
        let open = Dependency::ALL.iter().filter(|server| breakers.of(**server).is_open());
        open.copied().collect()
    }

    /// Two orders with many lines lose the answers to their COMMITs. That is no reason to turn all others away.
    #[tokio::test]
    async fn an_order_of_many_lines_is_one_call() {
        let metrics = Metrics::new();
        let breakers = Breakers::new(&metrics);
        let limits = ItemLimits { wait_max: Duration::from_secs(1), percent: 90 };
        let admission = Admission::new(1_000, limits, Requests::default(), metrics);
        let line = |id: u8| LineRequest {
            item: ItemId::new(id.into()).expect("positive"),
            quantity: Quantity::ONE,
            ticket: None,
        };
        let lines: Vec<LineRequest> = (1..=LINES_MAX).map(line).collect();
        let buyer = UserId::new(1).expect("positive");
        let order = OrderRequest::new(buyer, lines, Source::Reservation, None, Trace::default());
        let card = gates::card("mysql-batch").expect("a strategy");
        for _ in 0..2 {
            let permits = admission.admit(&order, &breakers, card);
            let permits = permits.unwrap_or_else(|refused| panic!("{refused:?}"));
            let lost = Outcome::Unknown(Doubt::Unanswered(Dependency::Mysql));
            permits.into_iter().for_each(|permit| permit.ended(&lost));
        }
        assert!(!breakers.mysql.is_open());
    }

    #[test]
    fn a_server_is_blamed_only_when_it_did_not_answer() {
        for server in [Dependency::Mysql, Dependency::Redis] {
            let unanswered = Outcome::Unknown(Doubt::Unanswered(server));
            assert_eq!(opened_by(&unanswered), [server]);
            let away = Outcome::Unavailable(Unavailable::Dependency(server));
            assert_eq!(opened_by(&away), [server]);
        }
        for uncounted in [
            Outcome::Unknown(Doubt::StillRunning),
            Outcome::Unknown(Doubt::InProgress),
            Outcome::Unknown(Doubt::BrokenOff),
            Outcome::Unknown(Doubt::TooFewReplicas),
            Outcome::Unavailable(Unavailable::Faulty(Dependency::Redis)),
            Outcome::Unavailable(Unavailable::Contended),
            Outcome::Unavailable(Unavailable::Overloaded),
            Outcome::Unavailable(Unavailable::ReadOnly),
            Outcome::Refused(Refusal::SoldOut { asked_at: None }),
            Outcome::Refused(Refusal::RequestInProgress),
            // The gate needs another server.
            Outcome::Unknown(Doubt::Unanswered(Dependency::Etcd)),
        ] {
            assert_eq!(opened_by(&uncounted), [], "{uncounted:?}");
        }
    }
}
