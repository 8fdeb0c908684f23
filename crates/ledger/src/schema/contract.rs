//! What an upgrade takes away: [`check`] before it begins, and [`contract`] at its end.

use sqlx::{Executor, MySqlConnection};

use super::{alter, order_indexes};
use mysql_connection::statement::{Binds, Read};
use shop_domain::ItemId;

/// Tables that only earlier builds use.
const TABLES: [&str; 11] = [
    "archives",
    "archived_orders",
    "archived_movements",
    "receipt_logs",
    "receipt_queue",
    "receipt_batches",
    "room_openings",
    "item_homes",
    "item_moves",
    "kept_rows",
    "shop_currency",
];
/// Columns that only earlier builds use, each with its table.
const COLUMNS: [(&str, &str); 3] =
    [("stock", "archive"), ("stock", "home_epoch"), ("event_endpoints", "kind")];

/// Items that one sentence names at most.
const NAMED_MAX: usize = 20;

/// Deletes the endpoints that were Redis streams, with what belongs to them.
const DELETE_STREAMS: [&str; 3] = [
    "DELETE FROM event_dead_letters WHERE endpoint_id IN \
     (SELECT id FROM event_endpoints WHERE kind = 'redis-stream')",
    "DELETE FROM event_replays WHERE endpoint_id IN \
     (SELECT id FROM event_endpoints WHERE kind = 'redis-stream')",
    "DELETE FROM event_endpoints WHERE kind = 'redis-stream'",
];

/// The migration that an earlier build does not know and needs to know once these are gone.
const KNOWN_VERSION_MIN: i64 = 51;

/// Checks that nothing is in the schema that this build could not keep true.
///
/// # Errors
/// A sentence for the operator.
pub(super) async fn check(connection: &mut MySqlConnection) -> Result<(), String> {
    let misplaced = misplaced(connection).await;
    if let Some(sentence) = misplaced.map_err(|error| error.to_string())? {
        return Err(sentence);
    }
    let open = draws_of_earlier_builds(connection).await.map_err(|error| error.to_string())?;
    if !open.is_empty() {
        return Err(format!(
            "draws that an earlier build has announced are not over: {}; this build does not know their secret: let that \
             build end them, a moment after their rounds, and migrate then",
            named(&open)
        ));
    }
    let archived = items_with_archived_orders(connection).await;
    match archived.map_err(|error| error.to_string())? {
        0 => Ok(()),
        items => Err(format!(
            "orders of items ({items}) have left the ledger for files, and this build does not count the sums that \
             stayed; stay at the earlier build, or load the files into `orders`, `stock_movements`, `buyer_limits` and \
             `waiting_list` again, and empty `archives`, `archived_orders` and `archived_movements`"
        )),
    }
}

/// Says which items another ledger has or had, if there are some: earlier builds knew several.
async fn misplaced(connection: &mut MySqlConnection) -> sqlx::Result<Option<String>> {
    // One alone: the migration that makes them, or their removal, was broken off.
    for table in ["item_homes", "item_moves"] {
        if !has_table(connection, table).await? {
            return Ok(None);
        }
    }
    for (items, what, remedy) in [
        (
            "SELECT item_id FROM item_moves WHERE ended_at IS NULL",
            "items are being moved to another ledger",
            "end the move with the earlier build, `seckill shard move ITEM 0`, and migrate then",
        ),
        (
            "SELECT item_id FROM item_homes WHERE shard > 0",
            "items live in another ledger, and this build knows one",
            "move them back with the earlier build, `seckill shard move ITEM 0` for each, and migrate then",
        ),
        // The home ledger alone has accounts, and a row for each item.
        (
            "SELECT id FROM items WHERE NOT EXISTS (SELECT 1 FROM item_homes) \
             AND NOT EXISTS (SELECT 1 FROM users)",
            "this database was a further ledger of a shop with several, and has items",
            "move them to the home ledger with the earlier build, `seckill shard move ITEM 0` for each, and name \
             the home ledger in DATABASE_URL",
        ),
    ] {
        let statement = format!("{items} ORDER BY 1 LIMIT {NAMED_MAX}");
        let items: Vec<ItemId> = sqlx::query_scalar(&statement).all(&mut *connection).await?;
        if !items.is_empty() {
            return Ok(Some(format!("{what}: {}; {remedy}", named(&items))));
        }
    }
    Ok(None)
}

