//! The opening: who waits when a sale opens gets a place by chance, which anybody can check.
//!
//! The shop commits itself to a secret seed before the first buyer joins. At the opening the list of
//! the buyers is fixed in Redis. Any instance then publishes its root, waits for the value of the
//! beacon, computes the shuffle of the crate `draw-proof`, and writes the places. All of it follows
//! from what was fixed before, so another instance goes on where one was killed.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use time::OffsetDateTime;

use super::room_life;
use crate::draw::Beacons;
use draw_proof::Entry;
use gates::redis_store::Room;
use ledger::opening::{Opening, Openings as LedgerOpenings};
use ledger::route::Shards;
use ledger::route::cache::Cache;
use shop_domain::{Clock, Item, ItemId, ItemRoute, LedgerError, NewDraw, UserId};

/// Openings that are known to be announced.
const ANNOUNCED_MAX: usize = 10_000;
/// How old an opening may be that is shown: everybody may ask for it.
const AGE_MAX: Duration = Duration::from_millis(250);
/// Openings that are remembered for that long.
const FOUND_MAX: usize = 1_000;
/// Lists with places that are remembered: each has some megabytes at most.
const LISTS_MAX: usize = 8;

/// The openings of all items. Clones share everything.
#[derive(Clone)]
pub struct Openings {
    parts: Arc<OpeningParts>,
    announced: Cache<(ItemId, OffsetDateTime), ()>,
    found: Cache<(ItemId, OffsetDateTime), (Instant, Opening)>,
    lists: Cache<(ItemId, OffsetDateTime), Arc<str>>,
    /// Items whose places are being drawn by this instance.
    drawing: Arc<Mutex<HashSet<ItemId>>>,
}

/// The parts of the openings.
pub struct OpeningParts {
    pub ledgers: Shards<LedgerOpenings>,
    pub beacons: Beacons,
    pub room: Room,
    pub clock: Clock,
    /// From the opening to the round of the beacon.
    pub round_after: Duration,
}

