//! A pause of a sale that is drawn.

use sqlx::MySqlConnection;

use crate::sql::statement::Write;
use crate::work::item_permit::ItemPermit;
use crate::work::stock_lock;

/// Notes the begin of a pause, or its end: then each open offer has the time that it had left when the pause began. The
/// caller knows that it is no repetition. A time that stands there is of a pause that an earlier build ended.
///
/// # Errors
/// The database's; the caller rolls back.
pub(crate) async fn set_paused(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
    is_paused: bool,
) -> sqlx::Result<()> {
    stock_lock::lock(transaction, permit).await?;
    let item = permit.item().get();
    if is_paused {
        let begin = "UPDATE draws SET paused_at = UTC_TIMESTAMP(6) WHERE item_id = ?";
        return sqlx::query(begin).bind(item).run(transaction).await;
    }
    sqlx::query(
        "UPDATE waiting_list JOIN draws ON draws.item_id = waiting_list.item_id \
         SET offer_expires_at = offer_expires_at \
           + INTERVAL TIMESTAMPDIFF(MICROSECOND, paused_at, UTC_TIMESTAMP(6)) MICROSECOND \
         WHERE waiting_list.item_id = ? AND status = 'offered' AND offer_expires_at > paused_at",
    )
    .bind(item)
    .run(&mut *transaction)
    .await?;
    let end = "UPDATE draws SET paused_at = NULL WHERE item_id = ?";
    sqlx::query(end).bind(item).run(transaction).await
}
