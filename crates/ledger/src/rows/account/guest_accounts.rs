//! The buyers of other shops. A shop names a buyer by a reference of its own; the first request with a reference makes a
//! row, which gives it a user id. The table's keys decide: two references, or two shops, never share a buyer.
//!
//! No row is remembered here: an erased guest, and one that a lost writer had, would live on in the memory.

use std::collections::{BTreeSet, HashMap};

use crate::rows::account::guests;
use crate::work::{Ledger, RetryPolicy};
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
    let mut found = ledger.read(guests::find(&ledger.pool, shop, &all)).await?;
    // Sorted, so that two transactions lock the rows in one order.
    let new: Vec<&BuyerReference> =
        all.into_iter().filter(|reference| !found.contains_key(*reference)).collect();
    if new.is_empty() {
        return Ok(found);
    }
    let new = &new;
    let made = ledger.change(RetryPolicy::IDEMPOTENT, |transaction| {
        Box::pin(async move {
            guests::insert(transaction, shop, new).await?;
            // Another request may have been first with some of them.
            guests::find(&mut **transaction, shop, new).await
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
