//! Statements of the bench on the database of the ledger, and the tables that a baseline makes there.

use ledger_audit::writer_of;
use loadtest::failure::{CannotJudge, OrCannotJudge};
use sqlx::Connection;
use sqlx::mysql::MySqlConnection;

/// More stock than any baseline sells.
pub const STOCK: i64 = 1_000_000_000;

/// Sends statements, or several in one packet.
pub async fn send(connection: &mut MySqlConnection, statements: &str) -> Result<(), CannotJudge> {
    let sent = sqlx::raw_sql(statements).execute(connection).await;
    sent.map(|_| ()).or_cannot_judge("the database does not take a statement")
}

/// Sends statements over a connection of their own.
pub async fn execute(database_url: &str, statements: &str) -> Result<(), CannotJudge> {
    let mut connection = writer_of(database_url).await?;
    send(&mut connection, statements).await?;
    // What was sent is answered. MySQL does not wait for the end of TLS on a socket, so this may fail.
    let _ = connection.close().await;
    Ok(())
}

/// Tables beside those of the service, until they are dropped.
pub struct Tables {
    database_url: String,
    names: Vec<&'static str>,
}

impl Tables {
    /// Makes each table `name` as `CREATE TABLE name definition` says, then one row of stock.
    pub async fn make(
        database_url: &str,
        definitions: &[(&'static str, &str)],
        stock_row: &str,
    ) -> Result<Self, CannotJudge> {
        let names = definitions.iter().map(|(name, _)| *name).collect();
        let tables = Self { database_url: database_url.to_owned(), names };
        tables.drop_all().await?;
        for (name, definition) in definitions {
            execute(database_url, &format!("CREATE TABLE {name} {definition}")).await?;
        }
        execute(database_url, stock_row).await?;
        Ok(tables)
    }

    /// A connection to them.
    pub async fn connect(&self) -> Result<MySqlConnection, CannotJudge> {
        writer_of(&self.database_url).await
    }

    /// Removes them.
    pub async fn drop_all(&self) -> Result<(), CannotJudge> {
        execute(&self.database_url, &format!("DROP TABLE IF EXISTS {}", self.names.join(", ")))
            .await
    }
}