/// Items in a sentence; a list that is full may have left some out.
fn named(items: &[ItemId]) -> String {
    let named: Vec<String> = items.iter().map(ItemId::to_string).collect();
    let more = if items.len() == NAMED_MAX { " and perhaps more" } else { "" };
    format!("{}{more}", named.join(", "))
}

/// The draws that are not over and whose list this build cannot sign.
async fn draws_of_earlier_builds(connection: &mut MySqlConnection) -> sqlx::Result<Vec<ItemId>> {
    if !has_table(connection, "draws").await? {
        return Ok(Vec::new());
    }
    let has_keys = has_column(connection, "draws", "shop_key").await?;
    let own = if has_keys { "AND shop_key IS NULL" } else { "" };
    let statement = format!(
        "SELECT item_id FROM draws WHERE drawn_at IS NULL {own} ORDER BY item_id LIMIT {NAMED_MAX}"
    );
    sqlx::query_scalar(&statement).all(connection).await
}

async fn items_with_archived_orders(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
    if !has_table(connection, "archives").await? {
        return Ok(0);
    }
    sqlx::query_scalar("SELECT COUNT(*) FROM archives").one(connection).await
}

/// Says in the log that [`contract`] has something to do.
pub(super) async fn say_what_is_left(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let streams = streams(connection).await?;
    if streams > 0 {
        tracing::warn!(
            "{streams} endpoints of events are Redis streams, and switched off: events go to webhooks alone; \
             `seckill migrate --contract` deletes them"
        );
    }
    if order_indexes::is_of_earlier_builds(connection).await? {
        tracing::info!(
            "orders cost more on a large ledger until `seckill migrate --contract` has removed an index of \
             earlier builds; run it when none of their instances runs"
        );
    } else if has_table(connection, TABLES[0]).await? {
        tracing::info!(
            "`seckill migrate --contract` removes tables of earlier builds; run it when none of their instances runs"
        );
    }
    Ok(())
}

/// Removes what only earlier builds need, and says so to them.
pub(super) async fn contract(connection: &mut MySqlConnection) -> sqlx::Result<()> {
    let needs = "UPDATE schema_needs SET known_version_min = GREATEST(known_version_min, ?)";
    sqlx::query(needs).bind(KNOWN_VERSION_MIN).execute(&mut *connection).await?;
    order_indexes::contract(connection).await?;
    if streams(connection).await? > 0 {
        for statement in DELETE_STREAMS {
            connection.execute(sqlx::raw_sql(statement)).await?;
        }
    }
    for (table, column) in COLUMNS {
        let is_gone = async |ledger: &mut MySqlConnection| {
            has_column(ledger, table, column).await.map(|is_there| !is_there)
        };
        alter::table(connection, table, &format!("DROP COLUMN {column}"), is_gone).await?;
    }
    let drop = format!("DROP TABLE IF EXISTS {}", TABLES.join(", "));
    connection.execute(sqlx::raw_sql(&drop)).await?;
    Ok(())
}

/// Counts the endpoints that were Redis streams.
async fn streams(connection: &mut MySqlConnection) -> sqlx::Result<i64> {
    if !has_column(connection, "event_endpoints", "kind").await? {
        return Ok(0);
    }
    let count = "SELECT COUNT(*) FROM event_endpoints WHERE kind = 'redis-stream'";
    sqlx::query_scalar(count).one(connection).await
}

async fn has_table(connection: &mut MySqlConnection, name: &str) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM information_schema.tables \
         WHERE table_schema = DATABASE() AND table_name = ?";
    let tables: i64 = sqlx::query_scalar(statement).bind(name).one(connection).await?;
    Ok(tables > 0)
}

async fn has_column(
    connection: &mut MySqlConnection,
    table: &str,
    column: &str,
) -> sqlx::Result<bool> {
    let statement = "SELECT COUNT(*) FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND table_name = ? AND column_name = ?";
    let columns: i64 = sqlx::query_scalar(statement).binds((table, column)).one(connection).await?;
    Ok(columns > 0)
}
