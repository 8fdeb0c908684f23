//! The use case: announcing a draw, entering it, and finding it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::beacon::Beacons;
use crate::problems::{self, of_entry};
use crate::sql::rows::{self, DrawEntry, DrawRow};
use crate::sql::{EntryLimit, PartyChoice, enter_in, withdraw_in};
use draw_proof::{Hash, Promise, PublicKey, Rules, ShopKeys};
use extension::Core;
use extension::ports::{AnnounceDraws, DrawPromise};
use ledger::RetryPolicy;
use ledger::cache::Cache;
use ledger::rows::draws::{beacon_of, micros};
use ledger::single_flight::SingleFlight;
use shop_domain::item::Phase;
use shop_domain::{
    ArbiterMode, Item, ItemDraw, ItemId, LedgerError, NewDraw, NewItem, Refusal, UserId,
};
use time::OffsetDateTime;
use tokio::sync::Semaphore;
use web::problem::{Problem, rfc3339};
use web::problems::INVALID_DRAW;

/// The parts of the draws.
#[derive(Clone)]
pub struct DrawParts {
    pub core: Core,
    pub beacons: Beacons,
    pub keys: Arc<ShopKeys>,
    /// From the close to the round of a new draw.
    pub round_after: Duration,
    /// About how many entries an item takes.
    pub entries_max: u64,
}

/// How old a draw may be that is shown: all pages of its buyers ask at its end.
const AGE_MAX: Duration = Duration::from_millis(250);
/// Draws that are remembered for that long, and whose entries are counted.
const REMEMBERED_MAX: usize = 1_000;
/// Pages of proofs that are read at the same time. Who reads a proof waits for a turn, so that strangers leave
/// connections to the ledger to purchases.
const PAGES_AT_ONCE: usize = 2;

/// The draws. Clones share everything.
#[derive(Clone)]
pub struct Draws {
    pub(crate) parts: DrawParts,
    found: Cache<ItemId, (Instant, DrawRow)>,
    reads: SingleFlight<ItemId, Result<Option<DrawRow>, LedgerError>>,
    signed: Cache<ItemId, Arc<SignedRules>>,
    limit: EntryLimit,
    /// The turns of [`PAGES_AT_ONCE`].
    pub(crate) pages: Arc<Semaphore>,
}

/// What promises of a draw refer to; it never changes.
struct SignedRules {
    /// The hash of the rules.
    hash: Hash,
    /// The public key in them; `None` for a draw of an earlier build.
    shop_key: Option<String>,
}

/// An entry with the promise of the shop.
pub struct PromisedEntry {
    pub entry: DrawEntry,
    /// The signed text; `None` for a draw of an earlier build, and when the key is missing.
    pub promise: Option<String>,
}

impl Draws {
    /// The draws over `parts`.
    pub fn new(parts: DrawParts) -> Self {
        let counts = Cache::new(REMEMBERED_MAX);
        Self {
            limit: EntryLimit { entries_max: parts.entries_max, counts },
            parts,
            found: Cache::new(REMEMBERED_MAX),
            reads: SingleFlight::default(),
            signed: Cache::new(REMEMBERED_MAX),
            pages: Arc::new(Semaphore::new(PAGES_AT_ONCE)),
        }
    }

