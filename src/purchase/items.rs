//! Items as purchases are judged by them: at most half a second old, read once for all who ask.

use std::sync::Arc;
use std::time::Duration;

use moka::future::Cache;
use sqlx::MySqlPool;

use crate::domain::{Item, ItemId};
use crate::store::mysql::items;

/// Items that are remembered at once.
const REMEMBERED_MAX: u64 = 100_000;

/// The items. Clones share what is remembered.
#[derive(Clone)]
pub struct Items {
    pool: MySqlPool,
    known: Cache<ItemId, Option<Arc<Item>>>,
}

impl Items {
    /// Remembers each item for `age_max`. An item that does not exist is remembered too, so that
    /// asking for it over and over costs nothing.
    #[must_use]
    pub fn new(pool: MySqlPool, age_max: Duration) -> Self {
        let known = Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(age_max).build();
        Self { pool, known }
    }

    /// Finds an item.
    ///
    /// # Errors
    /// The database's.
    pub async fn find(&self, id: ItemId) -> Result<Option<Arc<Item>>, Arc<sqlx::Error>> {
        let read = async {
            let found = items::find(&self.pool, id).await?;
            Ok(found.map(|stocked| stocked.item))
        };
        self.known.try_get_with(id, read).await
    }

    /// Reads the item afresh next time.
    pub async fn forget(&self, id: ItemId) {
        self.known.invalidate(&id).await;
    }
}
