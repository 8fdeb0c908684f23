//! The items of purchases, read through the catalog's cache.

use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{Catalog, Seen, Unreachable};
use shop_domain::{Item, ItemId};

/// Greatest age of the number of units left, for the waiting room.
const AVAILABLE_AGE_MAX: Duration = Duration::from_millis(250);

/// An item as a purchase finds it.
#[derive(Clone, Debug)]
pub enum Found {
    /// The item as it is.
    Fresh(Arc<Item>),
    /// The item as it was when the ledger last answered; now it does not.
    Earlier {
        item: Arc<Item>,
        /// Whether nothing was left.
        sold_out: bool,
    },
    /// There is no such item.
    Nothing,
}

/// The catalog, with the age that an item may have.
#[derive(Clone)]
pub struct Items {
    catalog: Catalog,
    age_max: Duration,
}

impl Items {
    /// Items that are at most `age_max` old.
    #[must_use]
    pub fn new(catalog: Catalog, age_max: Duration) -> Self {
        Self { catalog, age_max }
    }

    /// Units left, at most a quarter of a second ago; 0 of an item that does not exist.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not read lately.
    pub async fn available(&self, id: ItemId) -> Result<i64, Unreachable> {
        let seen = self.catalog.find_recent(id, AVAILABLE_AGE_MAX).await?;
        Ok(seen.value.map_or(0, |stocked| stocked.available))
    }

    /// Finds an item.
    ///
    /// # Errors
    /// When the ledger does not answer and the item was not read lately.
    pub async fn find(&self, id: ItemId) -> Result<Found, Unreachable> {
        let Seen { value, age } = self.catalog.find_recent(id, self.age_max).await?;
        Ok(match (value, age) {
            (None, _) => Found::Nothing,
            (Some(stocked), None) => Found::Fresh(stocked.item),
            (Some(stocked), Some(_)) => {
                Found::Earlier { sold_out: stocked.available <= 0, item: stocked.item }
            }
        })
    }

    /// Reads the item afresh next time.
    pub fn forget(&self, id: ItemId) {
        self.catalog.forget(id);
    }
}
