//! Reads the ledger of one item with SQL of this crate's own.
//!
//! It uses only the columns that outside tools may rely on: `items(id)`,
//! `stock(item_id, total, available)`, `orders(id, item_id, user_id, quantity, status,
//! request_key, fence, fence_backend, fence_sequence)`, `stock_movements(item_id, delta, reason)`,
//! `restocks(id, item_id, delta)`; and for buyers who wait and limits that items share `stock(offered)`, `waiting_list`,
//! `orders(limit_group_id)`, `limit_groups` and `limit_group_items`.

mod homes;
mod hosts;
mod many;

pub use homes::homes_of;
pub use hosts::writer_of;

use std::collections::HashSet;
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::Row;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use tokio::time::{sleep, timeout};

use crate::{
    Answer, CannotJudge, Fence, Group, Ledger, Line, Movements, Order, Outcome, Place, Restock,
    Stock,
};

/// Connecting and each reading must end within this.
const SQL_SECONDS_MAX: u64 = 60;
/// Two equal readings this far apart mean that no purchase is under way.
const QUIET: Duration = Duration::from_millis(500);
/// The distance where every answer was definite, so that nothing should be under way.
const QUIET_AFTER_DEFINITE: Duration = Duration::from_millis(50);
/// After unknown answers a purchase may still run inside the service for a while: readings this far
/// apart must be equal.
pub const QUIET_AFTER_UNKNOWN: Duration = Duration::from_secs(3);

/// Reads ledgers from MySQL or MariaDB over one connection, which it replaces after a failure. Of
/// several hosts it reads the one that takes writes.
///
/// It uses these columns alone: `items(id)`, `stock(item_id, total, available)`, `orders(id, item_id,
/// user_id, quantity, status, request_key, fence, fence_backend, fence_sequence)`,
/// `stock_movements(item_id, delta, reason)` and `restocks(id, item_id, delta)`; and for buyers who wait and limits that items share
/// `stock(offered)`, `waiting_list`, `orders(limit_group_id)`, `limit_groups` and `limit_group_items`. Each reading is one consistent snapshot and ends within
/// 60 s.
pub struct Reader {
    hosts: Vec<MySqlConnectOptions>,
    connection: Option<MySqlConnection>,
}

/// Version and durability of the database server.
#[derive(Debug, Clone, Serialize)]
pub struct Database {
    /// `SELECT VERSION()`.
    pub version: String,
    /// `innodb_flush_log_at_trx_commit`: 1 = each commit is on disk before it is answered.
    pub flush_log_at_commit: Option<i64>,
}

impl Reader {
    /// Connects at once to the database at a `mysql://` address, so that a wrong address shows before
    /// the traffic. Errors never contain the address: it holds a password.
    pub async fn connect(url: &str) -> Result<Self, CannotJudge> {
        let mut reader = Self::new(url)?;
        reader.connected().await?;
        Ok(reader)
    }

    /// A reader that connects at its first reading.
    pub fn new(url: &str) -> Result<Self, CannotJudge> {
        Ok(Self { hosts: hosts::read(url)?, connection: None })
    }

    /// Version and durability, for the report.
    pub async fn database(&mut self) -> Result<Database, CannotJudge> {
        let connection = self.connected().await?;
        let version = sqlx::query_scalar("SELECT CAST(VERSION() AS CHAR)")
            .fetch_one(&mut *connection)
            .await
            .map_err(|error| unreadable(&error))?;
        let flush_log_at_commit =
            sqlx::query_scalar("SELECT CAST(@@innodb_flush_log_at_trx_commit AS SIGNED)")
                .fetch_one(connection)
                .await
                .ok();
        Ok(Database { version, flush_log_at_commit })
    }

    /// The ledger of one item, as it is now.
    pub async fn ledger(&mut self, item_id: i64) -> Result<Ledger, CannotJudge> {
        let connection = self.connected().await?;
        let reading =
            timeout(Duration::from_secs(SQL_SECONDS_MAX), snapshot(connection, item_id)).await;
        match reading {
            Ok(Ok(ledger)) => Ok(ledger),
            Ok(Err(error)) => {
                // The server may have been killed meanwhile: the next reading connects anew.
                self.connection = None;
                Err(unreadable(&error))
            }
            Err(_) => {
                self.connection = None;
                Err(CannotJudge(format!("reading the ledger took more than {SQL_SECONDS_MAX} s")))
            }
        }
    }

