//! The indexes of `orders` that are made and removed beside the migrations, because on a large table that takes
//! minutes: purchases go on meanwhile, and what was broken off is done by the next `seckill migrate`.

use std::time::Duration;

use sqlx::{Executor, MySqlConnection};
use tokio::time::sleep;

use super::error::Fault;
use super::schema::require;
use super::statement::{Binds, Read};

/// The indexes of this build. An order changes each of them near the orders of its item, so an order costs the
/// same however many there are of other items.
const INDEXES: [(&str, &str); 2] = [
    // One order for each key, as long as the order exists; and what an item's buyers have.
    ("orders_item_request", "UNIQUE KEY orders_item_request (item_id, user_id, request_key)"),
    ("orders_buyer", "KEY orders_buyer (buyer_bucket, user_id)"),
];

/// The index that earlier builds list a buyer's orders by. Each order changes it at another place.
const OF_EARLIER_BUILDS: &str = "orders_request";

/// The migration that an earlier build does not know and needs to know once its index is gone.
const KNOWN_VERSION_MIN: i64 = 22;

/// The longest time, in seconds, that a change of the table waits for transactions that use the table. New purchases
/// wait behind the change meanwhile.
const TABLE_WAIT_SECONDS_MAX: u32 = 1;
/// Changes that are tried until one finds no long transaction.
const TRIES_MAX: u32 = 20;
/// The pause after a change that did not get the table.
const PAUSE: Duration = Duration::from_secs(3);

/// Makes the indexes that are missing, while the table is used.
pub(super) async fn expand(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    for (name, definition) in INDEXES {
        if !has_index(connection, name).await? {
            alter(connection, &format!("ADD {definition}")).await?;
        }
    }
    Ok(())
}

/// Says in the log that [`contract`] has something to do.
pub(super) async fn say_what_is_left(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    if has_index(connection, OF_EARLIER_BUILDS).await? {
        tracing::info!(
            "orders cost more on a large ledger until `seckill migrate --contract` has removed an index of \
             earlier builds; run it when none of their instances runs"
        );
    }
    Ok(())
}

/// Removes the index that earlier builds need, and says so to them.
pub(super) async fn contract(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    require(connection, KNOWN_VERSION_MIN).await?;
    if has_index(connection, OF_EARLIER_BUILDS).await? {
        alter(connection, &format!("DROP KEY {OF_EARLIER_BUILDS}")).await?;
    }
    Ok(())
}

async fn has_index(connection: &mut MySqlConnection, name: &str) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM information_schema.statistics \
         WHERE table_schema = DATABASE() AND table_name = ? AND index_name = ?";
    let columns: i64 =
        sqlx::query_scalar(statement).binds(("orders", name)).one(connection).await?;
    Ok(columns > 0)
}

/// Changes the table while it is used. Its answer is awaited without a limit: it may take minutes.
async fn alter(connection: &mut MySqlConnection, change: &str) -> sqlx::Result<()> {
    let limit = format!("SET SESSION lock_wait_timeout = {TABLE_WAIT_SECONDS_MAX}");
    connection.execute(sqlx::raw_sql(&limit)).await?;
    let statement = format!("ALTER TABLE orders {change}, ALGORITHM=INPLACE, LOCK=NONE");
    for _ in 1..TRIES_MAX {
        match connection.execute(sqlx::raw_sql(&statement)).await {
            Err(error) if Fault::of(&error) == Fault::Transient => {
                tracing::warn!(change, "a long transaction uses the table `orders`; trying again");
                sleep(PAUSE).await;
            }
            done => return done.map(drop),
        }
    }
    connection.execute(sqlx::raw_sql(&statement)).await.map(drop)
}
