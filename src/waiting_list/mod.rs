//! The waiting list of an item: joining, looking, leaving, and ending lapsed offers and places.
//!
//! Who gets a unit is decided in the transaction that returns it (`write/waiting_line`). The
//! purchase of an offered unit is `purchase/offers.rs`.

mod tend;

use std::sync::Arc;
use std::time::Duration;

use ledger::Database;
use sqlx::MySqlConnection;

use crate::catalog::Catalog;
use crate::live::Hub;
use gates::redis_store::Counters;
use ledger::route::breaker::Breaker;
use ledger::route::{Shards, Unreachable};
use ledger::rows::{self, Fault, failed_change, failed_read, stock, waiting_list};
use ledger::waiting_list::{LineChange, WaitingLine};
use ledger::write::ItemConcurrency;
use shop_domain::window::Phase;
use shop_domain::{
    ArbiterMode, Clock, Item, ItemId, LedgerError, Place, Refusal, Routed, ShardId, UserId,
    WaitingStatus,
};
use shop_metrics::Metrics;
use tend::Deferred;

pub use tend::Tended;

/// Tries of a transaction.
const ATTEMPTS_MAX: u32 = 4;
/// Looks for a place in the line of an item that moves again and again.
const LOOKS_MAX: u32 = 3;
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
    pub place: Place,
    /// Buyers in front; 0 unless it is waiting.
    pub ahead: u64,
}

/// The parts of one ledger that the waiting lists use.
#[derive(Clone)]
pub struct LedgerParts {
    pub pool: Database,
    pub breaker: Breaker,
    pub counters: Counters,
    pub metrics: Metrics,
    pub concurrency: ItemConcurrency,
}

/// The parts of the waiting lists.
#[derive(Clone)]
pub struct Parts {
    pub ledgers: Shards<LedgerParts>,
    pub catalog: Catalog,
    pub hub: Hub,
    pub clock: Clock,
    pub line: WaitingLine,
}

/// The waiting lists. Clones share everything.
#[derive(Clone)]
pub struct WaitingLists {
    parts: Parts,
    deferred: Deferred,
}

