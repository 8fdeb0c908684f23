//! The router: which ledger an item lives in, and the parts of the service that each ledger has.
//!
//! The home ledger's table `item_homes` says where each item lives. A route is remembered for as long as
//! an item may be, and while the home ledger does not answer, for longer: it is never trusted, since
//! every write names its epoch (`write/stock.rs`). With one ledger nothing is read.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::Database;
use futures::FutureExt;
use tokio::time::{Instant, timeout};

use super::Unreachable;
use super::breaker::Breaker;
use super::cache::Cache;
use super::gathered::GatheredReads;
use crate::rows::{self, RowAt, homes};
use shop_domain::{Home, ItemId, ItemRoute, LedgerError, OrderId, ShardId};

/// Items whose homes are remembered.
const REMEMBERED_MAX: usize = 100_000;
/// How long a home that is known is waited for before the known one is used again.
const WAIT_MAX: Duration = Duration::from_millis(250);

/// How long one of several ledgers may take for its part of a list; then the list is not complete. A move
/// leaves its rows at the source for longer, so that no list misses an order in both ledgers.
pub const PART_OF_LIST_MAX: Duration = Duration::from_secs(1);

/// Ledgers that are asked, one after the other, for an item that moves again and again.
pub const ROUTE_ATTEMPTS_MAX: u32 = 3;

/// An error of a write that was sent to the ledger in which its item is thought to live.
pub trait RoutedError: From<LedgerError> {
    /// Whether the item may live in another ledger; nothing was written then.
    fn may_have_moved(&self) -> bool;
}

impl RoutedError for LedgerError {
    fn may_have_moved(&self) -> bool {
        *self == Self::Moving
    }
}

/// Where items live. Clones share what they remember.
#[derive(Clone)]
pub struct Homes {
    /// `None` while there is one ledger.
    parts: Option<Arc<HomesParts>>,
}

struct HomesParts {
    pool: Database,
    breaker: Breaker,
    /// Ledgers that are configured.
    ledgers: usize,
    age_max: Duration,
    known: Cache<ItemId, KnownHome>,
    reads: GatheredReads<homes::Row>,
}

#[derive(Clone, Copy)]
struct KnownHome {
    home: Home,
    read_at: Instant,
    /// The last try to read it again.
    asked_at: Instant,
}

impl Homes {
    /// Every item lives in the only ledger.
    #[must_use]
    pub fn only() -> Self {
        Self { parts: None }
    }

    /// Homes in one of several `ledgers`, read from the home ledger behind `pool` and its `breaker`, and
    /// remembered for `age_max`.
    #[must_use]
    pub fn new(pool: Database, breaker: Breaker, ledgers: usize, age_max: Duration) -> Self {
        if ledgers <= 1 {
            return Self::only();
        }
        let (reading, asked) = (pool.clone(), breaker.clone());
        let reads = GatheredReads::new(move |ids: Vec<ItemId>| {
            let (pool, breaker) = (reading.clone(), asked.clone());
            async move {
                let read = rows::ask(&breaker, homes::find_several(&pool, &ids)).await;
                let mut read = read.map_err(|error| {
                    if !breaker.is_open() {
                        tracing::warn!(%error, items = ids.len(), "homes of items not read");
                    }
                    Unreachable
                })?;
                let row = |id| (id, Ok(read.remove(&id).unwrap_or((ShardId::HOME, 1))));
                Ok(ids.into_iter().map(row).collect())
            }
            .boxed()
        });
        let known = Cache::new(REMEMBERED_MAX);
        Self { parts: Some(Arc::new(HomesParts { pool, breaker, ledgers, age_max, known, reads })) }
    }

    /// Whether there is one ledger.
    #[must_use]
    pub fn is_only(&self) -> bool {
        self.parts.is_none()
    }

    /// Finds where an item lives; an item that does not exist would live in the home ledger.
    ///
    /// # Errors
    /// When the home ledger does not answer and the home is not known, or the settings do not name its
    /// ledger.
    pub async fn find(&self, item: ItemId) -> Result<Home, Unreachable> {
        let Some(parts) = &self.parts else { return Ok(Home::ONLY) };
        let known = parts.known.get(item);
        match known {
            Some(known) if known.asked_at.elapsed() < parts.age_max => Ok(known.home),
            Some(known) => match timeout(WAIT_MAX, parts.read(item)).await {
                Ok(Ok(home)) => Ok(home),
                Ok(Err(_)) | Err(_) => {
                    parts.known.insert(item, KnownHome { asked_at: Instant::now(), ..known });
                    Ok(known.home)
                }
            },
            None => parts.read(item).await,
        }
    }

    /// Reads again where an item lives, after a write found it moved.
    ///
    /// # Errors
    /// As for [`Homes::find`], whatever was known.
    pub async fn find_again(&self, item: ItemId) -> Result<Home, Unreachable> {
        match &self.parts {
            Some(parts) => parts.read(item).await,
            None => Ok(Home::ONLY),
        }
    }

