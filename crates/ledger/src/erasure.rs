//! The deletion of a person: the account goes, and what the ledger needs to add up stays, under the number alone.
//!
//! Orders, movements, limits, places in waiting lists and payments name a user by a number that is never given out
//! again. Without the account's row nothing here says whose number it is.

use sqlx::{MySqlConnection, MySqlExecutor};

use crate::rows::actions::{self, Actor};
use crate::rows::statement::{Read, Write};
use crate::rows::{Rollback, failed_change, failures, orders, sessions};
use crate::waiting_list::{LineChange, Waitlist};
use crate::{Database, RetryPolicy};
use shop_domain::columns::Text;
use shop_domain::{ItemId, LedgerError, UserId};

/// The reason why a person was not deleted; no row of the account changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EraseError {
    /// An order of the person is not paid and holds units.
    #[error("an order is open")]
    OrdersOpen,
    /// The account may run sales: its role has to be taken first.
    #[error("the account may run sales")]
    Operator,
    /// The account has another password than the one that was checked.
    #[error("the password was changed")]
    PasswordChanged,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// What was done.
#[derive(Clone, Debug)]
pub struct Erasure {
    /// Whether there was an account.
    pub had_account: bool,
    /// The generation of the user's sessions that no token has.
    pub generation: u32,
    /// What became of the lines in which the person waited.
    pub lines: Vec<(ItemId, LineChange)>,
}

/// Deletes a person: checks that no order is open, leaves all waiting lists, and then deletes the account
/// and ends its sessions in one transaction. May be repeated. `password_hash` is that of the password that was
/// checked; with an `actor` the log of operators' actions gets a line.
pub async fn erase(
    waitlist: &Waitlist,
    user: UserId,
    password_hash: Option<&str>,
    actor: Option<&Actor>,
) -> Result<Erasure, EraseError> {
    let ledger = waitlist.ledger();
    if ledger.read(has_open_order(&ledger.pool, user)).await? {
        return Err(EraseError::OrdersOpen);
    }
    let waits = ledger.read(waits_for(&ledger.pool, user)).await?;
    if ledger.read(role(&ledger.pool, user)).await?.is_some_and(|role| role != "buyer") {
        return Err(EraseError::Operator);
    }
    let mut lines = Vec::new();
    for item in waits {
        lines.extend(waitlist.leave(item, user).await?.map(|change| (item, change)));
    }
    let deleted = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(delete_account(transaction, user, password_hash, actor))
    });
    let (had_account, generation) = deleted.await.map_err(|error| match error {
        Rollback::Refused(refusal) => refusal,
        Rollback::Failed(error) => EraseError::Ledger(failed_change(&error)),
    })?;
    Ok(Erasure { had_account, generation, lines })
}

async fn delete_account(
    transaction: &mut MySqlConnection,
    user: UserId,
    password_hash: Option<&str>,
    actor: Option<&Actor>,
) -> Result<(bool, u32), Rollback<EraseError>> {
    let account: Option<(Text, String, Text)> = sqlx::query_as(
        "SELECT username_folded, password_hash, role FROM users WHERE id = ? FOR UPDATE",
    )
    .bind(user.get())
    .fetch_optional(&mut *transaction)
    .await?;
    if let Some((Text(name), hash, Text(role))) = &account {
        if role != "buyer" {
            return Err(Rollback::Refused(EraseError::Operator));
        }
        if password_hash.is_some_and(|checked| checked != hash) {
            return Err(Rollback::Refused(EraseError::PasswordChanged));
        }
        failures::forget(transaction, name).await?;
    }
    for table in ["users WHERE id", "subjects WHERE user_id", "guests WHERE user_id"] {
        let delete = format!("DELETE FROM {table} = ?");
        sqlx::query(&delete).bind(user.get()).run(&mut *transaction).await?;
    }
    let generation = sessions::begin_generation(transaction, user).await?;
    if let Some(actor) = actor {
        let detail = serde_json::json!({ "user_id": user.get() });
        actions::record(transaction, actor, "user_erased", None, &detail).await?;
    }
    Ok((account.is_some(), generation))
}

async fn has_open_order(pool: &Database, user: UserId) -> sqlx::Result<bool> {
    let buckets = orders::buyer_buckets(pool).await?;
    let open = format!(
        "SELECT EXISTS (SELECT 1 FROM orders WHERE buyer_bucket IN ({buckets}) AND user_id = ? \
         AND status IN ('queued', 'pending'))"
    );
    sqlx::query_scalar(&open).bind(user.get()).one(pool).await
}

async fn role(from: impl MySqlExecutor<'_>, user: UserId) -> sqlx::Result<Option<String>> {
    let found = sqlx::query_scalar("SELECT role FROM users WHERE id = ?").bind(user.get());
    found.first(from).await
}

async fn waits_for(from: impl MySqlExecutor<'_>, user: UserId) -> sqlx::Result<Vec<ItemId>> {
    let live = "SELECT item_id FROM waiting_list WHERE user_id = ? AND live = 1";
    sqlx::query_scalar(live).bind(user.get()).all(from).await
}