impl WaitingLists {
    /// The waiting lists of the ledger behind `parts`.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self { parts, deferred: Deferred::default() }
    }

    /// Puts a buyer at the end of an item's line, or answers the place that the buyer has.
    pub async fn join(&self, item: ItemId, buyer: UserId) -> Result<Standing, JoinError> {
        let found = self.parts.catalog.find_recent(item, Duration::ZERO).await;
        let away = |_: Unreachable| JoinError::Ledger(LedgerError::Unavailable);
        let item =
            found.map_err(away)?.value.ok_or(JoinError::Refused(Refusal::ItemNotFound))?.item;
        self.check(&item).map_err(JoinError::Refused)?;
        let id = item.id;
        match self.change(id, &Work::Join(item, buyer)).await? {
            Done::Joined(Ok((place, Some(ahead)))) => Ok(Standing { place, ahead }),
            Done::Joined(Ok((place, None))) => Ok(self.standing(id, place).await?),
            Done::Joined(Err(refusal)) => Err(JoinError::Refused(refusal)),
            _ => Err(JoinError::Ledger(LedgerError::Unavailable)),
        }
    }

    /// Finds the last place of a buyer in an item's line.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn find(&self, item: ItemId, buyer: UserId) -> Result<Option<Standing>, LedgerError> {
        let ledgers = &self.parts.ledgers;
        let (mut ledger, mut home) = ledgers.of_item(item).await.map_err(gone)?;
        for _ in 0..LOOKS_MAX {
            let read = async {
                let place = waiting_list::last(&ledger.pool, item, buyer).await?;
                let epoch = match home.is_only {
                    true => None,
                    false => stock::read(&ledger.pool, item).await?.map(|row| row.home_epoch),
                };
                Ok((place, epoch))
            };
            let read = rows::ask(&ledger.breaker, read).await;
            let (place, epoch) = read.map_err(|error| failed_read(&error))?;
            match ledgers.moved_since(item, home, epoch).await.map_err(gone)? {
                Some(again) => (ledger, home) = (ledgers.at(again.shard), again),
                None => {
                    return match place {
                        Some(place) => self.standing(item, place).await.map(Some),
                        None => Ok(None),
                    };
                }
            }
        }
        Err(LedgerError::Moving)
    }

    /// Takes a buyer out of an item's line; an offered unit goes to the next one. Without a place it
    /// changes nothing.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn leave(&self, item: ItemId, buyer: UserId) -> Result<(), LedgerError> {
        self.change(item, &Work::Leave(buyer)).await.map(drop)
    }

    /// Measures all lines of one ledger, for the metrics.
    pub async fn measure(&self, shard: ShardId) -> ledger::Result<()> {
        let LedgerParts { pool, metrics, .. } = self.parts.ledgers.at(shard);
        let lines = waiting_list::lines(pool, self.parts.clock.now()).await?;
        metrics.waiting.set(lines.waiting, lines.offered, lines.idle);
        Ok(())
    }

    /// Counts a change that was committed, and tells the counters and the buyers of it.
    pub async fn publish(&self, item: ItemId, change: &LineChange) {
        if let Some(version) = change.stock_version.filter(|_| change.to_stock != 0)
            && let Ok((ledger, _)) = self.parts.ledgers.of_item(item).await
        {
            ledger.counters.apply_restock_delta(item, version, change.to_stock).await;
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

    async fn standing(&self, item: ItemId, place: Place) -> Result<Standing, LedgerError> {
        if place.status != WaitingStatus::Waiting {
            return Ok(Standing { place, ahead: 0 });
        }
        let ledgers = &self.parts.ledgers;
        let (LedgerParts { pool, breaker, .. }, _) = ledgers.of_item(item).await.map_err(gone)?;
        let ahead = rows::ask(breaker, waiting_list::ahead(pool, &place));
        let ahead = ahead.await.map_err(|error| failed_read(&error))?;
        Ok(Standing { place, ahead })
    }

    /// Makes a change behind the ledger's breaker, and tries again what passes. Joining and leaving
    /// are idempotent, so a lost COMMIT is tried again too. It waits for its item without a connection.
    async fn change(&self, item: ItemId, work: &Work) -> Result<Done, LedgerError> {
        let ledgers = &self.parts.ledgers;
        let (mut ledger, mut home) = ledgers.of_item(item).await.map_err(gone)?;
        let permit = ledger.concurrency.acquire_for_step(item).await;
        let mut permit = permit.ok_or(LedgerError::Contended)?;
        let mut attempt = 1;
        loop {
            let tried = self.transact(ledger, Routed { item, home }, work);
            let tried = rows::change(&ledger.breaker, tried).await;
            let error = match tried {
                Ok(done) => return Ok(done),
                Err(error) => error,
            };
            if Fault::of(&error) == Fault::Moved {
                let (there, again) = ledgers.of_item_again(item).await.map_err(gone)?;
                if again == home {
                    return Err(LedgerError::Moving);
                }
                (ledger, home) = (there, again);
                drop(permit);
                let of_there = ledger.concurrency.acquire_for_step(item).await;
                permit = of_there.ok_or(LedgerError::Contended)?;
            }
            let passes =
                matches!(Fault::of(&error), Fault::Transient | Fault::Connection | Fault::Moved);
            if !passes || rows::nothing_was_sent(&error) || attempt == ATTEMPTS_MAX {
                return Err(failed_change(&error));
            }
            let bound = PAUSE_FIRST * 2_u32.pow(attempt);
            tokio::time::sleep(bound.mul_f64(rand::random::<f64>())).await;
            attempt += 1;
        }
    }

    /// One transaction; errors are rolled back. A change is published after the COMMIT.
    async fn transact(
        &self,
        LedgerParts { pool, .. }: &LedgerParts,
        routed: Routed,
        work: &Work,
    ) -> ledger::Result<Done> {
        let mut transaction = rows::begin(pool).await?;
        let done = work.run(&self.parts.line, routed, &mut transaction).await;
        let done = transaction.end(done).await?;
        match &done {
            Done::Changed(change) | Done::Tended(change, _) => {
                self.publish(routed.item, change).await;
            }
            Done::Joined(_) | Done::Nothing => {}
        }
        Ok(done)
    }
}

fn gone(_: Unreachable) -> LedgerError {
    LedgerError::Unavailable
}

/// A change of a line.
enum Work {
    Join(Arc<Item>, UserId),
    Leave(UserId),
    Tend,
}

/// A change of a line that was made.
enum Done {
    /// Beside a new place in a long line, the number of buyers in front of it.
    Joined(Result<(Place, Option<u64>), Refusal>),
    Changed(LineChange),
    /// And whether more is to do.
    Tended(LineChange, bool),
    Nothing,
}

impl Work {
    async fn run(
        &self,
        line: &WaitingLine,
        routed: Routed,
        transaction: &mut MySqlConnection,
    ) -> ledger::Result<Done> {
        Ok(match self {
            Self::Join(item, buyer) => {
                Done::Joined(line.join(transaction, (item, routed.home), *buyer).await?)
            }
            Self::Leave(buyer) => match line.leave(transaction, routed, *buyer).await? {
                Some(change) => Done::Changed(change),
                None => Done::Nothing,
            },
            Self::Tend => {
                let (change, more) = line.tend(transaction, routed).await?;
                Done::Tended(change, more)
            }
        })
    }
}
