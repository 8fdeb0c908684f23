//! Baseline T: one durable transaction per order on one hot row, without HTTP: BEGIN, INSERT,
//! UPDATE, COMMIT, over several numbers of connections. The number with the highest rate counts.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use sqlx::Connection;
use sqlx::mysql::MySqlConnection;

use crate::processes::{Moment, Services};
use crate::sample::Sample;
use crate::statements::{STOCK, Tables};
use loadtest::failure::{CannotJudge, OrCannotJudge};

/// The numbers of connections that are tried.
const CONNECTIONS: [u32; 5] = [1, 4, 8, 16, 64];
const WHAT: &str = "the database for baseline T";

/// Two tables of its own in the service's schema, dropped at the end.
pub struct PerOrder {
    pub tables: Tables,
}

impl PerOrder {
    /// Makes the tables.
    pub async fn prepare(database_url: &str) -> Result<Self, CannotJudge> {
        let tables = [
            (
                "bench_orders",
                "(id BIGINT AUTO_INCREMENT PRIMARY KEY, item_id BIGINT NOT NULL, user_id BIGINT NOT NULL, \
                 quantity BIGINT NOT NULL, KEY by_user (user_id)) ENGINE=InnoDB",
            ),
            (
                "bench_stock",
                "(item_id BIGINT PRIMARY KEY, available BIGINT NOT NULL) ENGINE=InnoDB",
            ),
        ];
        let stock = format!("INSERT INTO bench_stock VALUES (1, {STOCK})");
        Ok(Self { tables: Tables::make(database_url, &tables, &stock).await? })
    }

    /// Orders per second over the best number of connections.
    pub async fn best(&self, span: Duration) -> Result<Sample, CannotJudge> {
        let share = span / u32::try_from(CONNECTIONS.len()).unwrap_or(1);
        let mut best = Sample::default();
        for connections in CONNECTIONS {
            let written = self.write(connections, share).await?;
            if written.value > best.value {
                best = written;
            }
        }
        Ok(best)
    }

    /// The orders per second that `connections` connections write in `span`.
    async fn write(&self, connections: u32, span: Duration) -> Result<Sample, CannotJudge> {
        let mut opened = Vec::new();
        for _ in 0..connections {
            opened.push(self.tables.connect().await?);
        }
        let orders = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let before = Moment::now(&Services::default());
        let mut tasks = tokio::task::JoinSet::new();
        for (number, mut connection) in (1_i64..).zip(opened) {
            let orders = Arc::clone(&orders);
            let over = Arc::clone(&over);
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    order(&mut connection, number).await?;
                    orders.fetch_add(1, Ordering::Relaxed);
                }
                connection.close().await
            });
        }
        tokio::time::sleep(span).await;
        let written = orders.load(Ordering::Relaxed);
        let after = Moment::now(&Services::default());
        over.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.or_cannot_judge(WHAT)?.or_cannot_judge(WHAT)?;
        }
        let used = before.until(&after);
        Ok(Sample::of_baseline(written as f64 / used.elapsed, written, &used))
    }
}

async fn order(connection: &mut MySqlConnection, user: i64) -> sqlx::Result<()> {
    let mut transaction = connection.begin().await?;
    sqlx::query("INSERT INTO bench_orders (item_id, user_id, quantity) VALUES (1, ?, 1)")
        .bind(user)
        .execute(&mut *transaction)
        .await?;
    sqlx::query(
        "UPDATE bench_stock SET available = available - 1 WHERE item_id = 1 AND available >= 1",
    )
    .execute(&mut *transaction)
    .await?;
    transaction.commit().await
}
