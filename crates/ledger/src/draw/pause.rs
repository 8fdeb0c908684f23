//! A pause of a sale that is drawn.

use sqlx::MySqlConnection;

use crate::sql::statement::Write;
use crate::work::item_permit::ItemPermit;
use crate::work::stock_lock;

/// Notes that a pause begins or ends now. From then on no offer ends, until each one has its whole time again.
///
/// # Errors
/// The database's; the caller rolls back.
pub(crate) async fn note_pause(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
) -> sqlx::Result<()> {
    stock_lock::lock(transaction, permit).await?;
    let note = "UPDATE draws SET paused_at = UTC_TIMESTAMP(6) WHERE item_id = ?";
    sqlx::query(note).bind(permit.item().get()).run(transaction).await
}
