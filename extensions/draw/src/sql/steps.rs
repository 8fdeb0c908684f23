//! The steps of a draw after its close.

use draw_proof::{Entry, Hash, Head, ShopKey, ShopKeys, rules_hash};
use extension::Core;
use failpoint::{failpoint, hold};
use ledger::ItemPermit;
use ledger::rows::draws::{beacon_of, micros};
use ledger::rows::erased;
use ledger::rows::items::{self, datetime};
use ledger::waiting_list::LineChange;
use ledger::work::stock_lock;
use mysql_connection::named_lock::NamedLock;
use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, transact};
use shop_domain::{DrawBeacon, ItemId, UserId};
use sqlx::{MySqlConnection, QueryBuilder};
use time::OffsetDateTime;

use super::rows::{self, DrawRow, ListedEntry};

/// Entries that get their places in one transaction: the stock row is held for a few hundredths of a second.
const TOGETHER_MAX: usize = 500;

/// What a draw waits for next.
pub enum Step {
    /// There is nothing to do.
    Nothing,
    /// Another session has its lock.
    Held,
    /// The build that announced it: this one does not know its secret.
    EarlierBuild,
    /// The key of the shop that its rules name.
    Key { public: String },
    /// The signature of its round.
    Value(DrawRound),
    /// Its places can be written.
    Places,
}

/// The round that a draw waits for.
pub struct DrawRound {
    pub beacon: DrawBeacon,
    pub round: u64,
    /// The hash of the rules, and the public key of the shop in them.
    pub rules: Hash,
    pub shop_key: String,
}

/// Closes a draw whose time has come, and publishes the list of its entries. Returns what it waits for.
///
/// # Errors
/// The database's; what was done stays done.
pub async fn close(pool: &Database, keys: &ShopKeys, item: ItemId) -> sqlx::Result<Step> {
    let Some(draw) = rows::find(pool, item).await? else { return Ok(Step::Nothing) };
    if draw.drawn_at.is_some() {
        return Ok(Step::Nothing);
    }
    let Some(shop_key) = draw.shop_key.clone() else { return Ok(Step::EarlierBuild) };
    if draw.listed_at.is_none() {
        let Some(key) = keys.find(&shop_key) else {
            return Ok(Step::Key { public: shop_key });
        };
        let lock = take_lock(pool, item).await?;
        if lock.is_none() {
            return Ok(Step::Held);
        }
        let closed = write(
            pool,
            item,
            "UPDATE draws SET closed_at = UTC_TIMESTAMP(6) \
             WHERE item_id = ? AND closed_at IS NULL AND closes_at <= UTC_TIMESTAMP(6)",
            &[],
        );
        if closed.await? == 0 && draw.closed_at.is_none() {
            // The clock of a new writer is behind, so buyers still enter; or another session was first.
            return Ok(Step::Nothing);
        }
        failpoint!("draw-closed");
        let entries = rows::all_entries(pool, item).await?;
        let latest = entries.iter().map(|entry| entry.entered_at).max();
        let leaves = leaves(&entries)?;
        let root = blocking(move || draw_proof::root(&leaves)).await?;
        let rules = rules_hash(&draw.rules);
        let entries = entries.len() as u64;
        let item_number = item.get().unsigned_abs();
        let head = Head { rules, item: item_number, entries, root, listed: 0 };
        list(pool, item, &draw, head, latest, key).await?;
        failpoint!("draw-listed");
    }
    Ok(match draw.beacon_signature {
        Some(_) => Step::Places,
        None => {
            let rules = rules_hash(&draw.rules);
            Step::Value(DrawRound { beacon: draw.beacon, round: draw.round, rules, shop_key })
        }
    })
}

/// Signs the head of a list, with the time of the ledger, and publishes it, unless that was done. The clock of a new
/// writer may be behind: the list is no earlier than the latest entry in it.
async fn list(
    pool: &Database,
    item: ItemId,
    draw: &DrawRow,
    head: Head,
    latest: Option<OffsetDateTime>,
    key: &ShopKey,
) -> sqlx::Result<()> {
    let permit = &ItemPermit::of_job(item);
    let listed = transact(pool, |transaction| {
        Box::pin(async move {
            stock_lock::lock(transaction, permit).await?;
            let now = items::ledger_time(&mut **transaction, &[item]).await?;
            let now = now.ok_or(sqlx::Error::RowNotFound)?;
            let now = latest.map_or(now, |latest| latest.max(now));
            let signed = Head { listed: micros(now), ..head }.signed(key);
            let listed = sqlx::query(
                "UPDATE draws SET entries = ?, root = ?, head = ?, listed_at = ? \
                 WHERE item_id = ? AND closed_at IS NOT NULL AND listed_at IS NULL",
            )
            .binds((head.entries, hex::encode(head.root), signed))
            .binds((datetime(now), item.get()))
            .changed(&mut **transaction)
            .await?;
            Ok::<_, sqlx::Error>((listed > 0).then(|| micros(now)))
        })
    });
    let listed = listed.await?;
    let round = beacon_of(draw.beacon).time_of(draw.round);
    if listed.is_some_and(|listed| listed >= round) {
        tracing::warn!(%item, "the list of a draw was published after its round: each check of it says late");
    }
    Ok(())
}

