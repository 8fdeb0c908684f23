//! Tells the log of an item what happened, in the transaction in which it happens.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sqlx::mysql::MySqlRow;
use sqlx::{MySqlConnection, Row};

use crate::rows::failed_change;
use crate::rows::statement::{Binds, Read, Write};
use crate::waiting_list::{LockedStock, lock_stock_shared};
use crate::{Ledger, RetryPolicy};
use shop_domain::{ItemId, ItemRoute, LedgerError, NewItem, Order, Purchase, Quantity, UserId};

/// Lines that wait for the logs of a ledger: a further refusal is answered without a receipt.
const REFUSALS_MAX: u32 = 100_000;
/// Microseconds since 1970 by the database's clock.
pub(crate) const NOW: &str = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))";

/// Whether any item of the ledger has a log: a column of the statements that lock orders or the stock, so that a ledger
/// without logs is sent no statement more. It goes by rows and not by a setting: an item has its log from its creation on,
/// and an instance that makes no logs must still tell those that there are.
pub(crate) const HAS_LOGS: &str = "EXISTS (SELECT 1 FROM receipt_logs) AS has_logs";

/// Opens the log of a new item. An answer comes into the log within `delay_seconds`.
pub(crate) async fn open(
    transaction: &mut MySqlConnection,
    item: ItemId,
    new: &NewItem,
    delay_seconds: u32,
) -> sqlx::Result<()> {
    let secret = hex::encode(rand::random::<[u8; 32]>());
    sqlx::query(
        "INSERT INTO receipt_logs (item_id, secret, delay_seconds, frontier) VALUES (?, ?, ?, '')",
    )
    .binds((item.get(), secret, delay_seconds))
    .run(&mut *transaction)
    .await?;
    let line = format!("opened @ {} {} {delay_seconds}", new.stock, new.per_buyer_limit);
    tell(transaction, item, true, &line).await
}

/// Tells the logs of the orders that a transaction writes.
pub(crate) async fn sold(
    connection: &mut MySqlConnection,
    purchases: &[&Purchase],
) -> sqlx::Result<()> {
    let mut by_item: BTreeMap<i64, String> = BTreeMap::new();
    for purchase in purchases.iter().filter(|purchase| purchase.item.has_log) {
        let lines = by_item.entry(purchase.item.id.get()).or_default();
        write_line(purchase, lines);
        lines.push('\n');
    }
    let rows: Vec<(i64, String)> = by_item.into_iter().collect();
    let mut rest = &rows[..];
    // Few lengths, so that each statement is prepared once.
    while let Some(length) = rest.len().checked_ilog2() {
        let (chunk, behind) = rest.split_at(1 << length);
        let places = vec![format!("(?, {NOW}, ?)"); chunk.len()].join(", ");
        let statement =
            format!("INSERT INTO receipt_queue (item_id, told_at, entries) VALUES {places}");
        let insert = chunk
            .iter()
            // As bytes: the server would convert a text character by character.
            .fold(sqlx::query(&statement), |insert, (item, lines)| {
                insert.bind(item).bind(lines.as_bytes())
            });
        insert.run(&mut *connection).await?;
        rest = behind;
    }
    Ok(())
}

/// The line of an order; `None` when its item has no log.
pub(crate) fn line_of(purchase: &Purchase) -> Option<String> {
    let mut line = String::new();
    purchase.item.has_log.then(|| write_line(purchase, &mut line)).map(|()| line)
}

fn write_line(purchase: &Purchase, lines: &mut String) {
    let Purchase { order_id, buyer, quantity, .. } = purchase;
    let _ = write!(lines, "sold @ {order_id} {} {}", buyer.get(), quantity.units());
}

/// Tells the logs of orders whose units came back, or were taken again. `locked` is a row of the statement that has locked
/// them, with [`HAS_LOGS`].
pub(crate) async fn moved(
    transaction: &mut MySqlConnection,
    locked: &MySqlRow,
    orders: impl IntoIterator<Item = &Order>,
    is_return: bool,
) -> sqlx::Result<()> {
    let has_logs = locked.try_get::<i64, _>("has_logs")? != 0;
    let kind = if is_return { "returned" } else { "sold" };
    let mut by_item: BTreeMap<ItemId, String> = BTreeMap::new();
    for Order { id, item_id, user_id, quantity, .. } in orders {
        let lines = by_item.entry(*item_id).or_default();
        let _ = writeln!(lines, "{kind} @ {id} {} {}", user_id.get(), quantity.units());
    }
    for (item, lines) in by_item {
        tell(transaction, item, has_logs, &lines).await?;
    }
    Ok(())
}

/// Tells the log of an item, if it has one; nothing is sent to a ledger without logs. `@` stands for the time by the
/// database's clock.
pub(crate) async fn tell(
    transaction: &mut MySqlConnection,
    item: ItemId,
    has_logs: bool,
    lines: &str,
) -> sqlx::Result<()> {
    if !has_logs {
        return Ok(());
    }
    let statement = format!(
        "INSERT INTO receipt_queue (item_id, told_at, entries) \
         SELECT item_id, {NOW}, ? FROM receipt_logs WHERE item_id = ?"
    );
    sqlx::query(&statement).binds((lines, item.get())).run(transaction).await
}

/// Tells the log of an item that a buyer was refused, and returns whether it did. "Sold out" is told only if the ledger says
/// so, too.
///
/// # Errors
/// When the ledger does not answer, or the item has moved.
pub async fn refused(
    ledger: &Ledger,
    routed: ItemRoute,
    (buyer, units): (UserId, Quantity),
    (id, code): (&str, &str),
) -> Result<bool, LedgerError> {
    let line = &format!("refused @ {id} {} {} {code}", buyer.get(), units.units());
    let told = ledger.transact(RetryPolicy::ROLLED_BACK, |transaction| {
        Box::pin(async move {
            let locked = lock_stock_shared(transaction, routed).await?;
            let Some(LockedStock { available, has_logs: true }) = locked else {
                return Ok(false);
            };
            let is_full = format!(
                "SELECT COALESCE(MAX(id) - MIN(id), 0) >= {REFUSALS_MAX} FROM receipt_queue"
            );
            let is_full: bool = sqlx::query_scalar(&is_full).one(&mut **transaction).await?;
            if is_full || (code == "sold_out" && available >= units.signed()) {
                return Ok(false);
            }
            tell(transaction, routed.item, true, line).await.map(|()| true)
        })
    });
    told.await.map_err(|error| failed_change(&error))
}
