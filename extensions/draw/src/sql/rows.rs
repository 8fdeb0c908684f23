//! Reads draws and their entries; the transactions write them.

use mysql_connection::limits::LONG_READ_MAX;
use mysql_connection::statement::{Binds, Read};
use mysql_connection::{Database, within};
use shop_domain::{DrawBeacon, ItemId, UserId, from_row, row};
use sqlx::MySqlExecutor;
use time::OffsetDateTime;

row! {
    /// A draw, as far as it has come.
    #[derive(Clone, Debug)]
    pub struct DrawRow {
        pub rules: String,
        /// The public key of the shop; `None` for a draw of an earlier build.
        pub shop_key: Option<String>,
        pub beacon: DrawBeacon,
        pub round: u64,
        pub closes_at: OffsetDateTime,
        pub closed_at: Option<OffsetDateTime>,
        /// When the list of entries was published.
        pub listed_at: Option<OffsetDateTime>,
        pub entries: Option<u32>,
        pub root: Option<String>,
        /// The head of the list with its signature.
        pub head: Option<String>,
        pub beacon_signature: Option<String>,
        pub drawn_at: Option<OffsetDateTime>,
        /// The most entries of one party.
        pub party_max: u8,
    }
}

impl DrawRow {
    /// What its proof shows, in the word of the API.
    pub fn proof(&self) -> &'static str {
        match self.beacon {
            _ if self.shop_key.is_none() => "none",
            DrawBeacon::Drand => "public",
            DrawBeacon::Local => "local",
        }
    }
}

/// An entry of a buyer in a draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawEntry {
    /// Its public id.
    pub entry: String,
    /// The friends who are drawn together with this entry; its own id for an entry that is alone.
    pub party: String,
    /// The entries of the party, with this one.
    pub members: u32,
    pub entered_at: OffsetDateTime,
    /// Its place from 1, once it is drawn.
    pub place: Option<u32>,
}

from_row!(DrawEntry {
    entry,
    party,
    members as i64 => |count| u32::try_from(count).unwrap_or(u32::MAX),
    entered_at,
    place,
});

impl DrawEntry {
    /// Returns whether it is drawn with friends, or waits for them.
    pub fn is_in_party(&self) -> bool {
        self.party != self.entry
    }
}

/// A draw whose close has come and that is not over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DueDraw {
    pub item: ItemId,
    /// Whether the list of its entries is published.
    pub is_listed: bool,
}

from_row!(DueDraw {
    item: "item_id",
    is_listed = "listed_at IS NOT NULL" as i64 => |is_listed| is_listed != 0,
});

/// An entry of the list.
#[derive(Clone, Debug)]
pub struct ListedEntry {
    pub buyer: UserId,
    pub entry: String,
    pub party: String,
    pub entered_at: OffsetDateTime,
    pub place: Option<u32>,
}

from_row!(ListedEntry { buyer: "user_id", entry, party, entered_at, place });

/// Reads the draw of an item.
pub async fn find(executor: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<Option<DrawRow>> {
    let statement = format!("SELECT {} FROM draws WHERE item_id = ?", DrawRow::COLUMNS);
    sqlx::query_as(&statement).bind(item.get()).first(executor).await
}

/// Reads the entry of a buyer.
pub async fn entry(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    buyer: UserId,
) -> sqlx::Result<Option<DrawEntry>> {
    let statement = "SELECT entry, party, entered_at, place, \
         (SELECT COUNT(*) FROM draw_entries AS friends \
           WHERE friends.item_id = own.item_id AND friends.party = own.party) AS members \
         FROM draw_entries AS own WHERE item_id = ? AND user_id = ?";
    sqlx::query_as(statement).binds((item.get(), buyer.get())).first(executor).await
}

/// Reads the next entries of the list after the id `after`, at most `count`, in the order of their ids.
pub async fn list(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
    after: &str,
    count: u32,
) -> sqlx::Result<Vec<ListedEntry>> {
    let statement = format!(
        "SELECT {} FROM draw_entries WHERE item_id = ? AND entry > ? ORDER BY entry LIMIT ?",
        ListedEntry::COLUMNS
    );
    sqlx::query_as(&statement).binds((item.get(), after, count)).all(executor).await
}

/// Counts the entries of an item.
pub async fn count(executor: impl MySqlExecutor<'_>, item: ItemId) -> sqlx::Result<u64> {
    let statement = "SELECT COUNT(*) FROM draw_entries WHERE item_id = ?";
    let count: i64 = sqlx::query_scalar(statement).bind(item.get()).one(executor).await?;
    Ok(count.unsigned_abs())
}

/// How far a draw has come: its entries, the parties among them, and the entries that have their places.
pub async fn progress(
    executor: impl MySqlExecutor<'_>,
    item: ItemId,
) -> sqlx::Result<Option<(u64, u64, u32)>> {
    let read = sqlx::query_as(
        "SELECT CAST(COUNT(entry) AS UNSIGNED), \
         CAST(COUNT(DISTINCT IF(party <> entry, party, NULL)) AS UNSIGNED), placed \
         FROM draws LEFT JOIN draw_entries ON draw_entries.item_id = draws.item_id \
         WHERE draws.item_id = ? GROUP BY draws.item_id, placed",
    );
    read.bind(item.get()).first(executor).await
}

/// Counts the entries of a draw that have their places.
pub async fn placed(pool: &Database, item: ItemId) -> sqlx::Result<u32> {
    let placed = sqlx::query_scalar("SELECT placed FROM draws WHERE item_id = ?");
    Ok(placed.bind(item.get()).first(pool).await?.unwrap_or(0))
}

/// Lists the draws whose close has come and that are not over, the earliest close first. Places are not written in a
/// pause. It lists all of them: a draw that waits for its round, or for a key that was lost, keeps no place from another.
pub async fn due(pool: &Database) -> sqlx::Result<Vec<DueDraw>> {
    let statement = format!(
        "SELECT {} FROM draws JOIN items ON items.id = item_id \
         WHERE drawn_at IS NULL AND closes_at <= UTC_TIMESTAMP(6) \
         AND NOT (paused AND beacon_signature IS NOT NULL) ORDER BY closes_at",
        DueDraw::COLUMNS
    );
    sqlx::query_as(&statement).all(pool).await
}

/// Reads the whole list, page by page. It must be closed, or a page may miss what another one has.
pub async fn all_entries(pool: &Database, item: ItemId) -> sqlx::Result<Vec<ListedEntry>> {
    const PAGE: u32 = 20_000;
    let mut entries: Vec<ListedEntry> = Vec::new();
    loop {
        let after = entries.last().map(|entry| entry.entry.clone()).unwrap_or_default();
        let page = within(LONG_READ_MAX, list(pool, item, &after, PAGE)).await?;
        let is_last = page.len() < PAGE as usize;
        entries.extend(page);
        if is_last {
            return Ok(entries);
        }
    }
}