/// The reason why the places are not known.
#[derive(Debug, thiserror::Error)]
enum OpeningError {
    #[error(transparent)]
    Ledger(#[from] LedgerError),
    #[error("the waiting room does not answer: {0}")]
    Redis(#[from] redis::RedisError),
    #[error("the beacon's value cannot be read: {0}")]
    Beacon(String),
    #[error("what was published is damaged")]
    Damaged,
}

impl Openings {
    #[must_use]
    pub fn new(parts: OpeningParts) -> Self {
        Self {
            parts: Arc::new(parts),
            announced: Cache::new(ANNOUNCED_MAX),
            found: Cache::new(FOUND_MAX),
            lists: Cache::new(LISTS_MAX),
            drawing: Arc::default(),
        }
    }

    /// Commits the shop to the seed of an opening, unless it is committed.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn announce(&self, item: &Item) -> Result<(), LedgerError> {
        let key = (item.id, item.window.starts_at());
        if self.announced.get(key).is_none() {
            self.find_or_announce(item).await?;
            self.announced.insert(key, ());
        }
        Ok(())
    }

    /// Finds the opening of an item, a moment old, and announces it if it is still to come.
    ///
    /// # Errors
    /// When the ledger does not answer.
    pub async fn find_or_announce(&self, item: &Item) -> Result<Option<Opening>, LedgerError> {
        let (at, opens_at) = (Instant::now(), item.window.starts_at());
        let key = (item.id, opens_at);
        if let Some((_, found)) = self.found.get(key).filter(|(at, _)| at.elapsed() < AGE_MAX) {
            return Ok(Some(found));
        }
        let mut found = self.find(item.id, opens_at).await?;
        if found.is_none() && opens_at > self.parts.clock.now() {
            found = self.commit(item, opens_at).await?;
        }
        if let Some(found) = &found {
            self.found.insert(key, (at, found.clone()));
        }
        Ok(found)
    }

    /// Commits the shop to a new seed, with a round after `from`.
    async fn commit(
        &self,
        item: &Item,
        from: OffsetDateTime,
    ) -> Result<Option<Opening>, LedgerError> {
        let opens_at = item.window.starts_at();
        let (seed, beacon) = (rand::random(), self.parts.beacons.of_new_draws());
        let signer = draw_proof::Beacon::of(beacon.as_str(), &seed);
        let after = u64::try_from((from + self.parts.round_after).unix_timestamp()).ok();
        let round = signer.zip(after).map(|(signer, at)| signer.round_at(at));
        let round = round.unwrap_or_default();
        let new = NewDraw { closes_at: opens_at, beacon, round, seed, party_max: 1 };
        let written = self.parts.ledgers.write(item.id, |openings, home| {
            openings.announce(ItemRoute { item: item.id, home }, &new)
        });
        written.await?;
        self.find(item.id, opens_at).await
    }

    async fn find(
        &self,
        item: ItemId,
        opens_at: OffsetDateTime,
    ) -> Result<Option<Opening>, LedgerError> {
        let ledgers = &self.parts.ledgers;
        ledgers.read(item, |openings, home| openings.find(item, home, opens_at)).await
    }

    /// Draws the places of an item whose sale has opened, beside the requests, once at a time. Polls ask
    /// for it until the places are there.
    pub fn draw(&self, item: &Item) {
        if !self.drawing().insert(item.id) {
            return;
        }
        let (openings, worker, item) = (self.clone(), self.clone(), item.clone());
        tokio::spawn(async move {
            let id = item.id;
            // On a task of its own, so that a panic is an end, too.
            let drawn = tokio::spawn(async move { worker.draw_places(&item).await }).await;
            openings.drawing().remove(&id);
            if let Ok(Err(error)) = drawn {
                tracing::warn!(%error, item = %id, "places not drawn; the next poll tries again");
            }
        });
    }

    fn drawing(&self) -> MutexGuard<'_, HashSet<ItemId>> {
        self.drawing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn draw_places(&self, item: &Item) -> Result<(), OpeningError> {
        let parts = &self.parts;
        let (id, opens_at) = (item.id, item.window.starts_at());
        let opening = match self.find(id, opens_at).await? {
            Some(opening) => opening,
            // The start was moved to an earlier time, and nobody has polled in between.
            None => {
                let late = self.commit(item, parts.clock.now()).await?;
                late.ok_or(OpeningError::Damaged)?
            }
        };
        if opening.listed_at.is_none() {
            let Some(entries) = self.entries(id).await? else { return Ok(()) };
            let leaves = leaves(&entries);
            let root = blocking(move || draw_proof::root(&leaves)).await?;
            let listed = parts.ledgers.write(id, |openings, home| {
                openings.list(ItemRoute { item: id, home }, opens_at, (entries.len(), &root))
            });
            listed.await?;
        }
        if opening.beacon_value.is_none() {
            let seed = bytes(&opening.seed).ok_or(OpeningError::Damaged)?;
            let round = (opening.beacon, opening.round, &seed);
            let value = parts.beacons.value(round, parts.clock.now()).await;
            let Some((signature, value)) = value.map_err(OpeningError::Beacon)? else {
                return Ok(());
            };
            let taken = parts.ledgers.write(id, |openings, home| {
                openings.take_value(ItemRoute { item: id, home }, opens_at, (&signature, &value))
            });
            taken.await?;
        }
        let opening = self.find(id, opens_at).await?.ok_or(OpeningError::Damaged)?;
        let Some(entries) = self.entries(id).await? else { return Ok(()) };
        let ordered = in_order(opening, entries).await?;
        let buyers: Vec<UserId> = ordered.iter().map(|(_, buyer)| *buyer).collect();
        let life = room_life(item, parts.clock.now());
        Ok(parts.room.place(item.id, &buyers, parts.clock.shifted(), life).await?)
    }

    /// The fixed list, by the ids of its entries; `None` while it can still change.
    async fn entries(&self, item: ItemId) -> Result<Option<Vec<(Entry, UserId)>>, OpeningError> {
        let Some(early) = self.parts.room.early(item).await? else { return Ok(None) };
        entries_of(early).ok_or(OpeningError::Damaged).map(Some)
    }

    /// The published list with its places, as the lines of a proof; empty while they are not known, and
    /// when the list was lost with Redis.
    pub async fn lines(&self, item: &Item, opening: &Opening) -> Arc<str> {
        let key = (item.id, opening.opens_at);
        if let Some(lines) = self.lists.get(key) {
            return lines;
        }
        match self.read_lines(item, opening).await {
            Ok(Some(lines)) => {
                self.lists.insert(key, Arc::clone(&lines));
                lines
            }
            Ok(None) => Arc::from(""),
            Err(error) => {
                tracing::warn!(%error, item = %item.id, "list of a waiting room not read");
                Arc::from("")
            }
        }
    }

    async fn read_lines(
        &self,
        item: &Item,
        opening: &Opening,
    ) -> Result<Option<Arc<str>>, OpeningError> {
        if opening.beacon_value.is_none() {
            return Ok(None);
        }
        let Some(entries) = self.entries(item.id).await? else { return Ok(None) };
        let ordered = in_order(opening.clone(), entries).await?;
        let mut places: Vec<(Entry, usize)> =
            ordered.into_iter().zip(1..).map(|((entry, _), place)| (entry, place)).collect();
        places.sort_unstable();
        let line = |(entry, place): &(Entry, usize)| {
            format!("{{\"entry\":\"{}\",\"place\":{place}}}\n", hex::encode(entry.id))
        };
        Ok(Some(places.iter().map(line).collect::<String>().into()))
    }
}

/// The entries with their buyers, by their ids.
fn entries_of(early: BTreeMap<UserId, String>) -> Option<Vec<(Entry, UserId)>> {
    let entry = |(buyer, id): (UserId, String)| {
        let id = bytes(&id)?;
        Some((Entry { id, party: id }, buyer))
    };
    let mut entries: Vec<(Entry, UserId)> = early.into_iter().map(entry).collect::<Option<_>>()?;
    entries.sort_unstable_by_key(|(entry, _)| *entry);
    Some(entries)
}

/// The entries, which are sorted by their ids, in the sequence of their places.
async fn in_order(
    opening: Opening,
    entries: Vec<(Entry, UserId)>,
) -> Result<Vec<(Entry, UserId)>, OpeningError> {
    let known = |text: &Option<String>| text.as_deref().and_then(bytes::<32>);
    let (seed, value, root) =
        (bytes::<32>(&opening.seed), known(&opening.beacon_value), known(&opening.root));
    let (Some(seed), Some(value), Some(root)) = (seed, value, root) else {
        return Err(OpeningError::Damaged);
    };
    blocking(move || {
        let ordered = draw_proof::shuffle(&seed, &value, &root, &leaves(&entries));
        let buyer = |entry: Entry| {
            let at = entries.binary_search_by_key(&entry, |(entry, _)| *entry).ok()?;
            Some((entry, entries[at].1))
        };
        ordered.into_iter().filter_map(buyer).collect()
    })
    .await
}

fn leaves(entries: &[(Entry, UserId)]) -> Vec<Entry> {
    entries.iter().map(|(entry, _)| *entry).collect()
}

/// Computes for long, beside the requests.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, OpeningError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| OpeningError::Damaged)
}

fn bytes<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    hex::decode(text).ok()?.try_into().ok()
}
