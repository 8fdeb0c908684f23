//! The shop's list.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use futures::FutureExt;
use time::OffsetDateTime;
use tokio::time::Instant;

use super::{AGE_MAX, Catalog, CatalogRead, StockedItem};
use ledger::Ledger;
use ledger::gathered::{GatheredReads, Rows};
use ledger::rows::items;
use ledger::work::ask;
use shop_domain::{Clock, LedgerError};

/// How long a sale stays on the shop's list after its end.
const LISTED_AFTER_END: time::Duration = time::Duration::DAY;

/// The sales of the list, which all who wait for one read share.
type Listed = Arc<[StockedItem]>;

/// The reads of the list: one at a time, for all who wait.
pub(super) type ListReads = GatheredReads<CatalogRead<Listed>, ()>;

/// The last list, and the time of its read.
type LastList = RwLock<Option<(Listed, Instant)>>;

impl Catalog {
    /// Reads the shop's sales that are not over for longer than a day, soonest end first, as
    /// [`Catalog::find`] reads an item.
    ///
    /// # Errors
    /// When the ledger does not answer and the list was not read lately.
    pub async fn list_shop(&self) -> Result<CatalogRead<Listed>, LedgerError> {
        self.lists.read(()).await?.ok_or(LedgerError::Unavailable)
    }
}

/// Reads the list, or takes the last one while the ledger does not answer.
pub(super) fn reads(ledger: Ledger, clock: Clock) -> ListReads {
    let last = Arc::new(LastList::default());
    GatheredReads::new(move |_| {
        let ledger = ledger.clone();
        let last = Arc::clone(&last);
        let since = clock.now() - LISTED_AFTER_END;
        async move { read_shop(&ledger, &last, since).await }.boxed()
    })
}

async fn read_shop(
    Ledger { pool, breaker, .. }: &Ledger,
    last: &LastList,
    since: OffsetDateTime,
) -> Rows<CatalogRead<Listed>, ()> {
    let read = match ask(breaker, items::list_shop(pool, since)).await {
        Ok(listed) => {
            let value = Listed::from(listed);
            let read = (Arc::clone(&value), Instant::now());
            *last.write().unwrap_or_else(PoisonError::into_inner) = Some(read);
            Ok(CatalogRead { value, age: None })
        }
        Err(error) => {
            if !breaker.is_open() {
                tracing::warn!(%error, "catalog not read");
            }
            let last = last.read().unwrap_or_else(PoisonError::into_inner).clone();
            let read = last.map(|(value, at)| CatalogRead { value, age: Some(at.elapsed()) });
            read.filter(|read| read.age <= Some(AGE_MAX)).ok_or(LedgerError::Unavailable)
        }
    };
    Ok(HashMap::from([((), read)]))
}
