//! The deletion of a person: the account goes, and what the ledger needs to add up stays, under the number alone.
//!
//! Orders, movements, limits, places in waiting lists and payments name a user by a number, which no other user ever gets.
//! Without the account's row nothing here says whose number it is. [`traces`] lists all that the core has of a person, and
//! each extension says what it has.
//!
//! The transaction that deletes the account writes a row of `erased_users`. Joins of waiting lists and entries of draws
//! read it in their own transactions, so none that begins later adds a place. One that began earlier has ended after a
//! minute. So the places are ended twice: at once after the deletion, and by [`Eraser::finish`] a minute later. The row is
//! gone when the person has come back meanwhile; then the places stay.

pub mod traces;

use sqlx::MySqlConnection;

use crate::rows::account::actions::{self, Actor};
use crate::rows::account::subjects::{self, SubjectKeys};
use crate::rows::account::{erased, sessions};
use crate::rows::order::{failures, orders};
use crate::waiting_list::{LineChange, Waitlist};
use crate::work::{RetryPolicy, failed_change, failed_read, stock_lock};
use mysql_connection::statement::{Read, Write};
use mysql_connection::{Database, Rollback};
use shop_domain::columns::Text;
use shop_domain::{ItemId, LedgerError, UserId};
use traces::{EndAtItem, Fate, Trace};

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

/// What [`Eraser::finish`] did.
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
#[derive(Clone, Copy)]
pub struct ErasureRequest<'a> {
    pub user: UserId,
    /// The hash of the password that was checked, if one was.
    pub password_hash: Option<&'a str>,
    /// The operator who decides: the log of operators' actions gets a line.
    pub actor: Option<&'a Actor>,
    /// The keys under which the person's subject at the identity provider is hashed.
    pub keys: &'a SubjectKeys,
}

/// Deletes people.
#[derive(Clone)]
pub struct Eraser {
    pub waitlist: Waitlist,
    /// All that the core and the extensions have of a person.
    pub traces: Vec<&'static Trace>,
    /// The tables of extensions that this program was built without: what they have of a person stays.
    pub tables_left: Vec<&'static str>,
}

impl Eraser {
    /// Deletes a person: checks that no order is open, deletes the account and ends its sessions in one transaction, and
    /// then ends all its places. May be repeated.
    pub async fn erase(&self, request: &ErasureRequest<'_>) -> Result<Erasure, EraseError> {
        let user = request.user;
        let ledger = &self.waitlist.ledger;
        if ledger.read(has_open_order(&ledger.pool, user)).await? {
            return Err(EraseError::OrdersOpen);
        }
        let deleted = ledger.transact(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(delete_account(transaction, &self.traces, request))
        });
        let (had_account, generation) = deleted.await.map_err(|error| match error {
            Rollback::Refused(refusal) => refusal,
            Rollback::Failed(error) => EraseError::Ledger(failed_change(&error)),
        })?;
        failpoint!("account-erased");
        let mut lines = Vec::new();
        if let Err(error) = self.end_places(user, had_account, &mut lines).await {
            tracing::warn!(%error, %user, "places of a deleted account not ended yet; a job ends them");
        }
        Ok(Erasure { had_account, generation, lines })
    }

    /// Ends the places that transactions under way have still written for deleted people, and forgets what no sale
    /// needs any more: for a few people in one call. Any instance may do it at any time. A person for whom this fails
    /// is put off, and the others go on.
    ///
    /// # Errors
    /// When the ledger does not say whose turn it is.
    pub async fn finish(&self) -> Result<Finished, LedgerError> {
        let pool = &self.waitlist.ledger.pool;
        let mut finished = Finished::default();
        for user in erased::due(pool).await.map_err(|error| failed_read(&error))? {
            if let Err(error) = self.finish_one(user, &mut finished.lines).await {
                finished.put_off += 1;
                tracing::warn!(%error, %user, "places of a deleted person not ended yet; tried again later");
                if let Err(error) = erased::put_off(pool, user).await {
                    // No error of the run: buyers must still be told of the places that were ended.
                    tracing::warn!(%error, %user, "person not put off; the next run tries again");
                }
            }
        }
        Ok(finished)
    }

    async fn finish_one(
        &self,
        user: UserId,
        lines: &mut Vec<(ItemId, LineChange)>,
    ) -> Result<(), LedgerError> {
        self.end_places(user, true, lines).await?;
        let settled = erased::settle(&self.waitlist.ledger.pool, user).await;
        settled.map_err(|error| failed_change(&error))
    }

    /// Ends what the person has open: entries of draws, and places in waiting lists. An item that fails stops no other
    /// one. The deletion of a person who `had_account` is in `erased_users`, unless the person has come back.
    ///
    /// # Errors
    /// The first item's that failed, when all others are done.
    async fn end_places(
        &self,
        user: UserId,
        had_account: bool,
        lines: &mut Vec<(ItemId, LineChange)>,
    ) -> Result<(), LedgerError> {
        let ledger = &self.waitlist.ledger;
        let mut failed = None;
        for trace in &self.traces {
            let Fate::Ended { items, end } = trace.fate else { continue };
            let items = sqlx::query_scalar(items).bind(user.get()).all(&ledger.pool);
            let items: Vec<ItemId> = ledger.read(items).await?;
            for item in items {
                match self.end_at(item, user, had_account, end).await {
                    Ok(change) => lines.extend(change.map(|change| (item, change))),
                    Err(error) => failed = failed.or(Some(error)),
                }
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Ends what the person has open at one item, as [`Self::end_places`].
    async fn end_at(
        &self,
        item: ItemId,
        user: UserId,
        had_account: bool,
        end: EndAtItem,
    ) -> Result<Option<LineChange>, LedgerError> {
        let Waitlist { ledger, line } = &self.waitlist;
        let permit = &ledger.permit(item).await?;
        let ended = ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
            Box::pin(async move {
                // Under the lock nobody joins or enters.
                stock_lock::lock(transaction, permit).await?;
                if had_account && !erased::contains(&mut **transaction, user).await? {
                    return Ok(None);
                }
                end(line, transaction, permit, user).await
            })
        });
        ended.await
    }
}

async fn delete_account(
    transaction: &mut MySqlConnection,
    traces: &[&Trace],
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
    for trace in traces.iter().filter(|trace| matches!(trace.fate, Fate::RowsDeleted)) {
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
