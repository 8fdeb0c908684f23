//! The shop's list: of every ledger, together.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};
use std::time::Duration;

use futures::future::join_all;
use time::OffsetDateTime;
use tokio::time::{Instant, timeout};

use super::{AGE_MAX, Catalog, CatalogLedger, CatalogRead, StockedItem};
use ledger::Ledger;
use ledger::route::Unreachable;
use ledger::route::shards::PART_OF_LIST_MAX;
use ledger::rows::items::LIST_MAX;
use ledger::rows::{self, RowAt, items};
use shop_domain::{ProductId, ShardId};

/// How long a sale stays on the shop's list after its end.
const LISTED_AFTER_END: time::Duration = time::Duration::DAY;

/// A list, and the time of its read.
type DatedList = (Vec<StockedItem>, Instant);

/// What a list has.
#[derive(Clone, Copy)]
pub(super) enum Listed {
    /// The shop's sales that ended after this time.
    Shop(OffsetDateTime),
    /// The items of a product.
    Product(ProductId),
}

/// The last list of one ledger.
#[derive(Default)]
pub(super) struct ShopList(RwLock<Option<DatedList>>);

impl Catalog {
    /// Reads the shop's sales that are not over for longer than a day, soonest end first, as
    /// [`Catalog::find`] reads an item. Of several ledgers, one that does not answer is shown as it was,
    /// or left out.
    ///
    /// # Errors
    /// When no ledger answers and the list was not read lately.
    pub async fn list_shop(
        &self,
        now: OffsetDateTime,
    ) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        self.list(Listed::Shop(now - LISTED_AFTER_END)).await
    }

    /// Reads a list of every ledger.
    pub(super) async fn list(
        &self,
        listed: Listed,
    ) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        if let Some(ledger) = self.ledgers.if_only() {
            return ledger.list(listed).await;
        }
        let lists = self.ledgers.iter().map(async |(shard, ledger)| {
            let part = match timeout(PART_OF_LIST_MAX, ledger.list(listed)).await {
                Ok(part) => part,
                Err(_) => ledger.last(listed),
            };
            (shard, part)
        });
        let (mut all, mut age, mut answered) = (Vec::new(), None, false);
        let mut doubtful = BTreeSet::new();
        for (shard, listed) in join_all(lists).await {
            match listed {
                Ok(listed) => {
                    answered = true;
                    age = age.max(listed.age);
                    for stocked in listed.value {
                        let id = stocked.item.id;
                        match self.at_home(shard, stocked).await {
                            Some(stocked) => all.push(stocked),
                            None => {
                                doubtful.insert(id);
                            }
                        }
                    }
                }
                // Its items are missing, so the list is not whole.
                Err(Unreachable) => age = age.max(Some(Duration::ZERO)),
            }
        }
        if !answered {
            return Err(Unreachable);
        }
        // A move has left them behind, or has copied them and not flipped.
        for id in doubtful {
            if all.iter().any(|stocked| stocked.item.id == id) {
                continue;
            }
            match self.find(id).await {
                Ok(CatalogRead { value, age: found_age }) => {
                    age = age.max(found_age);
                    all.extend(value);
                }
                Err(Unreachable) => age = age.max(Some(Duration::ZERO)),
            }
        }
        all.sort_by_key(|stocked| (stocked.item.window.ends_at(), stocked.item.id));
        all.truncate(LIST_MAX as usize);
        Ok(CatalogRead { value: all, age })
    }

    /// An item of the list of `shard`, with its route, if it lives there.
    async fn at_home(&self, shard: ShardId, stocked: StockedItem) -> Option<StockedItem> {
        let (id, home_epoch) = (stocked.item.id, Some(stocked.home_epoch));
        let homes = self.ledgers.homes();
        let placed = RowAt { row: stocked, item: Some(id), home_epoch };
        let holds = homes.holds(shard, &placed).await.ok()?;
        let home = homes.find(id).await.ok().filter(|home| holds && home.shard == shard)?;
        Some(placed.row.at(home))
    }
}

impl CatalogLedger {
    async fn list(&self, listed: Listed) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        let Ledger { pool, breaker } = &self.items.ledger;
        let read = match listed {
            Listed::Shop(since) => rows::ask(breaker, items::list_shop(pool, since)).await,
            Listed::Product(id) => rows::ask(breaker, items::list_product(pool, id)).await,
        };
        match read {
            Ok(value) => {
                if matches!(listed, Listed::Shop(_)) {
                    self.shop.learn(&value);
                }
                Ok(CatalogRead { value, age: None })
            }
            Err(error) => {
                if !breaker.is_open() {
                    tracing::warn!(%error, "catalog not read");
                }
                self.last(listed)
            }
        }
    }

    /// The last list, as long as the ledger does not answer; that of a product is not kept.
    fn last(&self, listed: Listed) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        match listed {
            Listed::Shop(_) => self.shop.last(),
            Listed::Product(_) => Err(Unreachable),
        }
    }
}

impl ShopList {
    fn learn(&self, listed: &[StockedItem]) {
        let mut shop = self.0.write().unwrap_or_else(PoisonError::into_inner);
        *shop = Some((listed.to_vec(), Instant::now()));
    }

    fn last(&self) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        let shop = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let (listed, read_at) = shop.as_ref().ok_or(Unreachable)?;
        let age = Some(read_at.elapsed()).filter(|age| *age <= AGE_MAX).ok_or(Unreachable)?;
        Ok(CatalogRead { value: listed.clone(), age: Some(age) })
    }
}
