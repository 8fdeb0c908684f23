//! The permits of items, which an order with several lines waits for.

#[path = "../../ledger/src/work/attempts.rs"]
mod attempts;
#[path = "../../ledger/src/work/cache.rs"]
pub mod cache;
include!(concat!(env!("OUT_DIR"), "/item_concurrency.rs"));

pub(crate) use attempts::{ATTEMPTS_MAX, pause};

pub(crate) mod breaker {
    //! There is no breaker.

    #[derive(Clone, Debug)]
    pub(crate) struct Breaker;
}

pub(crate) mod limit_lock {
    //! The locks of a buyer's limits.

    use shop_domain::{ItemId, LimitGroupId, UserId};

    use crate::book::Row;
    use crate::explore::reach;
    use crate::sql::{MySqlConnection, Result};

    /// Locks those before the first that does not exist, without waiting.
    pub(crate) async fn lock_all(
        transaction: &mut MySqlConnection,
        buyer: UserId,
        items: &[ItemId],
        _: &[LimitGroupId],
    ) -> Result<std::result::Result<(), Option<ItemId>>> {
        transaction.server.send().await?;
        let row = |item: &ItemId| Row::Limit(item.get(), buyer.get());
        let exists = |item: &&ItemId| transaction.server.book.units(&row(item), &[]) > 0;
        let mut existing = items.iter().take_while(exists);
        let locked = existing.find(|item| !transaction.try_lock(&row(item)));
        reach("a limit is locked", u64::from(locked.is_some()));
        Ok(locked.map_or(Ok(()), |item| Err(Some(*item))))
    }
}

pub(crate) mod stock_lock {
    //! The locks of stock rows.

    use shop_domain::ItemId;

    use crate::book::Row;
    use crate::sql::{Database, MySqlConnection, Result, begin};
    use crate::work::item_concurrency::{ItemPermit, ItemPermits};

    /// Locks the stock rows of several items: the one that was waited for alone, and the others without waiting.
    pub(crate) async fn lock_all(
        transaction: &mut MySqlConnection,
        permits: &ItemPermits,
    ) -> Result<std::result::Result<(), ItemId>> {
        transaction.server.send().await?;
        if let Some(awaited) = permits.awaited() {
            transaction.lock(Row::Stock(awaited.item().get())).await?;
        }
        let is_locked = |item: &ItemId| !transaction.try_lock(&Row::Stock(item.get()));
        Ok(permits.items().find(is_locked).map_or(Ok(()), Err))
    }

    /// Waits until nobody has the row.
    pub(crate) async fn wait_until_free(pool: &Database, permit: &ItemPermit) -> Result<()> {
        let mut transaction = begin(pool).await?;
        let locked = transaction.lock(Row::Stock(permit.item().get())).await;
        let _ = transaction.rollback().await;
        locked
    }
}
