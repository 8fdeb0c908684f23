//! The statements of batches.

use std::collections::{BTreeSet, HashMap};

use crate::book::Row;
use crate::sql::{Database, MySqlConnection, Result, begin};
use shop_domain::{ItemId, LimitGroupId, Order, OrderId, Purchase, UserId};

#[derive(Clone, Copy, Default)]
pub(super) struct BuyerCount {
    pub(super) bought: i64,
    pub(super) expired: i64,
}

pub(super) async fn bought_so_far(
    connection: &mut MySqlConnection,
    purchases: &[Purchase],
) -> Result<HashMap<(ItemId, UserId), BuyerCount>> {
    connection.server.send().await?;
    let bought = purchases.iter().map(|one| {
        let bought = connection.server.book.units(&Row::limit(one), &[]);
        ((one.item.id, one.buyer), BuyerCount { bought, expired: 0 })
    });
    Ok(bought.collect())
}

pub(super) async fn bought_in_groups(
    _: &mut MySqlConnection,
    _: &[Purchase],
) -> Result<HashMap<(LimitGroupId, UserId), i64>> {
    Ok(HashMap::new())
}

pub(super) async fn available(
    connection: &mut MySqlConnection,
    items: &[ItemId],
) -> Result<HashMap<ItemId, i64>> {
    connection.server.send().await?;
    let book = &connection.server.book;
    let available = items.iter().filter_map(|item| Some((*item, book.available(item.get(), &[])?)));
    Ok(available.collect())
}

pub(super) async fn locked_by_others(
    connection: &mut MySqlConnection,
    items: &[ItemId],
) -> Result<BTreeSet<ItemId>> {
    let looking = begin(&connection.server).await?;
    let is_locked = |item: &&ItemId| !looking.try_lock(&Row::Stock(item.get()));
    Ok(items.iter().filter(is_locked).copied().collect())
}

pub(super) async fn find_written(
    pool: &Database,
    purchases: &[&Purchase],
) -> Result<HashMap<OrderId, Order>> {
    let mut transaction = begin(pool).await?;
    for key in purchases.iter().map(|one| Row::key(one)).collect::<BTreeSet<_>>() {
        transaction.lock(key).await?;
    }
    pool.send().await?;
    let found = purchases.iter().filter_map(|one| pool.book.order(one.order_id));
    let found = found.map(|order| (order.id, order)).collect();
    transaction.rollback().await?;
    Ok(found)
}

pub(super) async fn take(connection: &mut MySqlConnection, taken: &[(ItemId, i64)]) -> Result<u64> {
    connection.server.send().await?;
    let mut enough = 0;
    for (item, units) in taken {
        enough += u64::from(connection.take(item.get(), *units).await?);
    }
    Ok(enough)
}
