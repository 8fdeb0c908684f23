//! The waiting list of an item: joining, finding, leaving, and ending lapsed offers and places.
//!
//! Who gets a unit is decided in the transaction that returns it (`ledger::waiting_list`). The
//! purchase of an offered unit is an order from `Source::Offer`.

mod tend;

use std::time::Duration;

use crate::catalog::Catalog;
use crate::live::Hub;
use gates::redis_store::Counters;
use ledger::rows::waiting_list;
use ledger::waiting_list::{LineChange, Waitlist};
use shop_domain::{
    ArbiterMode, Clock, Item, ItemId, LedgerError, Place, Refusal, UserId, WaitingStatus,
};
use shop_metrics::Metrics;
use tend::DeferredItems;

pub use ledger::waiting_list::JoinRefusal;
pub use tend::TendRun;

/// The reason why a buyer did not join; nothing changed unless the ledger did not answer.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The buyer cannot wait.
    #[error("refused: {0:?}")]
    Refused(JoinRefusal),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A place, and the number of buyers in front of it.
#[derive(Clone, Debug)]
pub struct LinePosition {
    pub place: Place,
    /// Buyers in front; 0 unless it is waiting.
    pub ahead: u64,
}

/// The parts of the waiting lists.
#[derive(Clone)]
pub struct WaitlistParts {
    pub waitlist: Waitlist,
    pub catalog: Catalog,
    /// Told of units that come back.
    pub counters: Counters,
    pub hub: Hub,
    pub metrics: Metrics,
    pub clock: Clock,
}

/// The waiting lists. Clones share everything.
#[derive(Clone)]
pub struct WaitingLists {
    parts: WaitlistParts,
    deferred: DeferredItems,
}

impl WaitingLists {
    /// The waiting lists over `parts`.
    pub fn new(parts: WaitlistParts) -> Self {
        Self { parts, deferred: DeferredItems::default() }
    }

    /// Puts a buyer at the end of an item's line, or answers the place that the buyer has.
    pub async fn join(&self, item: ItemId, buyer: UserId) -> Result<LinePosition, JoinError> {
        let found = self.parts.catalog.find_recent(item, Duration::ZERO).await?.value;
        let item =
            found.ok_or(JoinError::Refused(JoinRefusal::Purchase(Refusal::ItemNotFound)))?.item;
        self.check(&item).map_err(JoinError::Refused)?;
        let joined = self.parts.waitlist.join(&item, buyer).await?;
        match joined.map_err(JoinError::Refused)? {
            (place, Some(ahead)) => Ok(LinePosition { place, ahead }),
            // The place is there, whatever becomes of the read.
            (place, None) => {
                Ok(self.position(place).await.map_err(|_| LedgerError::OutcomeUnknown)?)
            }
        }
    }

    /// Finds the last place of a buyer in an item's line.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn find(
        &self,
        item: ItemId,
        buyer: UserId,
    ) -> Result<Option<LinePosition>, LedgerError> {
        let ledger = &self.parts.waitlist.ledger;
        match ledger.read(waiting_list::last(&ledger.pool, item, buyer)).await? {
            Some(place) => self.position(place).await.map(Some),
            None => Ok(None),
        }
    }

    /// Takes a buyer out of an item's line; an offered unit goes to the next one. Without a place it
    /// changes nothing. Returns whether the units that are available changed.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn leave(&self, item: ItemId, buyer: UserId) -> Result<bool, LedgerError> {
        let Some(change) = self.parts.waitlist.leave(item, buyer).await? else { return Ok(false) };
        self.publish(item, &change).await;
        Ok(change.to_stock != 0)
    }

    /// Measures all lines, for the metrics.
    pub async fn measure(&self) -> ledger::Result<()> {
        let WaitlistParts { waitlist, metrics, .. } = &self.parts;
        let pool = &waitlist.ledger.pool;
        let lines = waiting_list::lines(pool, self.parts.clock.now()).await?;
        metrics.waiting.set(lines.waiting, lines.offered, lines.idle);
        Ok(())
    }

    /// Counts a change that was committed, and tells the counters and the buyers of it.
    pub async fn publish(&self, item: ItemId, change: &LineChange) {
        if let Some(version) = change.stock_version.filter(|_| change.to_stock != 0) {
            self.parts.counters.apply_delta(item, (version, change.to_stock), &[]).await;
        }
        self.parts.waitlist.line.count(change);
        for (buyer, _) in &change.changed {
            self.parts.hub.waiting_changed(item, *buyer);
        }
    }

    /// As [`Self::publish`], of several lines.
    pub async fn publish_all(&self, changes: &[(ItemId, LineChange)]) {
        for (item, change) in changes {
            self.publish(*item, change).await;
        }
    }

    /// What can be said of an item without its line.
    fn check(&self, item: &Item) -> Result<(), JoinRefusal> {
        // Without an arbiter the stock row is whatever the gate made of it.
        if item.offer_seconds == 0 || item.arbiter == ArbiterMode::Off {
            return Err(JoinRefusal::NoWaitingList);
        }
        item.check_open(self.parts.clock.now()).map_err(JoinRefusal::Purchase)?;
        if item.awaits_draw() {
            // Its line is made of the entries.
            return Err(JoinRefusal::Purchase(Refusal::DrawOnly));
        }
        Ok(())
    }

    async fn position(&self, place: Place) -> Result<LinePosition, LedgerError> {
        if place.status != WaitingStatus::Waiting {
            return Ok(LinePosition { place, ahead: 0 });
        }
        let ledger = &self.parts.waitlist.ledger;
        let ahead = ledger.read(waiting_list::ahead(&ledger.pool, &place)).await?;
        Ok(LinePosition { place, ahead })
    }
}
