//! Other shops, whose programs order for guests.

use time::OffsetDateTime;

use super::sessions::GENERATION_DAYS;
use super::users::unless_taken;
use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, transact};
use shop_domain::ShopId;

/// The most shops that have not ended: each instance keeps them all in memory.
pub const SHOPS_MAX: i64 = 1_000;

/// A shop.
#[derive(Clone, Debug)]
pub struct Shop {
    pub id: ShopId,
    /// The name, for operators.
    pub name: String,
    /// The present generation of its tokens.
    pub generation: u32,
    pub created_at: OffsetDateTime,
    /// When it ended; `None` while it may order.
    pub ended_at: Option<OffsetDateTime>,
}

from_row!(Shop { id, name, generation, created_at, ended_at });

/// What became of a new shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Creation {
    Made(ShopId),
    /// Another shop has or had the name.
    NameTaken,
    /// There are [`SHOPS_MAX`] shops.
    TooMany,
}

/// Creates a shop.
///
/// # Errors
/// The database's; after an error of the COMMIT the shop may exist.
pub async fn create(pool: &Database, name: &str) -> sqlx::Result<Creation> {
    let created = transact(pool, |transaction| {
        Box::pin(async move {
            let count = "SELECT COUNT(*) FROM shops WHERE ended_at IS NULL";
            let live: i64 = sqlx::query_scalar(count).one(&mut **transaction).await?;
            if live >= SHOPS_MAX {
                return Ok(Creation::TooMany);
            }
            let id = ShopId::generate();
            let insert = "INSERT INTO shops (id, name, created_at) VALUES (?, ?, UTC_TIMESTAMP(6))";
            sqlx::query(insert).binds((id.get(), name)).run(&mut **transaction).await?;
            Ok(Creation::Made(id))
        })
    });
    // Not within the transaction, which is rolled back after an error.
    Ok(unless_taken(created.await)?.unwrap_or(Creation::NameTaken))
}

/// Finds a shop that has not ended.
pub async fn find(pool: &Database, name: &str) -> sqlx::Result<Option<Shop>> {
    let columns = Shop::COLUMNS;
    let statement = format!("SELECT {columns} FROM shops WHERE name = ? AND ended_at IS NULL");
    sqlx::query_as(&statement).bind(name).first(pool).await
}

/// Lists all shops, oldest first, also those that have ended.
pub async fn list(pool: &Database) -> sqlx::Result<Vec<Shop>> {
    let statement = format!("SELECT {} FROM shops ORDER BY id", Shop::COLUMNS);
    sqlx::query_as(&statement).all(pool).await
}

/// Begins the next generation of a shop's tokens. By the ledger's clock, so that none comes again after a restore.
const NEXT_GENERATION: &str = "generation = GREATEST(generation + 1, UNIX_TIMESTAMP())";

/// Ends all tokens of a shop, and begins the next generation of them; `None` if no such shop goes on.
///
/// # Errors
/// The database's; after an error of the COMMIT the tokens may have ended.
pub async fn rotate(pool: &Database, name: &str) -> sqlx::Result<Option<Shop>> {
    change(pool, name, NEXT_GENERATION).await
}

/// Ends a shop and all its tokens; `None` if no such shop goes on.
///
/// # Errors
/// As for [`rotate`].
pub async fn end(pool: &Database, name: &str) -> sqlx::Result<Option<Shop>> {
    let ended = format!("{NEXT_GENERATION}, ended_at = UTC_TIMESTAMP(6)");
    change(pool, name, &ended).await
}

async fn change(pool: &Database, name: &str, set: &str) -> sqlx::Result<Option<Shop>> {
    let changed = transact(pool, |transaction| {
        Box::pin(async move {
            let update = format!("UPDATE shops SET {set} WHERE name = ? AND ended_at IS NULL");
            if sqlx::query(&update).bind(name).changed(&mut **transaction).await? == 0 {
                return Ok(None);
            }
            let statement = format!("SELECT {} FROM shops WHERE name = ?", Shop::COLUMNS);
            sqlx::query_as(&statement).bind(name).one(&mut **transaction).await.map(Some)
        })
    });
    changed.await
}

/// The present generation of the tokens of each shop, but for shops that ended before any token that is valid was made.
pub async fn generations(pool: &Database) -> sqlx::Result<Vec<(ShopId, u32)>> {
    let statement = format!(
        "SELECT id, generation FROM shops \
         WHERE ended_at IS NULL OR ended_at > UTC_TIMESTAMP(6) - INTERVAL {GENERATION_DAYS} DAY"
    );
    sqlx::query_as(&statement).all(pool).await
}
