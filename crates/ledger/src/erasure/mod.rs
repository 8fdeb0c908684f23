//! The deletion of a person: the account goes, and what the ledger needs to add up stays, under the number alone.
//!
//! Orders, movements, limits, places in waiting lists and payments name a user by a number, which no other user ever gets.
//! Without the account's row nothing here says whose number it is. [`traces`] lists all that the ledger has of a person.
//!
//! The transaction that deletes the account writes a row of `erased_users`. Joins of waiting lists and entries of draws
//! read it in their own transactions, so none that begins later adds a place. One that began earlier has ended after a
//! minute. So the places are ended twice: at once after the deletion, and by [`finish`] a minute later. The row is gone
//! when the person has come back meanwhile; then the places stay.

pub mod traces;

use sqlx::{MySqlConnection, MySqlExecutor};

use crate::rows::account::actions::{self, Actor};
use crate::rows::account::subjects::{self, SubjectKeys};
use crate::rows::account::{erased, sessions};
use crate::rows::item::draws;
use crate::rows::order::{failures, orders};
use crate::sql::statement::{Read, Write};
use crate::sql::{Database, Rollback};
use crate::waiting_list::{LineChange, Waitlist};
use crate::work::{Ledger, RetryPolicy, failed_change, failed_read, stock_lock};
use shop_domain::columns::Text;
use shop_domain::{ItemId, LedgerError, UserId};
use traces::Fate;

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

/// What [`finish`] did.
#[derive(Clone, Debug, Default)]
pub struct Finished {
    /// What became of the lines in which the people waited.
    pub lines: Vec<(ItemId, LineChange)>,
    /// People of whom something is left, for example because an item's stock is locked.
    pub put_off: usize,
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

/// Who is deleted, and how that was proved.
#[derive(Clone, Copy, Debug)]
pub struct ErasureRequest<'a> {
    pub user: UserId,
    /// The hash of the password that was checked, if one was.
    pub password_hash: Option<&'a str>,
    /// The operator who decides: the log of operators' actions gets a line.
    pub actor: Option<&'a Actor>,
    /// The keys under which the person's subject at the identity provider is hashed.
    pub keys: &'a SubjectKeys,
}

/// Deletes a person: checks that no order is open, deletes the account and ends its sessions in one transaction, and
/// then ends all its places. May be repeated.
pub async fn erase(
    waitlist: &Waitlist,
    request: &ErasureRequest<'_>,
) -> Result<Erasure, EraseError> {
    let user = request.user;
    let ledger = &waitlist.ledger;
    if ledger.read(has_open_order(&ledger.pool, user)).await? {
        return Err(EraseError::OrdersOpen);
    }
    let deleted = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(delete_account(transaction, request))
    });
    let (had_account, generation) = deleted.await.map_err(|error| match error {
        Rollback::Refused(refusal) => refusal,
        Rollback::Failed(error) => EraseError::Ledger(failed_change(&error)),
    })?;
    failpoint!("account-erased");
    let mut lines = Vec::new();
    if let Err(error) = end_places(waitlist, user, had_account, &mut lines).await {
        tracing::warn!(%error, %user, "places of a deleted account not ended yet; a job ends them");
    }
    Ok(Erasure { had_account, generation, lines })
}

/// Ends the places of deleted people that transactions wrote which were under way, and forgets what no sale needs any
/// more: of a few people in one call. Any instance may do it at any time. What fails for one person is put off, and the
/// others go on.
///
/// # Errors
/// When the ledger does not say whose turn it is.
pub async fn finish(waitlist: &Waitlist) -> Result<Finished, LedgerError> {
    let pool = &waitlist.ledger.pool;
    let mut finished = Finished::default();
    for user in erased::due(pool).await.map_err(|error| failed_read(&error))? {
        if let Err(error) = finish_one(waitlist, user, &mut finished.lines).await {
            finished.put_off += 1;
            tracing::warn!(%error, %user, "places of a deleted person not ended yet; tried again later");
            let put_off = erased::put_off(pool, user).await;
            put_off.map_err(|error| failed_change(&error))?;
        }
    }
    Ok(finished)
}

