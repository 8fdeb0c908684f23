//! The shop's list.

use std::sync::{PoisonError, RwLock};

use time::OffsetDateTime;
use tokio::time::Instant;

use super::{AGE_MAX, Catalog, CatalogRead, StockedItem};
use ledger::rows::{self, items};
use ledger::{Ledger, Unreachable};

/// How long a sale stays on the shop's list after its end.
const LISTED_AFTER_END: time::Duration = time::Duration::DAY;

/// A list, and the time of its read.
type DatedList = (Vec<StockedItem>, Instant);

/// The last list.
#[derive(Default)]
pub(super) struct ShopList(RwLock<Option<DatedList>>);

impl Catalog {
    /// Reads the shop's sales that are not over for longer than a day, soonest end first, as
    /// [`Catalog::find`] reads an item.
    ///
    /// # Errors
    /// When the ledger does not answer and the list was not read lately.
    pub async fn list_shop(
        &self,
        now: OffsetDateTime,
    ) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        let Ledger { pool, breaker, .. } = &self.ledger;
        match rows::ask(breaker, items::list_shop(pool, now - LISTED_AFTER_END)).await {
            Ok(value) => {
                self.shop.learn(&value);
                Ok(CatalogRead { value, age: None })
            }
            Err(error) => {
                if !breaker.is_open() {
                    tracing::warn!(%error, "catalog not read");
                }
                self.shop.last()
            }
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
