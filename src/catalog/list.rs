//! The shop's list.

use std::sync::{PoisonError, RwLock};

use time::OffsetDateTime;
use tokio::time::Instant;

use super::{AGE_MAX, Catalog, CatalogRead, StockedItem};
use ledger::rows::{self, items};
use ledger::{Ledger, Unreachable};
use shop_domain::ProductId;

/// How long a sale stays on the shop's list after its end.
const LISTED_AFTER_END: time::Duration = time::Duration::DAY;

/// A list, and the time of its read.
type DatedList = (Vec<StockedItem>, Instant);

/// What a list has.
#[derive(Clone, Copy)]
pub(super) enum ListScope {
    /// The shop's sales that ended after this time.
    Shop(OffsetDateTime),
    /// The items of a product.
    Product(ProductId),
}

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
        self.list(ListScope::Shop(now - LISTED_AFTER_END)).await
    }

    /// Reads a list.
    pub(super) async fn list(
        &self,
        scope: ListScope,
    ) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        let Ledger { pool, breaker, .. } = &self.ledger;
        let read = match scope {
            ListScope::Shop(since) => rows::ask(breaker, items::list_shop(pool, since)).await,
            ListScope::Product(id) => rows::ask(breaker, items::list_product(pool, id)).await,
        };
        match read {
            Ok(value) => {
                if matches!(scope, ListScope::Shop(_)) {
                    self.shop.learn(&value);
                }
                Ok(CatalogRead { value, age: None })
            }
            Err(error) => {
                if !breaker.is_open() {
                    tracing::warn!(%error, "catalog not read");
                }
                self.last(scope)
            }
        }
    }

    /// The last list, as long as the ledger does not answer; that of a product is not kept.
    fn last(&self, scope: ListScope) -> Result<CatalogRead<Vec<StockedItem>>, Unreachable> {
        match scope {
            ListScope::Shop(_) => self.shop.last(),
            ListScope::Product(_) => Err(Unreachable),
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