async fn finish_one(
    waitlist: &Waitlist,
    user: UserId,
    lines: &mut Vec<(ItemId, LineChange)>,
) -> Result<(), LedgerError> {
    end_places(waitlist, user, true, lines).await?;
    let settled = erased::settle(&waitlist.ledger.pool, user).await;
    settled.map_err(|error| failed_change(&error))
}

/// Takes the person's entries of open draws back, and leaves all waiting lists. An item that fails stops no other one.
/// The deletion of a person who `had_account` is in `erased_users`, unless the person has come back.
///
/// # Errors
/// The first item's that failed, when all others are done.
async fn end_places(
    waitlist: &Waitlist,
    user: UserId,
    had_account: bool,
    lines: &mut Vec<(ItemId, LineChange)>,
) -> Result<(), LedgerError> {
    let ledger = &waitlist.ledger;
    let mut failed = None;
    for item in ledger.read(draws::entered_by(&ledger.pool, user)).await? {
        if let Err(error) = withdraw(ledger, item, user, had_account).await {
            failed.get_or_insert(error);
        }
    }
    for item in ledger.read(waits_for(&ledger.pool, user)).await? {
        let left = if had_account {
            waitlist.leave_if_erased(item, user).await
        } else {
            waitlist.leave(item, user).await
        };
        match left {
            Ok(change) => lines.extend(change.map(|change| (item, change))),
            Err(error) => {
                failed.get_or_insert(error);
            }
        }
    }
    failed.map_or(Ok(()), Err)
}

/// Takes the person's entry of a draw back. A draw that closed meanwhile keeps the entry, and gives it no live place.
async fn withdraw(
    ledger: &Ledger,
    item: ItemId,
    user: UserId,
    had_account: bool,
) -> Result<(), LedgerError> {
    let permit = &ledger.permit(item).await?;
    let withdrawn = ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(async move {
            // Under the lock nobody enters.
            stock_lock::lock(transaction, permit).await?;
            if had_account && !erased::contains(&mut **transaction, user).await? {
                return Ok(());
            }
            if draws::is_open(transaction, item).await? == Some(true) {
                draws::delete_entry(transaction, item, user).await?;
            }
            Ok(())
        })
    });
    withdrawn.await
}

async fn delete_account(
    transaction: &mut MySqlConnection,
    request: &ErasureRequest<'_>,
) -> Result<(bool, u32), Rollback<EraseError>> {
    let ErasureRequest { user, password_hash, actor, keys } = *request;
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
        let subject_hash = subjects::hash_of(transaction, user, keys).await?;
        erased::insert(transaction, user, subject_hash).await?;
    }
    for trace in traces::ALL.iter().filter(|trace| trace.fate == Fate::RowsDeleted) {
        let delete = format!("DELETE FROM {} WHERE {} = ?", trace.table, trace.column);
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
        "SELECT 1 FROM orders WHERE buyer_bucket IN ({buckets}) AND user_id = ? \
         AND status IN ('queued', 'pending') LIMIT 1"
    );
    let open: Option<i64> = sqlx::query_scalar(&open).bind(user.get()).first(pool).await?;
    Ok(open.is_some())
}

/// The items in whose lines a person has a place. By item: there is no index by user, and there are fewer items than
/// places.
async fn waits_for(from: impl MySqlExecutor<'_>, user: UserId) -> sqlx::Result<Vec<ItemId>> {
    let live = "SELECT items.id FROM items STRAIGHT_JOIN waiting_list \
         ON waiting_list.item_id = items.id AND user_id = ? AND live = 1";
    sqlx::query_scalar(live).bind(user.get()).all(from).await
}