/// Stores the beacon's signature of the round. The caller has checked it.
///
/// # Errors
/// The database's.
pub async fn take_value(pool: &Database, item: ItemId, signature: &[u8]) -> sqlx::Result<()> {
    write(
        pool,
        item,
        "UPDATE draws SET beacon_signature = ? \
         WHERE item_id = ? AND listed_at IS NOT NULL AND beacon_signature IS NULL",
        &[&hex::encode(signature)],
    )
    .await?;
    failpoint!("draw-valued");
    Ok(())
}

/// Computes the places of a draw whose value is known; `None` while another session has its lock.
///
/// # Errors
/// The database's.
pub async fn places(core: &Core, item: ItemId) -> sqlx::Result<Option<Places<'_>>> {
    let pool = &core.ledger.pool;
    let lock = take_lock(pool, item).await?;
    let (Some(mut lock), Some(draw)) = (lock, rows::find(pool, item).await?) else {
        return Ok(None);
    };
    let ordered = Box::pin(async {
        let entries = rows::all_entries(pool, item).await?;
        hold!("draw-entries-read", item.get());
        blocking(move || in_order(&draw, entries)).await?
    });
    let ordered = lock.keep_during(ordered).await?;
    Ok(Some(Places { core, item, ordered, lock }))
}

/// Writes the row of a draw under the lock of its item: `values`, and then the item. Returns the number of changed
/// rows.
async fn write(
    pool: &Database,
    item: ItemId,
    statement: &str,
    values: &[&str],
) -> sqlx::Result<u64> {
    let permit = &ItemPermit::of_job(item);
    let written = transact(pool, |transaction| {
        Box::pin(async move {
            stock_lock::lock(transaction, permit).await?;
            let mut query = sqlx::query(statement);
            for value in values {
                query = query.bind(*value);
            }
            query.bind(item.get()).changed(&mut **transaction).await
        })
    });
    written.await
}

/// Takes the lock by which one instance at a time draws an item, if it is free.
async fn take_lock(ledger: &Database, item: ItemId) -> sqlx::Result<Option<NamedLock>> {
    NamedLock::take_free(ledger, "seckill-draw-", &format!("/{}", item.get())).await
}

/// The places of a draw, which one instance at a time writes.
pub struct Places<'a> {
    core: &'a Core,
    item: ItemId,
    ordered: Vec<ListedEntry>,
    lock: NamedLock,
}

impl Places<'_> {
    /// Writes the next missing places, about 500, and offers the available units to the first buyers in the waiting list.
    /// Returns the change of the list, or `None` when all places are written or the sale is paused.
    ///
    /// # Errors
    /// The database's; the places that were written before stay.
    pub async fn write_next(&mut self) -> sqlx::Result<Option<LineChange>> {
        self.lock.keep().await?;
        let places = &*self;
        let permit = ItemPermit::of_job(places.item);
        let change = transact(&places.core.ledger.pool, |transaction| {
            Box::pin(places.write_in(transaction, &permit))
        });
        let change = change.await?;
        failpoint!("draw-part-placed");
        Ok(change)
    }

    async fn write_in(
        &self,
        transaction: &mut MySqlConnection,
        permit: &ItemPermit,
    ) -> sqlx::Result<Option<LineChange>> {
        stock_lock::lock(transaction, permit).await?;
        let item = self.item.get();
        let placed: Option<u32> = sqlx::query_scalar(
            "SELECT placed FROM draws JOIN items ON items.id = item_id \
             WHERE item_id = ? AND drawn_at IS NULL AND NOT paused",
        )
        .bind(item)
        .first(&mut *transaction)
        .await?;
        let Some(placed) = placed else { return Ok(None) };
        let next = next_parties(self.ordered.get(placed as usize..).unwrap_or_default());
        if !next.is_empty() {
            write_entries(transaction, item, placed + 1, next).await?;
        }
        let placed = placed as usize + next.len();
        sqlx::query(
            "UPDATE draws SET placed = ?, drawn_at = IF(?, UTC_TIMESTAMP(6), NULL) WHERE item_id = ?",
        )
        .binds((placed as u64, placed == self.ordered.len(), item))
        .run(&mut *transaction)
        .await?;
        self.core.line.hand_out(transaction, permit).await.map(Some)
    }
}

