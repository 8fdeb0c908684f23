//! The indexes of `orders` that are made and removed beside the migrations, because on a large table that takes
//! minutes: purchases go on meanwhile, and what was broken off is done by the next `seckill migrate`.

use sqlx::MySqlConnection;

use super::alter;
use mysql_connection::statement::{Binds, Read};

/// The indexes of this build. An order changes each of them near the orders of its item, so an order costs the
/// same however many there are of other items.
const INDEXES: [(&str, &str); 2] = [
    // One order for each key, as long as the order exists; and what an item's buyers have.
    ("orders_item_request", "UNIQUE KEY orders_item_request (item_id, user_id, request_key)"),
    ("orders_buyer", "KEY orders_buyer (buyer_bucket, user_id)"),
];

/// The index that earlier builds list a buyer's orders by. Each order changes it at another place.
const OF_EARLIER_BUILDS: &str = "orders_request";

/// Makes the indexes that are missing, while the table is used.
pub(super) async fn expand(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    for (name, definition) in INDEXES {
        let is_made = async |orders: &mut MySqlConnection| has_index(orders, name).await;
        alter::table(connection, "orders", &format!("ADD {definition}"), is_made).await?;
    }
    Ok(())
}

/// Returns whether the index that earlier builds need is there.
pub(super) async fn is_of_earlier_builds(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    has_index(connection, OF_EARLIER_BUILDS).await
}

/// Removes the index that earlier builds need.
pub(super) async fn contract(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let is_gone = async |orders: &mut MySqlConnection| {
        is_of_earlier_builds(orders).await.map(|is_there| !is_there)
    };
    alter::table(connection, "orders", &format!("DROP KEY {OF_EARLIER_BUILDS}"), is_gone).await
}

async fn has_index(connection: &mut MySqlConnection, name: &str) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND table_name = ? AND index_name = ?";
    let columns: i64 =
        sqlx::query_scalar(statement).binds(("orders", name)).one(connection).await?;
    Ok(columns > 0)
}
