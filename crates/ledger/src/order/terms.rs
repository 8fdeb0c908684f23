//! What the items of an order allow its buyer: a longer hold, and giving the paid order back.

use sqlx::MySqlConnection;
use time::{Duration, OffsetDateTime};

use super::StepError;
use crate::rows::order::orders::LinesOf;
use crate::rows::order::payments;
use mysql_connection::statement::in_list;
use shop_domain::{ItemId, Order};

/// Extends the hold of an order whose rows are locked, by `wanted` seconds or by as many as all its items allow.
/// Returns the order, and whether this call changed it: a hold is extended once.
///
/// # Errors
/// [`StepError::NotExtendable`], and [`StepError::HoldOver`] by the clock of the database, which also decides on the
/// expiry.
pub(super) async fn extend(
    connection: &mut MySqlConnection,
    mut order: Order,
    wanted: Option<u32>,
) -> Result<(Order, bool), StepError> {
    if order.extended_seconds.is_some() {
        return Ok((order, false));
    }
    let allowed = least(connection, &order, "extend_seconds").await?;
    let seconds = wanted.map_or(allowed, |wanted| wanted.min(allowed));
    if seconds == 0 {
        return Err(StepError::NotExtendable);
    }
    let Some(lines) = LinesOf::order(&order) else { return Ok((order, false)) };
    // The time since the row was read was spent on waiting for its lock, perhaps.
    let statement = format!(
        "UPDATE orders SET expires_at = expires_at + INTERVAL ? SECOND, extended_seconds = ? \
         WHERE {} AND expires_at > UTC_TIMESTAMP(6)",
        lines.condition
    );
    let update = lines.bind(sqlx::query(&statement).bind(seconds).bind(seconds));
    if update.execute(connection).await?.rows_affected() != lines.rows {
        return Err(StepError::HoldOver);
    }
    order.change_lines(|line| {
        line.expires_at += Duration::seconds(seconds.into());
        line.extended_seconds = Some(seconds);
    });
    Ok((order, true))
}

/// Checks that all items of a paid order take it back at `now`, and notes that its money has to go back.
///
/// # Errors
/// [`StepError::NotReturnable`], and the database's.
pub(super) async fn begin_return(
    connection: &mut MySqlConnection,
    order: &Order,
    now: OffsetDateTime,
) -> Result<(), StepError> {
    let allowed = Duration::seconds(least(connection, order, "return_seconds").await?.into());
    if order.paid_at.is_none_or(|paid_at| now >= paid_at + allowed) {
        return Err(StepError::NotReturnable);
    }
    Ok(payments::want_refunds(connection, order.id).await?)
}

/// The least number in a column of the order's items.
async fn least(
    connection: &mut MySqlConnection,
    order: &Order,
    column: &'static str,
) -> sqlx::Result<u32> {
    let items: Vec<ItemId> = order.lines().map(|line| line.item_id).collect();
    let Some((places, items)) = in_list(&items) else { return Ok(0) };
    let statement = format!("SELECT MIN({column}) FROM items WHERE id IN ({places})");
    let select = items.fold(sqlx::query_scalar(&statement), |select, id| select.bind(id.get()));
    let least: Option<u32> = select.fetch_one(connection).await?;
    Ok(least.unwrap_or_default())
}
