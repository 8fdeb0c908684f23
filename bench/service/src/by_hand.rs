//! Baseline of P12: the transaction of one order, by hand, over one connection with nobody else.
//!
//! It writes the rows that an order writes (order, buyer's limit, movement, stock) into copies of the
//! ledger's tables, with the fewest round trips: one packet, which the server stops where the stock's
//! condition fails.

use std::time::{Duration, Instant};

use ledger_audit::writer_of;
use sqlx::Connection;
use sqlx::mysql::MySqlConnection;
use uuid::Uuid;

use crate::processes::{Moment, Services, Used};
use loadtest::failure::CannotJudge;
use loadtest::report::summary::Latency;

/// The copies, and the tables that they are copies of.
const TABLES: [(&str, &str); 4] = [
    ("bench_hand_orders", "orders"),
    ("bench_hand_limits", "buyer_limits"),
    ("bench_hand_movements", "stock_movements"),
    ("bench_hand_stock", "stock"),
];
/// More stock than any run sells.
const STOCK: i64 = 1_000_000_000;

/// The tables, until they are dropped.
pub struct ByHand {
    database_url: String,
    /// Buyers so far: each buys once.
    buyers: u64,
}

impl ByHand {
    /// Makes the tables beside those of the service.
    pub async fn prepare(database_url: &str) -> Result<Self, CannotJudge> {
        let by_hand = Self { database_url: database_url.to_owned(), buyers: 0 };
        by_hand.drop_tables().await?;
        let mut connection = writer_of(database_url).await?;
        for (copy, table) in TABLES {
            execute(&mut connection, &format!("CREATE TABLE {copy} LIKE {table}")).await?;
        }
        let stock = format!(
            "INSERT INTO bench_hand_stock (item_id, total, available) VALUES (1, {STOCK}, {STOCK})"
        );
        execute(&mut connection, &stock).await?;
        Ok(by_hand)
    }

    /// The median of `orders` orders in microseconds, in `span` at most, and what they used.
    pub async fn p50_us(
        &mut self,
        orders: u32,
        span: Duration,
    ) -> Result<(f64, u64, Used), CannotJudge> {
        let mut connection = writer_of(&self.database_url).await?;
        let mut latencies = Vec::with_capacity(orders as usize);
        let (began, before) = (Instant::now(), Moment::now(&Services::Named));
        while latencies.len() < orders as usize && began.elapsed() < span {
            self.buyers += 1;
            let packet = packet(self.buyers);
            let sent = Instant::now();
            execute(&mut connection, &packet).await?;
            latencies.push(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        let used = before.until(&Moment::now(&Services::Named));
        connection.close().await.map_err(failed)?;
        let p50_us = Latency::of_all(&latencies).p50_us as f64;
        Ok((p50_us, latencies.len() as u64, used))
    }

    /// Removes the tables.
    pub async fn drop_tables(&self) -> Result<(), CannotJudge> {
        let mut connection = writer_of(&self.database_url).await?;
        for (copy, _) in TABLES {
            execute(&mut connection, &format!("DROP TABLE IF EXISTS {copy}")).await?;
        }
        Ok(())
    }
}

/// All statements of an order. Where the stock has no unit, the last but one fails, and nothing is
/// committed.
fn packet(buyer: u64) -> String {
    let order = Uuid::now_v7();
    format!(
        "BEGIN;\
         INSERT INTO bench_hand_orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
         request_key, created_at, expires_at) VALUES ('{order}', 1, {buyer}, 1, 100, 'pending', \
         'by-hand', '{order}', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR);\
         INSERT INTO bench_hand_limits (item_id, user_id, bought, allowed) VALUES (1, {buyer}, 1, 1) \
         ON DUPLICATE KEY UPDATE bought = bought + 1;\
         INSERT INTO bench_hand_movements (item_id, order_id, reason, delta, created_at) \
         VALUES (1, '{order}', 'sold', -1, UTC_TIMESTAMP(6));\
         UPDATE bench_hand_stock SET available = available - 1, version = version + 1 \
         WHERE item_id = 1 AND available >= 1;\
         SET @one_row = IF(ROW_COUNT() = 1, 1, (SELECT 1 UNION ALL SELECT 2));\
         COMMIT"
    )
}

async fn execute(connection: &mut MySqlConnection, statements: &str) -> Result<(), CannotJudge> {
    sqlx::raw_sql(statements).execute(connection).await.map(|_| ()).map_err(failed)
}

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn failed(error: sqlx::Error) -> CannotJudge {
    CannotJudge(format!("the database for the transaction by hand: {error}"))
}
