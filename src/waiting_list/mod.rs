//! The waiting list of an item: joining, looking, leaving, and ending lapsed offers and places.
//!
//! Who gets a unit is decided in the transaction that returns it (`arbiter/waiting_line`). The
//! purchase of an offered unit is `purchase/offers.rs`.

use std::sync::Arc;
use std::time::Duration;

use sqlx::{MySqlConnection, MySqlPool};

use crate::arbiter::{LineChange, WaitingLine};
use crate::catalog::{Catalog, Unreachable};
use crate::domain::window::Phase;
use crate::domain::{
    ArbiterMode, Clock, Item, ItemId, LedgerError, Place, Refusal, UserId, WaitingStatus,
};
use crate::live::Hub;
use crate::metrics::Metrics;
use crate::store::breaker::Breaker;
use crate::store::mysql::link::TRANSACTION_MAX;
use crate::store::mysql::{
    self, Destination, Fault, answered, failed_change, failed_read, waiting_list, within,
};
use crate::store::redis::Counters;

/// Tries of a transaction.
const ATTEMPTS_MAX: u32 = 4;
/// The longest pause before the second try; it doubles, and is jittered.
const PAUSE_FIRST: Duration = Duration::from_millis(4);

/// The reason why a buyer did not join; nothing changed unless the ledger did not answer.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// The buyer cannot wait.
    #[error("refused: {}", .0.code())]
    Refused(Refusal),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// A place, and the number of buyers in front of it.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The place.
    pub place: Place,
    /// Buyers in front; 0 unless it is waiting.
    pub ahead: u64,
}

/// The parts of the waiting lists.
#[derive(Clone)]
#[expect(missing_docs, reason = "each part is documented at its type")]
pub struct Parts {
    pub pool: MySqlPool,
    pub breaker: Breaker,
    pub catalog: Catalog,
    pub counters: Counters,
    pub hub: Hub,
    pub metrics: Metrics,
    pub clock: Clock,
    pub line: WaitingLine,
}

/// The waiting lists. Clones share everything.
#[derive(Clone)]
pub struct WaitingLists {
    parts: Parts,
}

