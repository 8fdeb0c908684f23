//! The use case: announcing a draw, entering it, and finding it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::advance::HeldDraws;
use crate::beacon::Beacons;
use extension::ports::{AnnounceDraws, DrawPromise, Items, WaitingLists};
use ledger::cache::Cache;
use ledger::rows::draws;
use shop_domain::window::Phase;
use shop_domain::{
    ArbiterMode, Clock, DrawEntry, DrawState, ItemDraw, ItemId, LedgerError, NewDraw, NewItem,
    PARTY_MAX, PartyChoice, Refusal, UserId,
};

pub use ledger::draw::EntryRefusal;
pub use ledger::rows::draws::DrawRow;

/// The reason why an entry did not change; nothing changed unless the ledger did not answer.
#[derive(Debug, thiserror::Error)]
pub enum EntryError {
    /// The buyer cannot enter or withdraw.
    #[error("refused: {0:?}")]
    Refused(EntryRefusal),
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

const NO_DRAW: EntryError = EntryError::Refused(EntryRefusal::NoDraw);
const ITEM_NOT_FOUND: EntryError =
    EntryError::Refused(EntryRefusal::Purchase(Refusal::ItemNotFound));

/// The parts of the draws.
#[derive(Clone)]
pub struct DrawParts {
    pub transactions: Arc<ledger::draw::Draws>,
    pub items: Arc<dyn Items>,
    pub lists: Arc<dyn WaitingLists>,
    pub clock: Clock,
    pub beacons: Beacons,
    /// From the close to the round of a new draw.
    pub round_after: Duration,
}

/// How old a draw may be that is shown: all pages of its buyers ask at its end.
const AGE_MAX: Duration = Duration::from_millis(250);
/// Draws that are remembered for that long.
const REMEMBERED_MAX: usize = 1_000;

/// The draws. Clones share everything.
#[derive(Clone)]
pub struct Draws {
    pub(crate) parts: DrawParts,
    found: Cache<ItemId, (Instant, DrawRow)>,
    pub(crate) held: Arc<HeldDraws>,
}

impl Draws {
    /// The draws over `parts`.
    #[must_use]
    pub fn new(parts: DrawParts) -> Self {
        Self { parts, found: Cache::new(REMEMBERED_MAX), held: Arc::default() }
    }

    /// Enters a buyer, or moves the entry that the buyer has to the party of choice.
    pub async fn enter(
        &self,
        item: ItemId,
        buyer: UserId,
        choice: &PartyChoice,
    ) -> Result<DrawEntry, EntryError> {
        self.check(item).await?;
        let entered = self.parts.transactions.enter(item, buyer, choice).await?;
        entered.map_err(EntryError::Refused)
    }

    /// Takes the entry of a buyer back, before the close.
    pub async fn withdraw(&self, item: ItemId, buyer: UserId) -> Result<(), EntryError> {
        let withdrawn = self.parts.transactions.withdraw(item, buyer).await?;
        withdrawn.map_err(EntryError::Refused)
    }

    /// Finds the entry of a buyer.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn entry(
        &self,
        item: ItemId,
        buyer: UserId,
    ) -> Result<Option<DrawEntry>, LedgerError> {
        let ledger = self.parts.transactions.ledger();
        ledger.read(draws::entry(&ledger.pool, item, buyer)).await
    }

    /// Counts the entries of an item's draw, the parties among them, and the entries that have their places.
    pub async fn progress(&self, item: ItemId) -> Result<(u64, u64, u32), EntryError> {
        let ledger = self.parts.transactions.ledger();
        let progress = ledger.read(draws::progress(&ledger.pool, item)).await?;
        progress.ok_or(NO_DRAW)
    }

    /// Finds the draw of an item, a moment old, and its state.
    pub async fn find(&self, item: ItemId) -> Result<(DrawRow, DrawState), EntryError> {
        let found = self.parts.items.find_recent(item, AGE_MAX).await?;
        let found = found.ok_or(ITEM_NOT_FOUND)?;
        let draw = match self.found.get(item).filter(|(at, _)| at.elapsed() < AGE_MAX) {
            Some((_, draw)) => draw,
            None => self.read(item).await?.ok_or(NO_DRAW)?,
        };
        let now = self.parts.clock.now();
        let state = match found.window.phase(now) {
            _ if draw.drawn_at.is_some() => DrawState::Drawn,
            _ if draw.closed_at.is_some() || draw.closes_at <= now => DrawState::Closed,
            Phase::Upcoming => DrawState::Upcoming,
            Phase::Open | Phase::Ended => DrawState::Open,
        };
        Ok((draw, state))
    }

    async fn read(&self, item: ItemId) -> Result<Option<DrawRow>, LedgerError> {
        let at = Instant::now();
        let ledger = self.parts.transactions.ledger();
        let draw: Option<DrawRow> = ledger.read(draws::find(&ledger.pool, item)).await?;
        if let Some(draw) = &draw {
            self.found.insert(item, (at, draw.clone()));
        }
        Ok(draw)
    }

    /// Refuses an entry before the sale or while it is paused. The ledger's clock decides on the close.
    async fn check(&self, item: ItemId) -> Result<(), EntryError> {
        let found = self.parts.items.find_recent(item, Duration::from_millis(500)).await?;
        let item = found.ok_or(ITEM_NOT_FOUND)?;
        if item.draw.is_none() {
            return Err(NO_DRAW);
        }
        match item.check_open(self.parts.clock.now()) {
            Ok(()) | Err(Refusal::SaleEnded) => Ok(()),
            Err(refusal) => Err(EntryError::Refused(EntryRefusal::Purchase(refusal))),
        }
    }
}

impl AnnounceDraws for Draws {
    fn announce(&self, item: &NewItem, promise: DrawPromise) -> Option<NewDraw> {
        let DrawPromise { closes_at, party_max } = promise;
        // As exact as the ledger keeps it.
        let micros = closes_at.microsecond() * 1_000;
        let closes_at = closes_at.replace_nanosecond(micros).ok()?;
        let fits = ItemDraw { closes_at, is_drawn: false }.fits(item.window);
        let is_possible = item.arbiter == ArbiterMode::On && item.offer_seconds > 0;
        let seed = rand::random();
        let beacon = self.parts.beacons.of_new_draws();
        let signer = draw_proof::Beacon::of(beacon.as_str(), &seed)?;
        let after = (closes_at + self.parts.round_after).unix_timestamp();
        let round = signer.round_at(u64::try_from(after).ok()?);
        let is_possible = is_possible && (1..=PARTY_MAX).contains(&party_max);
        (fits && is_possible).then_some(NewDraw { closes_at, beacon, round, seed, party_max })
    }
}
