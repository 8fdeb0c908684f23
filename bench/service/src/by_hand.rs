//! Baseline of P12: the transaction of one order, by hand, over one connection with nobody else.
//!
//! It writes the rows that an order writes (order, buyer's limit, movement, stock) into copies of the
//! ledger's tables, with the fewest round trips: one packet, which the server stops where the stock's
//! condition fails.

use std::time::{Duration, Instant};

use sqlx::Connection;
use uuid::Uuid;

use crate::processes::{Moment, Services};
use crate::sample::Sample;
use crate::statements::{self, STOCK, Tables};
use loadtest::failure::{CannotJudge, OrCannotJudge};
use loadtest::report::summary::Latency;

/// The copies, and what they are copies of.
const TABLES: [(&str, &str); 4] = [
    ("bench_hand_orders", "LIKE orders"),
    ("bench_hand_limits", "LIKE buyer_limits"),
    ("bench_hand_movements", "LIKE stock_movements"),
    ("bench_hand_stock", "LIKE stock"),
];

/// The tables, until they are dropped.
pub struct ByHand {
    pub tables: Tables,
    /// Buyers so far: each buys once.
    buyers: u64,
}

impl ByHand {
    /// Makes the tables beside those of the service.
    pub async fn prepare(database_url: &str) -> Result<Self, CannotJudge> {
        let stock = format!(
            "INSERT INTO bench_hand_stock (item_id, total, available) VALUES (1, {STOCK}, {STOCK})"
        );
        Ok(Self { tables: Tables::make(database_url, &TABLES, &stock).await?, buyers: 0 })
    }

    /// The median of `orders` orders in microseconds, in `span` at most.
    pub async fn p50_us(&mut self, orders: u32, span: Duration) -> Result<Sample, CannotJudge> {
        let mut connection = self.tables.connect().await?;
        let mut latencies = Vec::with_capacity(orders as usize);
        let began = Instant::now();
        let before = Moment::now(&Services::default());
        while latencies.len() < orders as usize && began.elapsed() < span {
            self.buyers += 1;
            let packet = packet(self.buyers);
            let sent = Instant::now();
            statements::send(&mut connection, &packet).await?;
            latencies.push(u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        let used = before.until(&Moment::now(&Services::default()));
        connection.close().await.or_cannot_judge("the database for the transaction by hand")?;
        let p50_us = Latency::of_all(&latencies).p50_us as f64;
        Ok(Sample::of_baseline(p50_us, latencies.len() as u64, &used))
    }
}

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