    /// Finds where several items live, with one statement for those that are not known.
    pub async fn find_several(
        &self,
        items: impl IntoIterator<Item = ItemId>,
    ) -> Result<HashMap<ItemId, Home>, Unreachable> {
        let found = items.into_iter().map(async |item| Ok((item, self.find(item).await?)));
        futures::future::try_join_all(found).await.map(|found| found.into_iter().collect())
    }

    /// Whether a row that was read in `shard` is the one that counts. A move leaves rows behind at its source
    /// for a while, and writes them at its target before the flip; there the stock row has another epoch.
    ///
    /// # Errors
    /// As for [`Homes::find_again`], where the route that is known has another epoch.
    pub async fn holds<T>(&self, shard: ShardId, row: &RowAt<T>) -> Result<bool, Unreachable> {
        let (false, Some(item)) = (self.is_only(), row.item) else { return Ok(true) };
        // An epoch is used once, so a route of the same epoch is right, however old it is.
        let known = self.find(item).await?;
        if known.shard == shard && row.home_epoch == Some(known.epoch) {
            return Ok(true);
        }
        // Read after the row. If the item still lives here, it was closed for a move: nothing has changed.
        let now = self.find_again(item).await?;
        Ok(now.shard == shard && row.home_epoch >= Some(now.epoch))
    }

    /// Keeps those of the `items` that live in `shard`, with the route to them.
    pub async fn routed_in(
        &self,
        shard: ShardId,
        items: Vec<ItemId>,
    ) -> Result<Vec<ItemRoute>, Unreachable> {
        if self.is_only() {
            return Ok(items.into_iter().map(ItemRoute::only).collect());
        }
        let homes = self.find_several(items.iter().copied()).await?;
        let here = |item: ItemId| {
            let home = homes.get(&item).copied().filter(|home| home.shard == shard)?;
            Some(ItemRoute { item, home })
        };
        Ok(items.into_iter().filter_map(here).collect())
    }

    /// The home ledger, to write where a new item lives.
    #[must_use]
    pub fn ledger(&self) -> Option<(&Database, &Breaker)> {
        self.parts.as_ref().map(|parts| (&parts.pool, &parts.breaker))
    }
}

impl HomesParts {
    async fn read(&self, item: ItemId) -> Result<Home, Unreachable> {
        let (shard, epoch) = self.reads.read(item).await?.unwrap_or((ShardId::HOME, 1));
        if shard.index() >= self.ledgers {
            tracing::error!(%item, %shard, "item lives in a ledger that the settings do not name");
            return Err(Unreachable);
        }
        let home = Home { shard, epoch, is_only: false };
        let now = Instant::now();
        // Two reads may end in either order; an epoch never falls.
        match self.known.get(item) {
            Some(known) if known.home.epoch > epoch && known.read_at.elapsed() < self.age_max => {
                Ok(known.home)
            }
            _ => {
                self.known.insert(item, KnownHome { home, read_at: now, asked_at: now });
                Ok(home)
            }
        }
    }
}

impl fmt::Debug for Homes {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ledgers = self.parts.as_ref().map_or(1, |parts| parts.ledgers);
        write!(formatter, "Homes({ledgers} ledgers)")
    }
}

/// One `T` for each ledger, and the way from an item to its ledger's. Clones share them.
pub struct Shards<T> {
    homes: Homes,
    each: Arc<[T]>,
}

impl<T> Shards<T> {
    /// The only ledger's.
    #[must_use]
    pub fn only(part: T) -> Self {
        Self { homes: Homes::only(), each: Arc::new([part]) }
    }

    /// Those of all ledgers, in the order of their numbers.
    #[must_use]
    pub fn new(homes: Homes, each: Vec<T>) -> Self {
        assert!(!each.is_empty(), "there is a home ledger");
        Self { homes, each: each.into() }
    }

    /// Makes something else of each ledger; the routes stay.
    #[must_use]
    pub fn map<U>(&self, make: impl FnMut(&T) -> U) -> Shards<U> {
        Shards { homes: self.homes.clone(), each: self.each.iter().map(make).collect() }
    }

    /// Makes something else of each ledger and its number; the routes stay.
    #[must_use]
    pub fn map_numbered<U>(&self, mut make: impl FnMut(ShardId, &T) -> U) -> Shards<U> {
        let each = self.iter().map(|(shard, one)| make(shard, one)).collect();
        Shards { homes: self.homes.clone(), each }
    }

    /// Where items live.
    #[must_use]
    pub fn homes(&self) -> &Homes {
        &self.homes
    }

