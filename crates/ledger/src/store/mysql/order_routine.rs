//! The stored procedure that writes one order, so that an order is one round trip.
//!
//! Its name contains a digest of its text: a build calls exactly the text that it was made with, and
//! builds of two versions sell side by side. It is optional: an engine may have no procedures
//! (TiDB), and an account may not be allowed to create or to execute them. Then the order's
//! statements are sent instead.

use std::sync::LazyLock;

use sha2::{Digest, Sha256};
use sqlx::{Executor, MySqlConnection};

use super::link::answered;

/// The text, with [`PLACEHOLDER`] for the name.
const TEXT: &str = include_str!("order_routine.sql");
const PLACEHOLDER: &str = "ORDER_ROUTINE";
/// Bytes of the digest that stand in the name.
const DIGEST_BYTES: usize = 6;
/// The session in which the procedure is made decides about these for all who call it.
const SESSION: &str = "SET SESSION sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION'";

/// The procedure's name in the ledger's database.
pub static NAME: LazyLock<String> = LazyLock::new(|| {
    let digest = Sha256::digest(TEXT.as_bytes());
    let digits: Vec<_> =
        digest.iter().take(DIGEST_BYTES).map(|byte| format!("{byte:02x}")).collect();
    format!("write_order_{}", digits.concat())
});

/// Creates the procedure unless it is there. The connection keeps the settings with which it was made.
///
/// # Errors
/// The database's: it has no procedures, this account may not create them, or it does not answer.
pub async fn install(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let work = async {
        let found: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM information_schema.routines \
             WHERE routine_schema = DATABASE() AND routine_name = ?",
        )
        .bind(&*NAME)
        .fetch_one(&mut *connection)
        .await?;
        if found > 0 {
            return Ok(());
        }
        connection.execute(sqlx::raw_sql(SESSION)).await?;
        let text = TEXT.replacen(PLACEHOLDER, &NAME, 1);
        connection.execute(sqlx::raw_sql(&text)).await?;
        Ok(())
    };
    answered(work).await
}

/// Whether the server says that this account has no such procedure: it is missing (1305), or may
/// not be executed (1370).
#[must_use]
pub fn is_missing(number: u16) -> bool {
    matches!(number, 1305 | 1370)
}