impl WaitingLists {
    /// The waiting lists of the ledger behind `parts`.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts }
    }

    /// Puts a buyer at the end of an item's line, or answers the place that the buyer has.
    ///
    /// # Errors
    /// See [`JoinError`].
    pub async fn join(&self, item: ItemId, buyer: UserId) -> Result<Standing, JoinError> {
        let found = self.parts.catalog.find_recent(item, Duration::ZERO).await;
        let away = |_: Unreachable| JoinError::Ledger(LedgerError::Unavailable);
        let item =
            found.map_err(away)?.value.ok_or(JoinError::Refused(Refusal::ItemNotFound))?.item;
        self.check(&item).map_err(JoinError::Refused)?;
        match self.change(&Work::Join(item, buyer)).await? {
            Done::Joined(Ok(place)) => Ok(self.standing(place).await?),
            Done::Joined(Err(refusal)) => Err(JoinError::Refused(refusal)),
            _ => Err(JoinError::Ledger(LedgerError::Unavailable)),
        }
    }

    /// Finds the last place of a buyer in an item's line.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn find(&self, item: ItemId, buyer: UserId) -> Result<Option<Standing>, LedgerError> {
        let read =
            mysql::ask(&self.parts.breaker, waiting_list::last(&self.parts.pool, item, buyer));
        match read.await.map_err(|error| failed_read(&error))? {
            Some(place) => self.standing(place).await.map(Some),
            None => Ok(None),
        }
    }

    /// Takes a buyer out of an item's line; an offered unit goes to the next one. Without a place it
    /// changes nothing.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn leave(&self, item: ItemId, buyer: UserId) -> Result<(), LedgerError> {
        self.change(&Work::Leave(item, buyer)).await.map(drop)
    }

    /// Ends offers that were not accepted in time, ends the lines of sales that are over, and offers
    /// units that are available. Answers the number of places that changed. Any instance may do it
    /// at any time.
    ///
    /// # Errors
    /// The database's; what was done stays done.
    pub async fn tend(&self) -> sqlx::Result<usize> {
        let mut changed = 0;
        let now = self.parts.clock.now();
        for item in waiting_list::items_to_tend(&self.parts.pool, now).await? {
            let mut more = true;
            while more {
                let work = Work::Tend(item);
                let tended = self.transact(&work);
                more = match within(TRANSACTION_MAX, tended).await? {
                    Done::Tended(_, change, more) => {
                        changed += change.changed.len();
                        more
                    }
                    _ => false,
                };
            }
        }
        Ok(changed)
    }

    /// Measures all lines, for the metrics.
    ///
    /// # Errors
    /// The database's.
    pub async fn measure(&self) -> sqlx::Result<()> {
        let lines = waiting_list::lines(&self.parts.pool, self.parts.clock.now()).await?;
        self.parts.metrics.waiting.set(lines.waiting, lines.offered, lines.idle);
        Ok(())
    }

    /// Counts a change that was committed, and tells the counters and the buyers of it.
    pub async fn publish(&self, item: ItemId, change: &LineChange) {
        if let Some(version) = change.stock_version.filter(|_| change.to_stock != 0) {
            self.parts.counters.apply_restock_delta(item, version, change.to_stock).await;
        }
        self.parts.line.count(change);
        for (buyer, _) in &change.changed {
            self.parts.hub.waiting_changed(item, *buyer);
        }
    }

    /// What can be said of an item without its line.
    fn check(&self, item: &Item) -> Result<(), Refusal> {
        // Without an arbiter the stock row is whatever the gate made of it.
        if item.offer_seconds == 0 || item.arbiter == ArbiterMode::Off {
            return Err(Refusal::NoWaitingList);
        }
        match item.window.phase(self.parts.clock.now()) {
            Phase::Upcoming => Err(Refusal::SaleNotStarted { starts_at: item.window.starts_at() }),
            Phase::Ended => Err(Refusal::SaleEnded),
            Phase::Open if item.paused => Err(Refusal::SalePaused),
            Phase::Open => Ok(()),
        }
    }

    async fn standing(&self, place: Place) -> Result<Standing, LedgerError> {
        if place.status != WaitingStatus::Waiting {
            return Ok(Standing { place, ahead: 0 });
        }
        let ahead = mysql::ask(&self.parts.breaker, waiting_list::ahead(&self.parts.pool, &place));
        let ahead = ahead.await.map_err(|error| failed_read(&error))?;
        Ok(Standing { place, ahead })
    }

    /// Makes a change behind the ledger's breaker, and tries again what passes. Joining and leaving
    /// are idempotent, so a lost COMMIT is tried again too.
    async fn change(&self, work: &Work) -> Result<Done, LedgerError> {
        let mut attempt = 1;
        loop {
            let tried = mysql::change(&self.parts.breaker, self.transact(work)).await;
            let error = match tried {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            let passes = matches!(Fault::of(&error), Fault::Transient | Fault::Connection);
            if !passes || mysql::nothing_was_sent(&error) || attempt == ATTEMPTS_MAX {
                return Err(failed_change(&error));
            }
            let bound = PAUSE_FIRST * 2_u32.pow(attempt);
            tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
            attempt += 1;
        }
    }

    /// One transaction; errors are rolled back. A change is published after the COMMIT.
    async fn transact(&self, work: &Work) -> sqlx::Result<Done> {
        let destination = Destination::of(&self.parts.pool);
        let mut transaction = self.parts.pool.begin().await?;
        let done = match work.run(&self.parts.line, &mut transaction).await {
            Ok(done) => done,
            Err(error) => {
                // If the rollback fails, the connection is dead, and the server rolls back by itself.
                let _ = transaction.rollback().await;
                return Err(error);
            }
        };
        answered(transaction.commit()).await?;
        if destination.has_changed() {
            return Err(Destination::replaced());
        }
        match &done {
            Done::Changed(item, change) | Done::Tended(item, change, _) => {
                self.publish(*item, change).await;
            }
            Done::Joined(_) | Done::Nothing => {}
        }
        Ok(done)
    }
}

/// A change of a line.
enum Work {
    Join(Arc<Item>, UserId),
    Leave(ItemId, UserId),
    Tend(ItemId),
}

/// A change of a line that was made.
enum Done {
    Joined(Result<Place, Refusal>),
    Changed(ItemId, LineChange),
    /// And whether more is to do.
    Tended(ItemId, LineChange, bool),
    Nothing,
}

impl Work {
    async fn run(
        &self,
        line: &WaitingLine,
        transaction: &mut MySqlConnection,
    ) -> sqlx::Result<Done> {
        Ok(match self {
            Self::Join(item, buyer) => Done::Joined(line.join(transaction, item, *buyer).await?),
            Self::Leave(item, buyer) => match line.leave(transaction, *item, *buyer).await? {
                Some(change) => Done::Changed(*item, change),
                None => Done::Nothing,
            },
            Self::Tend(item) => {
                let (change, more) = line.tend(transaction, *item).await?;
                Done::Tended(*item, change, more)
            }
        })
    }
}
