//! Admission: how many purchases run at once, and no request twice.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::pace::{Paces, Running};
use crate::domain::{ItemId, Outcome, Purchase, Refusal, Unavailable, UserId};
use crate::metrics::Metrics;

/// What makes two requests the same.
type Request = (UserId, ItemId, String);

/// The door in front of the gates. Clones share it.
#[derive(Clone)]
pub struct Admission {
    room: Arc<Room>,
}

struct Room {
    places: Arc<Semaphore>,
    /// Requests with a caller's key that run in this process. Between processes the ledger's
    /// unique key decides; here it would hold a connection while waiting for it.
    running: Mutex<HashSet<Request>>,
    paces: Paces,
    metrics: Metrics,
}

/// One admitted purchase; dropping it leaves.
pub struct Admitted {
    room: Arc<Room>,
    request: Option<Request>,
    _place: (OwnedSemaphorePermit, Running),
}

impl Admission {
    /// Lets `in_flight_max` purchases in at once, and of each item no more than go through in
    /// `wait_max`.
    #[must_use]
    pub fn new(in_flight_max: usize, wait_max: Duration, metrics: Metrics) -> Self {
        let places = Arc::new(Semaphore::new(in_flight_max.min(Semaphore::MAX_PERMITS)));
        Self {
            room: Arc::new(Room {
                places,
                running: Mutex::default(),
                paces: Paces::new(wait_max),
                metrics,
            }),
        }
    }

    /// Lets a purchase in without waiting.
    ///
    /// # Errors
    /// The outcome when there is no place, or when the same request is in already.
    pub fn enter(&self, purchase: &Purchase) -> Result<Admitted, Outcome> {
        let place = Arc::clone(&self.room.places).try_acquire_owned();
        let place = place.ok().zip(self.room.paces.enter(purchase.item.id));
        let place = place.ok_or_else(|| {
            self.room.metrics.purchases_shed.inc();
            Outcome::Unavailable(Unavailable::Overloaded)
        })?;
        let request = purchase
            .key
            .is_from_caller()
            .then(|| (purchase.buyer, purchase.item.id, purchase.key.as_str().to_owned()));
        if let Some(request) = &request
            && !self.room.running().insert(request.clone())
        {
            return Err(Outcome::Refused(Refusal::RequestInProgress));
        }
        self.room.metrics.purchases_in_flight.inc();
        Ok(Admitted { room: Arc::clone(&self.room), request, _place: place })
    }
}

impl Room {
    fn running(&self) -> MutexGuard<'_, HashSet<Request>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.room.metrics.purchases_in_flight.dec();
        if let Some(request) = &self.request {
            self.room.running().remove(request);
        }
    }
}
