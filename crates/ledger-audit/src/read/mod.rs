//! Reads ledgers with SQL of this crate's own.

mod hosts;
mod rows;

pub use hosts::writer_of;

use std::collections::{HashMap, HashSet};
use std::time::{Duration, Instant};

use serde::Serialize;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use tokio::time::{sleep, timeout};

use crate::{Answer, CannotJudge, Ledger, Outcome};

/// Connecting and each reading must end within this.
const SQL_SECONDS_MAX: u64 = 60;
/// How long whole ledgers may be read: five million orders took more than a minute.
const LEDGER_SECONDS_MAX: u64 = 600;
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
/// It uses only the columns that outside tools may rely on: `items(id)`, `stock(item_id, total,
/// available)`, `orders(id, item_id, user_id, quantity, status, request_key, fence, fence_backend,
/// fence_sequence)`, `stock_movements(item_id, order_id, delta, reason)` and `restocks(id, item_id, delta)`; and
/// for buyers who wait and limits that items share `stock(offered)`, `waiting_list`,
/// `orders(limit_group_id)`, `limit_groups` and `limit_group_items`; for orders of several items
/// `orders(line_count)`; `draws` and `draw_entries`; `orders(amount_cents)` and `items(price_cents)`.
/// Each reading is one consistent snapshot, on shards of Vitess one of each shard, and ends within 60 s.
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
    pub async fn ledger(&mut self, item: i64) -> Result<Ledger, CannotJudge> {
        let mut found = self.snapshot(item, item, true).await?;
        Ok(found.remove(&item).unwrap_or_default())
    }

    /// The ledgers of several items in one snapshot, in the order of `items`, without the limits that
    /// items share. Everything between the lowest and the highest id is read, so the ids should lie
    /// close together.
    pub async fn ledgers(&mut self, items: &[i64]) -> Result<Vec<Ledger>, CannotJudge> {
        let (Some(first), Some(last)) = (items.iter().min(), items.iter().max()) else {
            return Ok(Vec::new());
        };
        let mut found = self.snapshot(*first, *last, false).await?;
        Ok(items.iter().map(|item| found.remove(item).unwrap_or_default()).collect())
    }

    /// The ledgers of the items from `first` to `last` in one snapshot.
    async fn snapshot(
        &mut self,
        first: i64,
        last: i64,
        with_groups: bool,
    ) -> Result<HashMap<i64, Ledger>, CannotJudge> {
        let connection = self.connected().await?;
        let reading = rows::snapshot(connection, first, last, with_groups);
        let failure = match timeout(Duration::from_secs(LEDGER_SECONDS_MAX), reading).await {
            Ok(Ok(ledgers)) => return Ok(ledgers),
            Ok(Err(error)) => unreadable(&error),
            Err(_) => {
                CannotJudge(format!("reading the ledger took more than {LEDGER_SECONDS_MAX} s"))
            }
        };
        // The server may have been killed meanwhile: the next reading connects anew.
        self.connection = None;
        Err(failure)
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

/// Why nothing can be judged.
fn unreadable(error: &sqlx::Error) -> CannotJudge {
    CannotJudge(format!("the ledger cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Order;
    use crate::tests::sale::{ledger, order, sold};

    #[test]
    fn a_ledger_is_settled_once_no_order_is_queued_and_each_queued_answer_is_there() {
        let settled = |status: &str, queued: &[&str]| {
            let order = Order { status: status.to_owned(), ..order(1) };
            is_settled(&ledger(1, 0, vec![order], Vec::new()), &queued.iter().copied().collect())
        };
        assert!(settled("pending", &[]));
        assert!(settled("rejected", &["order-1"]));
        assert!(!settled("pending", &["order-2"]));
        assert!(!settled("queued", &[]));
    }

    #[tokio::test]
    async fn a_database_that_is_away_is_asked_until_the_limit_and_then_named() {
        let mut reader = Reader::new("mysql://nobody@127.0.0.1:1/none").expect("an address");
        let queued = [Answer { status: 202, ..sold(1) }];
        let began = Instant::now();
        let reading = reader.settled_ledger(1, &queued, QUIET * 3 / 2);
        let settled = timeout(Duration::from_secs(60), reading).await;
        let failure = settled.expect("it ends").expect_err("nobody answers");
        assert!(failure.0.contains("cannot be reached"), "{failure}");
        assert!(began.elapsed() >= QUIET * 2);
    }
}
