//! The statements of a new order.

use super::WRITTEN_AS;
use super::fence::Fence;
use crate::book::{Change, Row};
use crate::sql::{Error, Fault, MySqlConnection, Result};
use shop_domain::{OrderStatus, Purchase};

pub(super) struct NewOrder<'a> {
    pub(super) purchase: &'a Purchase,
    pub(super) status: OrderStatus,
    pub(super) key: &'a str,
    pub(super) fence: Option<Fence>,
    pub(super) fence_sequence: Option<u64>,
}

impl<'a> NewOrder<'a> {
    pub(super) fn sold(
        purchase: &'a Purchase,
        fence: Option<Fence>,
        fence_sequence: Option<u64>,
    ) -> Self {
        let key = purchase.key.as_str();
        Self { purchase, status: WRITTEN_AS, key, fence, fence_sequence }
    }
}

#[derive(Clone, Copy)]
pub(super) struct CountedUnits {
    pub(super) of: i64,
    pub(super) buyer: i64,
    pub(super) units: i64,
    pub(super) limit: u32,
}

impl CountedUnits {
    pub(super) fn of_buyer(purchase: &Purchase) -> Self {
        Self {
            of: purchase.item.id.get(),
            buyer: purchase.buyer.get(),
            units: purchase.quantity.signed(),
            limit: purchase.item.per_buyer_limit,
        }
    }

    /// No item is in a group.
    pub(super) fn in_group(_: &Purchase) -> Option<Self> {
        None
    }

    pub(super) fn of_offer(self) -> Self {
        self
    }
}

pub(super) async fn insert_orders<'a>(
    connection: &mut MySqlConnection,
    orders: impl Iterator<Item = NewOrder<'a>>,
) -> Result<()> {
    connection.server.send().await?;
    for NewOrder { purchase, status, key, .. } in orders {
        if connection.server.book.has_error_for(purchase.buyer) {
            return Err(Error::Of(Fault::Other));
        }
        let key = Row::Key(purchase.item.id.get(), purchase.buyer.get(), key.to_owned());
        connection.lock(key.clone()).await?;
        if connection.server.book.is_taken(&key, purchase.order_id) {
            return Err(Error::Of(Fault::Duplicate));
        }
        connection.changes.push(Change::Order(key, purchase.order(status, None)));
    }
    Ok(())
}

pub(super) async fn count_buyers(
    connection: &mut MySqlConnection,
    counted: &[CountedUnits],
) -> Result<()> {
    connection.server.send().await?;
    for one in counted {
        let row = Row::Limit(one.of, one.buyer);
        connection.lock(row.clone()).await?;
        let bought = connection.server.book.units(&row, &connection.changes);
        if bought + one.units > i64::from(one.limit) {
            return Err(Error::Of(Fault::CheckViolated));
        }
        connection.changes.push(Change::Units(row, one.units));
    }
    Ok(())
}

pub(super) async fn count_in_groups(_: &mut MySqlConnection, _: &[CountedUnits]) -> Result<()> {
    Ok(())
}

pub(super) async fn insert_movements(
    connection: &mut MySqlConnection,
    _: &[&Purchase],
) -> Result<()> {
    connection.server.send().await
}
