//! A store that checks fences: a row of MySQL with a number and the highest fence that it has seen.

use sqlx::{Connection, MySqlConnection};

use super::testbed::Testbed;

/// The number, and the connection on which one process reads and writes it.
pub struct Number(MySqlConnection);

impl Number {
    /// Makes the table with the number 0.
    pub async fn make(testbed: &Testbed) {
        let table =
            "CREATE TABLE number (value BIGINT UNSIGNED NOT NULL, fence BIGINT UNSIGNED NOT NULL)";
        for statement in [table, "INSERT INTO number VALUES (0, 0)"] {
            sqlx::query(statement).execute(testbed.pool().await).await.expect("made");
        }
    }

    /// Connects to the store.
    pub async fn open(testbed: &Testbed) -> Self {
        Self::at(testbed.database_url().await).await
    }

    /// Connects to the store in this database.
    pub async fn at(url: &str) -> Self {
        Self(MySqlConnection::connect(url).await.expect("connected"))
    }

    /// Shows the fence to the store, so that it refuses earlier holders from now on, and reads.
    /// `None`: the store has seen a later fence.
    pub async fn read(&mut self, fence: u64) -> Option<u64> {
        let raised = sqlx::query("UPDATE number SET fence = ? WHERE fence <= ?")
            .bind(fence)
            .bind(fence)
            .execute(&mut self.0)
            .await;
        (raised.expect("UPDATE").rows_affected() == 1).then_some(())?;
        let read = sqlx::query_scalar("SELECT value FROM number").fetch_one(&mut self.0).await;
        Some(read.expect("SELECT"))
    }

    /// Writes, unless the store has seen a later fence; whether it did.
    pub async fn write(&mut self, value: u64, fence: u64) -> bool {
        let written = sqlx::query("UPDATE number SET value = ? WHERE fence <= ?")
            .bind(value)
            .bind(fence)
            .execute(&mut self.0)
            .await;
        written.expect("UPDATE").rows_affected() == 1
    }
}
