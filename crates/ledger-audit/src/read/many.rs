//! Reads the ledgers of many items at once, in one consistent snapshot.

use std::collections::HashMap;
use std::time::Duration;

use sqlx::Row;
use sqlx::mysql::{MySqlConnection, MySqlRow};
use tokio::time::timeout;

use super::{
    ORDER_COLUMNS, PLACE_COLUMNS, RESTOCK_COLUMNS, Reader, SQL_SECONDS_MAX, begin_snapshot,
    movements, order, place, restock, stock, unreadable,
};
use crate::{CannotJudge, Ledger};

impl Reader {
    /// The ledgers of several items in one snapshot, in the order of `items`. Everything between the
    /// lowest and the highest id is read, so the ids should lie close together.
    pub async fn ledgers(&mut self, items: &[i64]) -> Result<Vec<Ledger>, CannotJudge> {
        let (Some(first), Some(last)) = (items.iter().min(), items.iter().max()) else {
            return Ok(Vec::new());
        };
        let connection = self.connected().await?;
        let reading = snapshot(connection, *first, *last);
        let mut found = timeout(Duration::from_secs(SQL_SECONDS_MAX), reading)
            .await
            .map_err(|_| {
                CannotJudge(format!("reading the ledgers took more than {SQL_SECONDS_MAX} s"))
            })?
            .map_err(|error| unreadable(&error))?;
        Ok(items.iter().map(|item| found.remove(item).unwrap_or_default()).collect())
    }
}

async fn snapshot(
    connection: &mut MySqlConnection,
    first: i64,
    last: i64,
) -> Result<HashMap<i64, Ledger>, sqlx::Error> {
    begin_snapshot(connection).await?;
    let ledgers = read(connection, first, last).await;
    sqlx::raw_sql("ROLLBACK").execute(connection).await?;
    ledgers
}

async fn read(
    connection: &mut MySqlConnection,
    first: i64,
    last: i64,
) -> Result<HashMap<i64, Ledger>, sqlx::Error> {
    let mut rows = async |statement: &str| {
        sqlx::query(statement).bind(first).bind(last).fetch_all(&mut *connection).await
    };
    let mut ledgers: HashMap<i64, Ledger> = HashMap::new();
    for row in rows("SELECT CAST(id AS SIGNED) AS item FROM items WHERE id BETWEEN ? AND ?").await?
    {
        ledgers.entry(item(&row)?).or_default().item_exists = true;
    }
    let statement = "SELECT CAST(item_id AS SIGNED) AS item, CAST(total AS SIGNED) AS total, \
                     CAST(available AS SIGNED) AS available, CAST(offered AS SIGNED) AS offered \
                     FROM stock WHERE item_id BETWEEN ? AND ?";
    for row in rows(statement).await? {
        let ledger = ledgers.entry(item(&row)?).or_default();
        ledger.stock = Some(stock(&row)?);
        ledger.line.offered = row.try_get("offered")?;
    }
    let statement = format!(
        "SELECT CAST(item_id AS SIGNED) AS item, {PLACE_COLUMNS} \
         FROM waiting_list WHERE item_id BETWEEN ? AND ? ORDER BY place"
    );
    for row in rows(&statement).await? {
        ledgers.entry(item(&row)?).or_default().line.places.push(place(&row)?);
    }
    let statement = format!(
        "SELECT CAST(item_id AS SIGNED) AS item, {ORDER_COLUMNS} \
         FROM orders WHERE item_id BETWEEN ? AND ?"
    );
    for row in rows(&statement).await? {
        ledgers.entry(item(&row)?).or_default().orders.push(order(&row)?);
    }
    let statement = "SELECT CAST(item_id AS SIGNED) AS item, CAST(reason AS CHAR) AS reason, \
                     COUNT(*) AS movements, CAST(SUM(delta) AS SIGNED) AS units \
                     FROM stock_movements WHERE item_id BETWEEN ? AND ? GROUP BY item_id, reason";
    for row in rows(statement).await? {
        ledgers.entry(item(&row)?).or_default().movements.push(movements(&row)?);
    }
    let statement = format!(
        "SELECT CAST(item_id AS SIGNED) AS item, {RESTOCK_COLUMNS} \
         FROM restocks WHERE item_id BETWEEN ? AND ?"
    );
    for row in rows(&statement).await? {
        ledgers.entry(item(&row)?).or_default().restocks.push(restock(&row)?);
    }
    Ok(ledgers)
}

fn item(row: &MySqlRow) -> Result<i64, sqlx::Error> {
    row.try_get("item")
}