    /// The ledger of one item once no purchase is under way: no order is queued, every order that was
    /// answered 202 is there, and two readings are equal. `answers` is the record of the traffic, which
    /// must have ended. Gives the last reading when that does not happen within `limit`.
    pub async fn settled_ledger(
        &mut self,
        item_id: i64,
        answers: &[Answer],
        limit: Duration,
    ) -> Result<Ledger, CannotJudge> {
        let queued: HashSet<&str> = answers
            .iter()
            .filter(|answer| answer.status == 202)
            .filter_map(|answer| answer.order_id.as_deref())
            .collect();
        let was_unknown = answers.iter().any(|answer| answer.outcome == Outcome::Unknown);
        let quiet = match (was_unknown, queued.is_empty()) {
            (true, _) => QUIET_AFTER_UNKNOWN,
            (false, true) => QUIET_AFTER_DEFINITE,
            (false, false) => QUIET,
        };
        let deadline = Instant::now() + limit;
        let mut last = self.ledger(item_id).await;
        loop {
            sleep(quiet).await;
            let next = self.ledger(item_id).await;
            let late = Instant::now() >= deadline;
            match (&last, next) {
                (Ok(before), Ok(now)) if late || (*before == now && is_settled(&now, &queued)) => {
                    return Ok(now);
                }
                (_, Err(failure)) if late => return Err(failure),
                (_, Ok(now)) if late => return Ok(now),
                (_, next) => last = next,
            }
        }
    }

    /// The connection, made again after a failure.
    async fn connected(&mut self) -> Result<&mut MySqlConnection, CannotJudge> {
        if self.connection.is_none() {
            let connecting =
                timeout(Duration::from_secs(SQL_SECONDS_MAX), hosts::writer(&self.hosts));
            let connection = connecting
                .await
                .map_err(|_| CannotJudge("the database did not answer in time".to_owned()))?
                .map_err(|error| CannotJudge(format!("the database cannot be reached: {error}")))?;
            self.connection = Some(connection);
        }
        self.connection
            .as_mut()
            .ok_or_else(|| CannotJudge("the database cannot be reached".to_owned()))
    }
}

fn is_settled(ledger: &Ledger, queued: &HashSet<&str>) -> bool {
    let present = ledger.orders.iter().filter(|order| queued.contains(order.id.as_str())).count();
    present == queued.len() && ledger.orders.iter().all(|order| order.status != "queued")
}