    /// Enters a buyer, or moves the entry that the buyer has to the party of choice.
    pub async fn enter(
        &self,
        item: ItemId,
        buyer: UserId,
        choice: &PartyChoice,
    ) -> Result<PromisedEntry, Problem> {
        self.check(item).await?;
        let rules = self.signed_rules(item).await?;
        if rules.shop_key.as_deref().is_some_and(|key| self.parts.keys.find(key).is_none()) {
            // The settings do not have the key that the rules of the draw name, so nothing can be promised.
            return Err(problems::DRAW_KEY_MISSING.problem());
        }
        let ledger = &self.parts.core.ledger;
        let permit = &ledger.permit(item).await?;
        let limit = &self.limit;
        let entered = ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(enter_in(transaction, permit, buyer, choice, limit))
        });
        let entry = entered.await?.map_err(of_entry)?;
        Ok(self.promised(item, entry, &rules))
    }

    /// Takes the entry of a buyer back, before the close. A repetition has no further effect.
    pub async fn withdraw(&self, item: ItemId, buyer: UserId) -> Result<(), Problem> {
        self.drawn_item(item).await?;
        let ledger = &self.parts.core.ledger;
        let permit = &ledger.permit(item).await?;
        let withdrawn = ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(withdraw_in(transaction, permit, buyer))
        });
        withdrawn.await?.map_err(of_entry)
    }

    /// Finds the entry of a buyer, with the same promise as [`Self::enter`].
    pub async fn entry(
        &self,
        item: ItemId,
        buyer: UserId,
    ) -> Result<Option<PromisedEntry>, Problem> {
        let ledger = &self.parts.core.ledger;
        let found = ledger.read(rows::entry(&ledger.pool, item, buyer)).await?;
        let Some(entry) = found else { return Ok(None) };
        let rules = self.signed_rules(item).await?;
        Ok(Some(self.promised(item, entry, &rules)))
    }

    /// Counts the entries of an item's draw, the parties among them, and the entries that have their places.
    pub async fn progress(&self, item: ItemId) -> Result<(u64, u64, u32), Problem> {
        let ledger = &self.parts.core.ledger;
        let progress = ledger.read(rows::progress(&ledger.pool, item)).await?;
        Ok(progress.ok_or(&problems::NO_DRAW)?)
    }

    /// Finds the draw of an item, a moment old, and its state in the word of the API.
    pub async fn find(&self, item: ItemId) -> Result<(DrawRow, &'static str), Problem> {
        let found = self.drawn_item(item).await?;
        let draw = match self.found.get(item).filter(|(at, _)| at.elapsed() < AGE_MAX) {
            Some((_, draw)) => draw,
            None => self.read(item).await?.ok_or(&problems::NO_DRAW)?,
        };
        let now = self.parts.core.kit.clock.now();
        let state = match found.window.phase(now) {
            _ if draw.drawn_at.is_some() => "drawn",
            _ if draw.closed_at.is_some() || draw.closes_at <= now => "closed",
            Phase::Upcoming => "upcoming",
            Phase::Open | Phase::Ended => "open",
        };
        Ok((draw, state))
    }

    /// Reads a draw, once for all who ask meanwhile: strangers leave connections to the ledger to purchases.
    async fn read(&self, item: ItemId) -> Result<Option<DrawRow>, LedgerError> {
        let all = self.clone();
        let read = async move {
            let at = Instant::now();
            let ledger = &all.parts.core.ledger;
            let draw = ledger.read(rows::find(&ledger.pool, item)).await;
            if let Ok(Some(draw)) = &draw {
                all.found.insert(item, (at, draw.clone()));
            }
            draw
        };
        self.reads.run(item, || read).await
    }

    async fn signed_rules(&self, item: ItemId) -> Result<Arc<SignedRules>, Problem> {
        if let Some(known) = self.signed.get(item) {
            return Ok(known);
        }
        let draw = self.read(item).await?.ok_or(&problems::NO_DRAW)?;
        let hash = draw_proof::rules_hash(&draw.rules);
        let rules = Arc::new(SignedRules { hash, shop_key: draw.shop_key });
        self.signed.insert(item, Arc::clone(&rules));
        Ok(rules)
    }

    /// An entry with its promise, which has the same bytes each time.
    fn promised(&self, item: ItemId, entry: DrawEntry, rules: &SignedRules) -> PromisedEntry {
        let key = rules.shop_key.as_deref().and_then(|public| self.parts.keys.find(public));
        let promise = Promise {
            rules: rules.hash,
            item: item.get().unsigned_abs(),
            entry: &entry.entry,
            party: &entry.party,
            entered: micros(entry.entered_at),
        };
        let promise = key.map(|key| promise.signed(key));
        PromisedEntry { entry, promise }
    }

    /// Finds an item that is drawn, a moment old. Requests about any other item lock no row of it.
    async fn drawn_item(&self, item: ItemId) -> Result<Arc<Item>, Problem> {
        let found = self.parts.core.items.find_recent(item, AGE_MAX).await?;
        let found = found.ok_or(Refusal::ItemNotFound)?;
        if found.draw.is_none() {
            return Err(problems::NO_DRAW.problem());
        }
        Ok(found)
    }

    /// Refuses an entry before the sale or while it is paused. The ledger's clock decides on the close.
    async fn check(&self, item: ItemId) -> Result<(), Problem> {
        let item = self.drawn_item(item).await?;
        match item.check_open(self.parts.core.kit.clock.now()) {
            Ok(()) | Err(Refusal::SaleEnded) => Ok(()),
            Err(refusal) => Err(refusal.into()),
        }
    }
}