/// The first entries, as many as one transaction writes, with the whole party of the last one.
fn next_parties(entries: &[ListedEntry]) -> &[ListedEntry] {
    let mut count = 0;
    for party in entries.chunk_by(|one, next| one.party == next.party) {
        if count >= TOGETHER_MAX {
            break;
        }
        count += party.len();
    }
    &entries[..count]
}

/// Writes the places of entries from the place `first` on, and puts the buyers into the line in this order.
async fn write_entries(
    transaction: &mut MySqlConnection,
    item: i64,
    first: u32,
    entries: &[ListedEntry],
) -> sqlx::Result<()> {
    let mut rows = QueryBuilder::new(
        "INSERT INTO draw_entries (item_id, user_id, entry, party, entered_at, place) ",
    );
    rows.push_values((first..).zip(entries), |mut row, (place, entry)| {
        row.push_bind(item).push_bind(entry.buyer.get());
        row.push_bind(&entry.entry).push_bind(&entry.party);
        row.push_bind(datetime(entry.entered_at)).push_bind(place);
    });
    rows.push(" ON DUPLICATE KEY UPDATE place = VALUES(place)");
    rows.build().persistent(false).run(&mut *transaction).await?;
    let buyers: Vec<UserId> = entries.iter().map(|entry| entry.buyer).collect();
    let erased = erased::among(&mut *transaction, &buyers).await?;
    let is_here = |entry: &&ListedEntry| !erased.contains(&entry.buyer);
    // The numbers of places in a line rise in the order of the rows. Who was deleted since the close keeps the place in
    // the draw, which was published, and has left the line.
    let mut rows = QueryBuilder::new(
        "INSERT INTO waiting_list (item_id, user_id, status, live, joined_at, closed_at, party, party_size) ",
    );
    let parties = entries.chunk_by(|one, next| one.party == next.party);
    let sized = parties.flat_map(|party| {
        let size = party.iter().filter(is_here).count() as u64;
        party.iter().map(move |entry| (entry, size))
    });
    rows.push_values(sized, |mut row, (entry, size)| {
        row.push_bind(item).push_bind(entry.buyer.get());
        if is_here(&entry) {
            row.push("'waiting'").push("1").push("UTC_TIMESTAMP(6)").push("NULL");
            row.push_bind((size > 1).then_some(&entry.party)).push_bind(size);
        } else {
            row.push("'left'").push("NULL").push("UTC_TIMESTAMP(6)").push("UTC_TIMESTAMP(6)");
            row.push("NULL").push("1");
        }
    });
    rows.build().persistent(false).run(transaction).await
}

/// The entries in the order of their places.
///
/// # Errors
/// When they are not the entries of the signed list: then no place is written.
fn in_order(draw: &DrawRow, entries: Vec<ListedEntry>) -> sqlx::Result<Vec<ListedEntry>> {
    let signature = draw.beacon_signature.as_deref().and_then(|text| hex::decode(text).ok());
    let signature = signature.ok_or_else(damaged)?;
    let root: Hash = bytes(draw.root.as_deref().unwrap_or_default())?;
    let rules = rules_hash(&draw.rules);
    let leaves = leaves(&entries)?;
    if draw_proof::root(&leaves) != root {
        return Err(sqlx::Error::Decode("the entries of a draw are not its signed list".into()));
    }
    let ordered = draw_proof::shuffle(&signature, &root, &rules, &leaves);
    // The entries are sorted by their ids, and so are these positions.
    let mut by_id: Vec<Option<ListedEntry>> = entries.into_iter().map(Some).collect();
    let mut ids: Vec<[u8; 16]> = ordered.iter().map(|entry| entry.id).collect();
    ids.sort_unstable();
    let entry = |entry: &Entry| {
        let at = ids.binary_search(&entry.id).ok()?;
        by_id.get_mut(at)?.take()
    };
    ordered.iter().map(entry).collect::<Option<_>>().ok_or_else(damaged)
}

/// The entries as the shuffle takes them.
fn leaves(entries: &[ListedEntry]) -> sqlx::Result<Vec<Entry>> {
    let leaf =
        |entry: &ListedEntry| Ok(Entry { id: bytes(&entry.entry)?, party: bytes(&entry.party)? });
    entries.iter().map(leaf).collect()
}

/// Computes for long, beside the requests.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> sqlx::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|error| sqlx::Error::Io(std::io::Error::other(error)))
}

fn bytes<const LENGTH: usize>(text: &str) -> sqlx::Result<[u8; LENGTH]> {
    hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or_else(damaged)
}

fn damaged() -> sqlx::Error {
    sqlx::Error::Decode("a row of a draw is damaged".into())
}
