//! What operators do with the endpoints of events.

use ledger::Ledger;
use outgoing_https::Target;

use crate::problems;
use crate::sql::endpoints::{self, Endpoint, EndpointChange, NewEndpoint};
use crate::sql::event_log;
use ledger::rows::actions::Actor;
use shop_domain::{EndpointId, LedgerError};
use web::problem::Problem;
use web::too_long;

/// The most endpoints.
const ENDPOINTS_MAX: usize = 32;
/// The longest address, in characters: addresses of automation services carry long signatures.
const TARGET_LENGTH_MAX: usize = 2_048;

/// The endpoints, for operators. Clones share everything.
#[derive(Clone)]
pub struct Endpoints {
    pub ledger: Ledger,
    /// Whether there are events at all.
    pub enabled: bool,
}

impl Endpoints {
    /// Creates an endpoint and reads it back, with its secret.
    pub async fn create(&self, new: &NewEndpoint, actor: &Actor) -> Result<Endpoint, Problem> {
        if !self.enabled {
            return Err(problems::EVENTS_OFF.problem());
        }
        if new.target.len() > TARGET_LENGTH_MAX {
            let detail = too_long("target", new.target.len(), TARGET_LENGTH_MAX);
            return Err(problems::INVALID_TARGET.detail(detail));
        }
        Target::parse(&new.target).map_err(|why| problems::INVALID_TARGET.detail(why))?;
        new.filter.check().map_err(|why| problems::INVALID_FILTER.detail(why))?;
        let existing = self.ledger.read(endpoints::list(&self.ledger.pool)).await?;
        if existing.len() >= ENDPOINTS_MAX {
            return Err(problems::TOO_MANY_ENDPOINTS.problem());
        }
        let delivered = self.ledger.read(self.begin(new.from_start == Some(true))).await?;
        let secret = webhooks::new_secret();
        Ok(endpoints::create(&self.ledger, new, &secret, delivered, actor).await?)
    }

    /// The position behind which a new endpoint begins.
    async fn begin(&self, from_start: bool) -> ledger::Result<i64> {
        let pool = &self.ledger.pool;
        // Read before the first one: an event that comes into an empty log between the two is delivered.
        let last = event_log::last_position(pool).await?;
        let first = if from_start { event_log::first_position(pool).await? } else { None };
        Ok(first.map_or(last, |first| first - 1))
    }

    /// Orders that the events from `first` to `last` are delivered again, as far as the log has
    /// them.
    pub async fn replay(
        &self,
        id: EndpointId,
        (first, last): (i64, i64),
        actor: &Actor,
    ) -> Result<(), Problem> {
        let newest = self.ledger.read(event_log::last_position(&self.ledger.pool)).await?;
        let first = first.max(1);
        let last = last.min(newest);
        if first > last {
            return Err(problems::RANGE_OUT_OF_LOG.problem());
        }
        self.change(id, &EndpointChange::Replay(first, last), actor).await
    }

    /// Lists the endpoints, and the last position of the log.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn list(&self) -> Result<(Vec<Endpoint>, i64), LedgerError> {
        let pool = &self.ledger.pool;
        self.ledger
            .read(async {
                Ok((endpoints::list(pool).await?, event_log::last_position(pool).await?))
            })
            .await
    }

    /// Makes a change, after the check of a filter.
    pub async fn change(
        &self,
        id: EndpointId,
        change: &EndpointChange,
        actor: &Actor,
    ) -> Result<(), Problem> {
        if let EndpointChange::Filter(filter) = change {
            filter.check().map_err(|why| problems::INVALID_FILTER.detail(why))?;
        }
        let is_there = endpoints::change(&self.ledger, id, change, actor).await?;
        is_there.then_some(()).ok_or_else(|| problems::ENDPOINT_NOT_FOUND.problem())
    }
}
