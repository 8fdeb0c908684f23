//! Baseline T: one durable transaction per order on one hot row, without HTTP: BEGIN, INSERT,
//! UPDATE, COMMIT, over several numbers of connections. The number with the highest rate counts.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlSslMode};
use sqlx::{ConnectOptions, Connection, Executor};

use loadtest::failure::CannotJudge;

/// The numbers of connections that are tried.
pub const CONNECTIONS: [u32; 5] = [1, 4, 8, 16, 64];

/// More stock than any run sells.
const STOCK: i64 = 1_000_000_000;

/// Two tables of its own in the service's schema, dropped at the end.
pub struct PerOrder {
    options: MySqlConnectOptions,
}

impl PerOrder {
    /// Makes the tables.
    pub async fn prepare(database_url: &str) -> Result<Self, CannotJudge> {
        let options = MySqlConnectOptions::from_str(database_url)
            .map_err(|_| CannotJudge("DATABASE_URL is not a mysql:// address".to_owned()))?
            .disable_statement_logging();
        // As the service reads it: TLS only where the address asks for it.
        let has_tls = database_url.contains("ssl-mode=");
        let options = if has_tls { options } else { options.ssl_mode(MySqlSslMode::Disabled) };
        let baseline = Self { options };
        baseline.drop_tables().await?;
        let mut connection = baseline.connect().await?;
        for statement in [
            "CREATE TABLE bench_orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, item_id BIGINT NOT NULL, \
             user_id BIGINT NOT NULL, quantity BIGINT NOT NULL, KEY by_user (user_id)) ENGINE=InnoDB",
            "CREATE TABLE bench_stock (item_id BIGINT PRIMARY KEY, available BIGINT NOT NULL) ENGINE=InnoDB",
        ] {
            connection.execute(statement).await.map_err(failed)?;
        }
        sqlx::query("INSERT INTO bench_stock VALUES (1, ?)")
            .bind(STOCK)
            .execute(&mut connection)
            .await
            .map_err(failed)?;
        Ok(baseline)
    }

    /// Orders per second over `connections` connections.
    pub async fn per_second(&self, connections: u32, span: Duration) -> Result<f64, CannotJudge> {
        let mut opened = Vec::new();
        for _ in 0..connections {
            opened.push(self.connect().await?);
        }
        let orders = Arc::new(AtomicU64::new(0));
        let over = Arc::new(AtomicBool::new(false));
        let began = Instant::now();
        let mut tasks = tokio::task::JoinSet::new();
        for (number, mut connection) in (1_i64..).zip(opened) {
            let (orders, over) = (Arc::clone(&orders), Arc::clone(&over));
            tasks.spawn(async move {
                while !over.load(Ordering::Relaxed) {
                    order(&mut connection, number).await?;
                    orders.fetch_add(1, Ordering::Relaxed);
                }
                connection.close().await
            });
        }
        tokio::time::sleep(span).await;
        let (written, elapsed) = (orders.load(Ordering::Relaxed), began.elapsed());
        over.store(true, Ordering::Relaxed);
        while let Some(ended) = tasks.join_next().await {
            ended.map_err(|error| CannotJudge(error.to_string()))?.map_err(failed)?;
        }
        Ok(written as f64 / elapsed.as_secs_f64())
    }

    /// Removes the tables.
    pub async fn drop_tables(&self) -> Result<(), CannotJudge> {
        let mut connection = self.connect().await?;
        connection.execute("DROP TABLE IF EXISTS bench_orders").await.map_err(failed)?;
        connection.execute("DROP TABLE IF EXISTS bench_stock").await.map_err(failed)?;
        Ok(())
    }

    async fn connect(&self) -> Result<MySqlConnection, CannotJudge> {
        self.options.connect().await.map_err(failed)
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

#[expect(clippy::needless_pass_by_value, reason = "it stands in map_err")]
fn failed(error: sqlx::Error) -> CannotJudge {
    CannotJudge(format!("the database for baseline T: {error}"))
}