/// All readings from here to the end of the transaction are of one moment.
async fn begin_snapshot(connection: &mut MySqlConnection) -> Result<(), sqlx::Error> {
    sqlx::raw_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        .execute(&mut *connection)
        .await?;
    sqlx::raw_sql("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
        .execute(connection)
        .await
        .map(|_| ())
}

async fn snapshot(connection: &mut MySqlConnection, item_id: i64) -> Result<Ledger, sqlx::Error> {
    begin_snapshot(connection).await?;
    let ledger = read(connection, item_id).await;
    sqlx::raw_sql("ROLLBACK").execute(connection).await?;
    ledger
}

async fn read(connection: &mut MySqlConnection, item_id: i64) -> Result<Ledger, sqlx::Error> {
    let items: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM items WHERE id = ?")
        .bind(item_id)
        .fetch_one(&mut *connection)
        .await?;
    let stock = sqlx::query(
        "SELECT CAST(total AS SIGNED) AS total, CAST(available AS SIGNED) AS available, \
         CAST(offered AS SIGNED) AS offered FROM stock WHERE item_id = ?",
    )
    .bind(item_id)
    .fetch_optional(&mut *connection)
    .await?;
    let mut line = Line::default();
    if let Some(row) = &stock {
        line.offered = row.try_get("offered")?;
    }
    let stock = stock.map(|row| self::stock(&row)).transpose()?;
    let statement =
        format!("SELECT {PLACE_COLUMNS} FROM waiting_list WHERE item_id = ? ORDER BY place");
    for row in sqlx::query(&statement).bind(item_id).fetch_all(&mut *connection).await? {
        line.places.push(place(&row)?);
    }
    let group = group(connection, item_id).await?;
    let statement =
        format!("SELECT {ORDER_COLUMNS} FROM orders WHERE item_id = ? ORDER BY orders.id");
    let orders = sqlx::query(&statement)
        .bind(item_id)
        .fetch_all(&mut *connection)
        .await?
        .into_iter()
        .map(|row| order(&row))
        .collect::<Result<_, sqlx::Error>>()?;
    let movements = sqlx::query(
        "SELECT CAST(reason AS CHAR) AS reason, COUNT(*) AS movements, CAST(SUM(delta) AS SIGNED) AS units \
         FROM stock_movements WHERE item_id = ? GROUP BY reason ORDER BY reason",
    )
    .bind(item_id)
    .fetch_all(&mut *connection)
    .await?
    .into_iter()
    .map(|row| movements(&row))
    .collect::<Result<_, sqlx::Error>>()?;
    let statement = format!("SELECT {RESTOCK_COLUMNS} FROM restocks WHERE item_id = ? ORDER BY id");
    let restocks = sqlx::query(&statement)
        .bind(item_id)
        .fetch_all(connection)
        .await?
        .into_iter()
        .map(|row| restock(&row))
        .collect::<Result<_, sqlx::Error>>()?;
    Ok(Ledger { item_exists: items > 0, stock, orders, movements, line, group, restocks })
}

/// The limit that the item shares now, and the buyers who are above it.
async fn group(
    connection: &mut MySqlConnection,
    item_id: i64,
) -> Result<Option<Group>, sqlx::Error> {
    let found: Option<(i64, i64)> = sqlx::query_as(
        "SELECT CAST(limit_groups.id AS SIGNED), CAST(limit_groups.per_buyer_limit AS SIGNED) \
         FROM items JOIN limit_groups ON limit_groups.id = limit_group_id WHERE items.id = ?",
    )
    .bind(item_id)
    .fetch_optional(&mut *connection)
    .await?;
    let Some((id, limit)) = found else { return Ok(None) };
    let over = sqlx::query_as(
        "SELECT CAST(user_id AS SIGNED), CAST(SUM(quantity) AS SIGNED) AS units FROM orders \
         WHERE item_id IN (SELECT item_id FROM limit_group_items WHERE group_id = ?) \
           AND limit_group_id = ? AND status IN ('pending', 'paid') \
         GROUP BY user_id HAVING units > ? ORDER BY user_id",
    )
    .bind(id)
    .bind(id)
    .bind(limit)
    .fetch_all(connection)
    .await?;
    Ok(Some(Group { limit, over }))
}

/// What [`place`] reads.
const PLACE_COLUMNS: &str = "CAST(place AS SIGNED) AS place, CAST(user_id AS SIGNED) AS buyer, \
     CAST(status AS CHAR) AS status, \
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', joined_at) AS joined, \
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', offered_at) AS offered, \
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', closed_at) AS closed, \
     CAST(order_id AS CHAR) AS order_id";

/// A row with the [`PLACE_COLUMNS`].
fn place(row: &MySqlRow) -> Result<Place, sqlx::Error> {
    Ok(Place {
        number: row.try_get("place")?,
        buyer: row.try_get("buyer")?,
        status: row.try_get("status")?,
        joined_at: row.try_get("joined")?,
        offered_at: row.try_get("offered")?,
        closed_at: row.try_get("closed")?,
        order_id: row.try_get("order_id")?,
    })
}

/// A row with `total` and `available`.
fn stock(row: &MySqlRow) -> Result<Stock, sqlx::Error> {
    Ok(Stock { total: row.try_get("total")?, available: row.try_get("available")? })
}

/// What [`order`] reads.
const ORDER_COLUMNS: &str = "CAST(id AS CHAR) AS id, CAST(user_id AS SIGNED) AS buyer, \
     CAST(quantity AS SIGNED) AS quantity, CAST(status AS CHAR) AS status, \
     CAST(request_key AS CHAR) AS request_key, CAST(fence AS UNSIGNED) AS fence, \
     CAST(fence_backend AS CHAR) AS fence_backend, CAST(fence_sequence AS UNSIGNED) AS fence_sequence";

/// A row with the [`ORDER_COLUMNS`].
fn order(row: &MySqlRow) -> Result<Order, sqlx::Error> {
    let (backend, sequence) = (row.try_get("fence_backend")?, row.try_get("fence_sequence")?);
    let number: Option<u64> = row.try_get("fence")?;
    Ok(Order {
        id: row.try_get("id")?,
        buyer: row.try_get("buyer")?,
        quantity: row.try_get("quantity")?,
        status: row.try_get("status")?,
        key: row.try_get("request_key")?,
        fence: number.map(|number| Fence { number, backend, sequence }),
    })
}

/// What [`restock`] reads.
const RESTOCK_COLUMNS: &str = "CAST(id AS CHAR) AS id, CAST(delta AS SIGNED) AS units";

/// A row with the [`RESTOCK_COLUMNS`].
fn restock(row: &MySqlRow) -> Result<Restock, sqlx::Error> {
    Ok(Restock { id: row.try_get("id")?, units: row.try_get("units")? })
}

/// A row with `reason`, `movements` and `units`.
fn movements(row: &MySqlRow) -> Result<Movements, sqlx::Error> {
    Ok(Movements {
        reason: row.try_get("reason")?,
        count: row.try_get("movements")?,
        units: row.try_get("units")?,
    })
}

/// Why nothing can be judged.
fn unreadable(error: &sqlx::Error) -> CannotJudge {
    CannotJudge(format!("the ledger cannot be read: {error}"))
}
