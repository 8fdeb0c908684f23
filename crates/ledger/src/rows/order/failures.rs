//! Failed sign-ins, counted by account and address for all instances together, by the database's
//! clock.
//!
//! The table stays small: only a try with a hashing permit is counted, and rows older than the
//! window are deleted.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use sha2::{Digest, Sha256};
use sqlx::MySqlConnection;

use crate::work::{Ledger, RetryPolicy};
use mysql_connection::statement::{Binds, Write};
use mysql_connection::{Database, Rollback};

/// The address of the row that counts an account's failures from everywhere.
const EVERYWHERE: &str = "";
/// Rows that one clean-up deletes.
const FORGET_MAX: u32 = 1_000;

/// The failures of an account within the window, with the try that was just counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failures {
    /// Failures from the address of the try.
    pub of_address: u32,
    /// Failures from all addresses together.
    pub of_account: u32,
}

/// Counts a try as failed before its password is verified, so that many at once cannot exceed the
/// limit while their passwords are hashed. [`forgive`] takes it back. A try that `is_allowed`
/// refuses is not counted.
///
/// # Errors
/// The database's; the transaction is rolled back.
pub async fn count(
    ledger: &Ledger,
    account: &str,
    address: &str,
    window_seconds: u32,
    is_allowed: fn(Failures) -> bool,
) -> sqlx::Result<Failures> {
    let counted = ledger.transact(RetryPolicy::ONCE, |transaction| {
        Box::pin(async move {
            let failures = raise(transaction, account, address, window_seconds).await?;
            if is_allowed(failures) { Ok(failures) } else { Err(Rollback::Refused(failures)) }
        })
    });
    match counted.await {
        Ok(failures) | Err(Rollback::Refused(failures)) => Ok(failures),
        Err(Rollback::Failed(error)) => Err(error),
    }
}

async fn raise(
    connection: &mut MySqlConnection,
    account: &str,
    address: &str,
    window_seconds: u32,
) -> sqlx::Result<Failures> {
    // Every transaction takes the account's row first: no two of them wait for each other.
    sqlx::query(
        "INSERT INTO sign_in_failures (account, address, failures, since) \
         VALUES (?, ?, 1, UTC_TIMESTAMP(6)), (?, ?, 1, UTC_TIMESTAMP(6)) \
         ON DUPLICATE KEY UPDATE \
         failures = IF(since < UTC_TIMESTAMP(6) - INTERVAL ? SECOND, 1, failures + 1), \
         since = IF(since < UTC_TIMESTAMP(6) - INTERVAL ? SECOND, UTC_TIMESTAMP(6), since)",
    )
    .binds((account, EVERYWHERE, account, address, window_seconds, window_seconds))
    .execute(&mut *connection)
    .await?;
    let rows: Vec<(i64, u32)> = sqlx::query_as(
        "SELECT address = ? AS everywhere, failures FROM sign_in_failures \
         WHERE account = ? AND address IN (?, ?)",
    )
    .binds((EVERYWHERE, account, EVERYWHERE, address))
    .fetch_all(&mut *connection)
    .await?;
    let mut failures = Failures { of_address: 0, of_account: 0 };
    for (everywhere, count) in rows {
        match everywhere {
            1 => failures.of_account = count,
            _ => failures.of_address = count,
        }
    }
    Ok(failures)
}

/// The name of an account in the table: a hash, because people type passwords into the wrong field.
pub fn account_of(username_folded: &str) -> String {
    BASE64.encode(Sha256::digest(username_folded))
}

/// Deletes all counts of an account.
pub(crate) async fn forget(
    connection: &mut MySqlConnection,
    username_folded: &str,
) -> sqlx::Result<()> {
    let forget = sqlx::query("DELETE FROM sign_in_failures WHERE account = ?");
    forget.bind(account_of(username_folded)).run(connection).await
}

/// Takes back one counted try.
pub async fn forgive(pool: &Database, account: &str, address: &str) -> sqlx::Result<()> {
    sqlx::query(
        "UPDATE sign_in_failures SET failures = failures - 1 \
         WHERE account = ? AND address IN (?, ?) AND failures > 0",
    )
    .binds((account, EVERYWHERE, address))
    .run(pool)
    .await
}

/// Deletes counts that are older than the window.
pub async fn forget_old(pool: &Database, window_seconds: u32) -> sqlx::Result<u64> {
    sqlx::query(
        "DELETE FROM sign_in_failures WHERE since < UTC_TIMESTAMP(6) - INTERVAL ? SECOND LIMIT ?",
    )
    .binds((window_seconds, FORGET_MAX))
    .changed(pool)
    .await
}
