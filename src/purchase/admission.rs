//! Admission: how many purchases run at once, and no request twice.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::load_shedder::{ItemLimits, LoadPermit, LoadShedder};
use super::requests::{InHand, Requests, Waiting};
use shop_domain::{Doubt, ItemId, Outcome, RequestKey, Unavailable, UserId};
use shop_metrics::Metrics;

/// Admits purchases to the gates. Clones share the limits.
#[derive(Clone)]
pub struct Admission {
    shared: Arc<Shared>,
}

struct Shared {
    permits: Arc<Semaphore>,
    /// Requests with a caller's key that run in this process. Between processes the ledger's
    /// unique key decides; here it would hold a connection while waiting for it.
    requests: Requests,
    load_shedder: LoadShedder,
    metrics: Metrics,
}

/// One admitted purchase; dropping it ends its admission.
pub struct Admitted {
    shared: Arc<Shared>,
    request: Option<InHand>,
    _permit: (OwnedSemaphorePermit, LoadPermit),
}

impl Admission {
    /// Admits `in_flight_max` purchases at once, and of each item no more than its limits allow.
    #[must_use]
    pub fn new(
        in_flight_max: usize,
        item_limits: ItemLimits,
        requests: Requests,
        metrics: Metrics,
    ) -> Self {
        let permits = Arc::new(Semaphore::new(in_flight_max.min(Semaphore::MAX_PERMITS)));
        Self {
            shared: Arc::new(Shared {
                permits,
                requests,
                load_shedder: LoadShedder::new(item_limits),
                metrics,
            }),
        }
    }

    /// Admits a purchase without waiting; `key` is the caller's, if it sent one.
    ///
    /// # Errors
    /// The outcome when no permit is free, or when a request with the same key runs already.
    pub fn enter(
        &self,
        buyer: UserId,
        item: ItemId,
        key: Option<&RequestKey>,
    ) -> Result<Admitted, Outcome> {
        let Shared { permits, load_shedder, .. } = &*self.shared;
        let free = permits.available_permits();
        let permit = Arc::clone(permits).try_acquire_owned();
        // Entered only with a permit: an entry that is dropped counts as a purchase that has ended.
        let permit = permit.ok().and_then(|permit| Some((permit, load_shedder.enter(item, free)?)));
        let permit = permit.ok_or_else(|| {
            self.shared.metrics.purchases_shed.inc();
            Outcome::Unavailable(Unavailable::Overloaded)
        })?;
        let in_progress = Outcome::Unknown(Doubt::InProgress);
        let request = match key {
            Some(key) => Some(self.shared.requests.begin(buyer, item, key).ok_or(in_progress)?),
            None => None,
        };
        self.shared.metrics.purchases_in_flight.inc();
        Ok(Admitted { shared: Arc::clone(&self.shared), request, _permit: permit })
    }

    /// Whether a request with this key runs in this process.
    #[must_use]
    pub fn is_in(&self, buyer: UserId, item: ItemId, key: &RequestKey) -> bool {
        self.shared.requests.is_running(buyer, item, key)
    }
}

impl Admitted {
    /// The client that waits for the answer, if it can ask again.
    #[must_use]
    pub fn client(&self) -> Option<Waiting> {
        self.request.as_ref().map(InHand::client)
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.metrics.purchases_in_flight.dec();
    }
}
