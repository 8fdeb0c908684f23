//! Items as purchases see them: at most half a second old, read once for all requests.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;

use crate::domain::{Item, ItemId};
use crate::store::catalogue::{Catalogue, Seen, Unreachable};

/// Items that are remembered at once.
const REMEMBERED_MAX: u64 = 100_000;

/// How old the number of units left may be.
const LEFT_AGE_MAX: Duration = Duration::from_millis(250);

/// An item as a purchase finds it.
#[derive(Clone, Debug)]
pub enum Found {
    /// The item as it is.
    Fresh(Arc<Item>),
    /// The item as it was when the ledger last answered; now it does not.
    Earlier {
        /// The item.
        item: Arc<Item>,
        /// Whether nothing was left.
        sold_out: bool,
    },
    /// There is no such item.
    Nothing,
}

/// The items. Clones share the memory.
#[derive(Clone)]
pub struct Items {
    catalogue: Catalogue,
    known: Cache<ItemId, Found>,
    left: Cache<ItemId, i64>,
}

impl Items {
    /// Remembers each item for `age_max`. An item that does not exist is remembered too, so that
    /// asking for it over and over costs nothing.
    #[must_use]
    pub fn new(catalogue: Catalogue, age_max: Duration) -> Self {
        let known = Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(age_max).build();
        let left = Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(LEFT_AGE_MAX).build();
        Self { catalogue, known, left }
    }

    /// Units left by the ledger, a moment old; 0 of an item that does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not seen lately.
    pub async fn available(&self, id: ItemId) -> Result<i64, Unreachable> {
        let read = async {
            let seen = self.catalogue.find(id).await?;
            Ok(seen.value.map_or(0, |stocked| stocked.available))
        };
        self.left.try_get_with(id, read).await.map_err(|error: Arc<Unreachable>| *error)
    }

    /// Finds an item.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not seen lately.
    pub async fn find(&self, id: ItemId) -> Result<Found, Unreachable> {
        let read = async {
            let Seen { value, age } = self.catalogue.find(id).await?;
            Ok(match (value, age) {
                (None, _) => Found::Nothing,
                (Some(stocked), None) => Found::Fresh(stocked.item),
                (Some(stocked), Some(_)) => {
                    Found::Earlier { sold_out: stocked.available <= 0, item: stocked.item }
                }
            })
        };
        self.known.try_get_with(id, read).await.map_err(|error: Arc<Unreachable>| *error)
    }

    /// Reads the item afresh next time.
    pub async fn forget(&self, id: ItemId) {
        self.known.invalidate(&id).await;
    }
}
