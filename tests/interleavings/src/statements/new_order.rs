//! The statements of a new order.

use super::Conflict;
use crate::book::{Change, Row};
use crate::sql::{Error, Fault, MySqlConnection, Result};
use shop_domain::{OrderStatus, Purchase};

/// The fence of an item's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fence {
    pub token: u64,
}

#[derive(Clone, Copy)]
pub(super) struct Written {
    pub(super) status: OrderStatus,
    pub(super) fence: Option<Fence>,
    pub(super) fence_sequence: Option<u64>,
}

/// Raises a fence, which no run has.
pub(super) async fn raise_fence(
    connection: &mut MySqlConnection,
    _: &Purchase,
    fence: Fence,
) -> Result<std::result::Result<u64, Conflict>> {
    connection.server.send().await?;
    Ok(Ok(fence.token))
}

pub(super) async fn insert_orders(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
    written: &Written,
) -> Result<()> {
    connection.server.send().await?;
    for purchase in purchases {
        if connection.server.book.has_error_for(purchase.buyer) {
            return Err(Error::Of(Fault::Other));
        }
        let key = Row::key(purchase);
        connection.lock(key.clone()).await?;
        if connection.server.book.is_taken(&key, purchase.order_id) {
            return Err(Error::Of(Fault::Duplicate));
        }
        connection.changes.push(Change::Order(key, purchase.order(written.status, None)));
    }
    Ok(())
}

pub(super) async fn count_buyers(
    connection: &mut MySqlConnection,
    counted: &[(&Purchase, i64)],
    _: bool,
) -> Result<()> {
    connection.server.send().await?;
    for (purchase, units) in counted {
        let row = Row::limit(purchase);
        connection.lock(row.clone()).await?;
        let bought = connection.server.book.units(&row, &connection.changes);
        if bought + units > i64::from(purchase.item.per_buyer_limit) {
            return Err(Error::Of(Fault::CheckViolated));
        }
        connection.changes.push(Change::Units(row, *units));
    }
    Ok(())
}

/// No item is in a group.
pub(super) async fn count_in_groups(_: &mut MySqlConnection, _: &[(&Purchase, i64)]) -> Result<()> {
    Ok(())
}

pub(super) async fn insert_movements(
    connection: &mut MySqlConnection,
    _: &[&Purchase],
) -> Result<()> {
    connection.server.send().await
}
