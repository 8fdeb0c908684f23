//! Guests of other shops: which reference of a shop is which buyer.

use std::collections::HashMap;

use sqlx::{MySqlConnection, MySqlExecutor};

use crate::sql::statement::{Binds, Read, Write, in_list};
use shop_domain::{BuyerReference, ShopId, UserId};

/// Reads the buyers of those references that the shop has used before.
pub async fn find(
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
pub async fn insert(
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