    /// Finds an item's ledger, and the route to it.
    pub async fn of_item(&self, item: ItemId) -> Result<(&T, Home), Unreachable> {
        let home = self.homes.find(item).await?;
        Ok((self.at(home.shard), home))
    }

    /// The new route to an item, if something that was read by the route `home` may be out of date: its
    /// stock row, read after everything else, had this `epoch`. `None` when the read counts.
    pub async fn moved_since(
        &self,
        item: ItemId,
        home: Home,
        epoch: Option<u64>,
    ) -> Result<Option<Home>, Unreachable> {
        if home.is_only || epoch == Some(home.epoch) {
            return Ok(None);
        }
        let now = self.homes.find_again(item).await?;
        // The same home: closed for a move, so nothing has changed.
        Ok((now != home).then_some(now))
    }

    /// Reads something of an item in the ledger in which the item lives. `read` gets the ledger and the
    /// route to the item, and returns the value with the epoch of the item's stock row, which it reads last.
    /// If the item has moved meanwhile, `read` runs again at the new ledger.
    ///
    /// # Errors
    /// Those of `read`; [`LedgerError::Unavailable`] when the home ledger does not answer, and
    /// [`LedgerError::Moving`] when the item moves again and again.
    pub async fn read<'a, R, E, F>(
        &'a self,
        item: ItemId,
        read: impl Fn(&'a T, Home) -> F,
    ) -> Result<R, E>
    where
        E: From<LedgerError>,
        F: Future<Output = Result<(R, Option<u64>), E>>,
    {
        let home = self.homes.find(item).await.map_err(LedgerError::from)?;
        self.read_by(ItemRoute { item, home }, read).await
    }

    /// Reads like [`Shards::read`], and begins with a route that the caller knows.
    pub async fn read_by<'a, R, E, F>(
        &'a self,
        ItemRoute { item, mut home }: ItemRoute,
        read: impl Fn(&'a T, Home) -> F,
    ) -> Result<R, E>
    where
        E: From<LedgerError>,
        F: Future<Output = Result<(R, Option<u64>), E>>,
    {
        for _ in 0..ROUTE_ATTEMPTS_MAX {
            let (value, epoch) = read(self.at(home.shard), home).await?;
            match self.moved_since(item, home, epoch).await.map_err(LedgerError::from)? {
                Some(now) => home = now,
                None => return Ok(value),
            }
        }
        Err(LedgerError::Moving.into())
    }

    /// Writes something of an item in the ledger in which the item lives. `write` gets the ledger and the
    /// route to the item; it runs again when it finds that the item has moved to another ledger.
    ///
    /// # Errors
    /// Those of `write`; [`LedgerError::Unavailable`] when the home ledger does not answer.
    pub async fn write<'a, R, E, F>(
        &'a self,
        item: ItemId,
        write: impl Fn(&'a T, Home) -> F,
    ) -> Result<R, E>
    where
        E: RoutedError,
        F: Future<Output = Result<R, E>>,
    {
        let mut home = self.homes.find(item).await.map_err(LedgerError::from)?;
        let mut attempt = 1;
        loop {
            match write(self.at(home.shard), home).await {
                Err(error) if error.may_have_moved() && attempt < ROUTE_ATTEMPTS_MAX => {
                    let again = self.homes.find_again(item).await.map_err(LedgerError::from)?;
                    if again == home {
                        // It is closed for a move, or does not exist.
                        return Err(error);
                    }
                    home = again;
                    attempt += 1;
                }
                written => return written,
            }
        }
    }

    /// The ledger with a number that a route names.
    #[must_use]
    pub fn at(&self, shard: ShardId) -> &T {
        // A route names a ledger of the settings.
        self.each.get(shard.index()).unwrap_or_else(|| self.home())
    }

    /// The home ledger's.
    #[must_use]
    pub fn home(&self) -> &T {
        &self.each[0]
    }

    /// The only one; `None` when there are several.
    #[must_use]
    pub fn if_only(&self) -> Option<&T> {
        if self.each.len() == 1 { self.each.first() } else { None }
    }

    /// All, each with its number.
    pub fn iter(&self) -> impl Iterator<Item = (ShardId, &T)> {
        let number = |index| u16::try_from(index).ok().and_then(ShardId::new).unwrap_or_default();
        self.each.iter().enumerate().map(move |(index, one)| (number(index), one))
    }

    /// The one that an order's id names, and then all others.
    pub fn hinted_first(&self, order: OrderId) -> impl Iterator<Item = (ShardId, &T)> {
        let hint = order.shard_hint();
        let first = self.iter().filter(move |(shard, _)| *shard == hint);
        first.chain(self.iter().filter(move |(shard, _)| *shard != hint))
    }
}

impl<T> Clone for Shards<T> {
    fn clone(&self) -> Self {
        Self { homes: self.homes.clone(), each: Arc::clone(&self.each) }
    }
}