impl AnnounceDraws for Draws {
    fn announce(&self, item: &NewItem, promise: DrawPromise) -> Result<NewDraw, Problem> {
        let key = self.parts.keys.current().ok_or(&problems::DRAW_KEY_MISSING)?;
        let draw = self.new_draw(item, promise, key.public().to_string());
        let draw = draw.ok_or(&INVALID_DRAW)?;
        let ends_min = ends_min(&draw, item.offer_seconds).ok_or(&INVALID_DRAW)?;
        if item.window.ends_at() < ends_min {
            let detail = format!(
                "Send ends_at of {} or later, so that the first places can use all of their offer time.",
                rfc3339(ends_min)
            );
            return Err(INVALID_DRAW.detail(detail));
        }
        Ok(draw)
    }
}

/// The earliest end of a sale: the first offers, which are made after the round, are over.
fn ends_min(draw: &NewDraw, offer_seconds: u32) -> Option<OffsetDateTime> {
    let round = beacon_of(draw.beacon).time_of(draw.round);
    let round = OffsetDateTime::from_unix_timestamp_nanos(i128::from(round) * 1_000).ok()?;
    round.checked_add(time::Duration::seconds(offer_seconds.into()))
}

impl Draws {
    /// What a new draw promises; `None` if the item cannot be drawn, or not so.
    fn new_draw(&self, item: &NewItem, promise: DrawPromise, shop_key: String) -> Option<NewDraw> {
        let DrawPromise { closes_at, party_max } = promise;
        // As exact as the ledger keeps it.
        let whole_micros = closes_at.microsecond() * 1_000;
        let closes_at = closes_at.replace_nanosecond(whole_micros).ok()?;
        let fits = ItemDraw { closes_at, is_drawn: false }.fits(item.window);
        // The value of a round that is over is known.
        let fits = fits && closes_at > self.parts.core.kit.clock.now();
        let is_possible = item.arbiter == ArbiterMode::On && item.offer_seconds > 0;
        let beacon = self.parts.beacons.of_new_draws();
        let round_after = time::Duration::try_from(self.parts.round_after).ok()?;
        let after = closes_at.checked_add(round_after)?.unix_timestamp();
        let round = beacon_of(beacon).round_at(u64::try_from(after).ok()?);
        let draw = NewDraw { closes_at, beacon, round, shop_key, party_max, rules };
        // The item has no id yet.
        let is_sound = rules(&draw, ItemId::generate(), item.stock).is_some();
        (fits && is_possible && is_sound).then_some(draw)
    }
}

/// The rules of a draw as they are published; `None` for those that no checker would take.
fn rules(draw: &NewDraw, item: ItemId, units: i64) -> Option<String> {
    let rules = Rules {
        shop: PublicKey::parse(&draw.shop_key)?,
        item: u64::try_from(item.get()).ok()?,
        units: u64::try_from(units).ok()?,
        party_max: draw.party_max,
        closes: micros(draw.closes_at),
        beacon: beacon_of(draw.beacon),
        round: draw.round,
    };
    rules.text()
}
