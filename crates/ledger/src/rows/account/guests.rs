//! The buyers of other shops. A shop names a buyer by a reference of its own; the first request with a reference makes a
//! row, which gives it a user id. The table's keys decide: two references, or two shops, never share a buyer.
//!
//! No row is remembered here: an erased guest, and one that a lost writer had, would live on in the memory.

use std::collections::{BTreeSet, HashMap};

use sqlx::{MySqlConnection, MySqlExecutor};

use crate::work::{Ledger, RetryPolicy};
use mysql_connection::statement::{Binds, Read, Write, in_list};
use shop_domain::{BuyerReference, LedgerError, ShopId, UserId};

/// Finds the buyers of a shop's references; new ones get a row. There is none for a shop that does not exist.
///
/// # Errors
/// When the ledger does not answer, or a new guest was not confirmed: the request may be sent again.
pub async fn find_or_create(
    ledger: &Ledger,
    shop: ShopId,
    references: &BTreeSet<BuyerReference>,
) -> Result<HashMap<BuyerReference, UserId>, LedgerError> {
    let all: Vec<&BuyerReference> = references.iter().collect();
    let mut found = ledger.read(find(&ledger.pool, shop, &all)).await?;
    // Sorted, so that two transactions lock the rows in one order.
    let new: Vec<&BuyerReference> =
        all.into_iter().filter(|reference| !found.contains_key(*reference)).collect();
    if new.is_empty() {
        return Ok(found);
    }
    let new = &new;
    let made = ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(async move {
            insert(transaction, shop, new).await?;
            // Another request may have been first with some of them.
            find(&mut **transaction, shop, new).await
        })
    });
    let made = made.await.map_err(|error| match error {
        // Only guests without orders may have been made.
        LedgerError::OutcomeUnknown => LedgerError::Unavailable,
        known => known,
    })?;
    found.extend(made);
    Ok(found)
}

/// Reads the buyers of those references that the shop has used before.
async fn find(
    from: impl MySqlExecutor<'_>,
    shop: ShopId,
    references: &[&BuyerReference],
) -> sqlx::Result<HashMap<BuyerReference, UserId>> {
    let Some((places, references)) = in_list(references) else { return Ok(HashMap::new()) };
    let statement = format!(
        "SELECT reference, user_id FROM guests WHERE shop_id = ? AND reference IN ({places})"
    );
    let mut query = sqlx::query_as(&statement).bind(shop.get());
    for reference in references {
        query = query.bind(reference.as_str());
    }
    let found: Vec<(BuyerReference, UserId)> = query.all(from).await?;
    Ok(found.into_iter().collect())
}

/// Inserts guests with new ids. Nothing changes for a reference that has a row, and for a shop that does not exist.
///
/// # Errors
/// The database's; the caller rolls back.
async fn insert(
    transaction: &mut MySqlConnection,
    shop: ShopId,
    references: &[&BuyerReference],
) -> sqlx::Result<()> {
    let Some((_, references)) = in_list(references) else { return Ok(()) };
    // The last of them may come several times; its first row counts.
    let references: Vec<&BuyerReference> = references.collect();
    let rows = vec!["(?, ?, ?, UTC_TIMESTAMP(6))"; references.len()].join(", ");
    let statement = format!(
        "INSERT IGNORE INTO guests (shop_id, reference, user_id, created_at) VALUES {rows}"
    );
    let mut query = sqlx::query(&statement);
    for reference in references {
        query = query.binds((shop.get(), reference.as_str(), UserId::generate_guest().get()));
    }
    query.run(transaction).await
}
