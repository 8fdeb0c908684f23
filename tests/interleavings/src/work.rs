//! The permits of items, which an order with several lines waits for.

#[path = "../../../crates/ledger/src/work/attempts.rs"]
mod attempts;
#[path = "../../../crates/ledger/src/work/cache.rs"]
pub mod cache;
#[path = "../../../crates/ledger/src/work/item_permit.rs"]
pub(crate) mod item_permit;
include!(concat!(env!("OUT_DIR"), "/item_concurrency.rs"));

pub(crate) use attempts::{ATTEMPTS_MAX, pause};

pub(crate) mod breaker {
    //! There is no breaker.

    #[derive(Clone, Debug)]
    pub(crate) struct Breaker;
}

pub(crate) mod limit_lock {
    //! The locks of a buyer's limits.

    use shop_domain::UserId;

    use crate::book::Row;
    use crate::explore::reach;
    use crate::sql::{MySqlConnection, Result, begin};

    pub(crate) const OF_ITEMS: &str = "buyer_limits";
    /// No item is in a group.
    pub(crate) const OF_GROUPS: &str = "group_limits";

    /// Locks a limit that is free. One that does not exist is not kept: another transaction may make it first.
    pub(crate) async fn try_lock(
        transaction: &mut MySqlConnection,
        table: &str,
        id: i64,
        buyer: UserId,
    ) -> Result<bool> {
        if table == OF_GROUPS {
            return Ok(true);
        }
        let looking = begin(&transaction.server).await?;
        let row = Row::Limit(id, buyer.get());
        let exists = transaction.server.book.units(&row, &[]) > 0;
        let is_free = if exists { transaction.try_lock(&row) } else { looking.try_lock(&row) };
        reach("a limit is locked", u64::from(!is_free));
        Ok(is_free)
    }
}

pub(crate) mod stock_lock {
    //! The locks of stock rows.

    use shop_domain::ItemId;

    use crate::book::Row;
    use crate::sql::{Database, MySqlConnection, Result, begin};
    use crate::work::item_permit::{ItemPermit, ItemPermits};

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
