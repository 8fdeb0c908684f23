//! Admission: how many purchases run at once, and no request twice.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pace::{Paces, Running};
use super::requests::{InHand, Requests, Waiting};
use crate::domain::{Doubt, ItemId, Outcome, RequestKey, Unavailable, UserId};
use crate::metrics::Metrics;

/// The door in front of the gates. Clones share it.
#[derive(Clone)]
pub struct Admission {
    room: Arc<Room>,
}

struct Room {
    places: Arc<Semaphore>,
    /// Requests with a caller's key that run in this process. Between processes the ledger's
    /// unique key decides; here it would hold a connection while waiting for it.
    requests: Requests,
    paces: Paces,
    metrics: Metrics,
}

/// One admitted purchase; dropping it leaves.
pub struct Admitted {
    room: Arc<Room>,
    request: Option<InHand>,
    _place: (OwnedSemaphorePermit, Running),
}

impl Admission {
    /// Lets `in_flight_max` purchases in at once, and of each item no more than go through in
    /// `wait_max`.
    #[must_use]
    pub fn new(
        in_flight_max: usize,
        wait_max: Duration,
        requests: Requests,
        metrics: Metrics,
    ) -> Self {
        let places = Arc::new(Semaphore::new(in_flight_max.min(Semaphore::MAX_PERMITS)));
        Self { room: Arc::new(Room { places, requests, paces: Paces::new(wait_max), metrics }) }
    }

    /// Lets a purchase in without waiting; `key` is the caller's, if it sent one.
    ///
    /// # Errors
    /// The outcome when there is no place, or when the same request is in already.
    pub fn enter(
        &self,
        buyer: UserId,
        item: ItemId,
        key: Option<&RequestKey>,
    ) -> Result<Admitted, Outcome> {
        let place = Arc::clone(&self.room.places).try_acquire_owned();
        let place = place.ok().zip(self.room.paces.enter(item));
        let place = place.ok_or_else(|| {
            self.room.metrics.purchases_shed.inc();
            Outcome::Unavailable(Unavailable::Overloaded)
        })?;
        let in_progress = Outcome::Unknown(Doubt::InProgress);
        let request = match key {
            Some(key) => Some(self.room.requests.begin(buyer, item, key).ok_or(in_progress)?),
            None => None,
        };
        self.room.metrics.purchases_in_flight.inc();
        Ok(Admitted { room: Arc::clone(&self.room), request, _place: place })
    }

    /// Whether a request with this key is in.
    #[must_use]
    pub fn is_in(&self, buyer: UserId, item: ItemId, key: &RequestKey) -> bool {
        self.room.requests.is_running(buyer, item, key)
    }
}

impl Admitted {
    /// The client that waits for it, if it can ask again.
    #[must_use]
    pub fn client(&self) -> Option<Waiting> {
        self.request.as_ref().map(InHand::client)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.room.metrics.purchases_in_flight.dec();
    }
}
