//! The SQL of draws: entering, and the steps from the close to the places.
//!
//! Each step after the close writes what follows from rows that were committed before, and nothing else, so any
//! instance may take it, two at once, or again after one was killed:
//!
//! 1. *close*: from now on no entry changes;
//! 2. *list*: the number of entries and the root of their Merkle tree, signed by the shop;
//! 3. *value*: the beacon's signature of the round;
//! 4. *places*: at most 500 in one transaction, from the first place on. The same transaction adds the entries to the
//!    waiting list in this order, and offers the available units to the first buyers in the list.
//!
//! Entering takes the lock of the item's stock row shared, and the steps take it exclusively: so the close waits for
//! buyers who are entering.

pub mod rows;
mod steps;

use std::time::{Duration, Instant};

use ledger::ItemPermit;
use ledger::cache::Cache;
use ledger::erasure::traces::{Fate, Trace};
use ledger::rows::erased;
use ledger::work::stock_lock;
use mysql_connection::statement::{Binds, Read, Write};
use shop_domain::{ItemId, Refusal, UserId};
use sqlx::MySqlConnection;

use rows::DrawEntry;

pub use steps::{DrawRound, Step, close, places, take_value};

/// Entries are counted again after this; more than the limit may enter meanwhile.
const COUNT_AGE_MAX: Duration = Duration::from_secs(1);

/// The reason why an entry in a draw does not change.
#[derive(Debug)]
pub enum EntryRefusal {
    /// As a purchase would be refused.
    Purchase(Refusal),
    /// The item is not drawn.
    NoDraw,
    /// Nobody can enter or withdraw any more.
    EntriesClosed,
    /// The draw has as many entries as it may.
    Full,
    /// No entry has this key of a party.
    PartyNotFound,
    /// The party has as many entries as it may.
    PartyFull,
    /// The account of the buyer was deleted; this instance may not know it yet.
    AccountDeleted,
}

/// With whom a buyer enters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartyChoice {
    /// As the entry is; alone, if it is new.
    Unchanged,
    /// With friends who will join by the key of the party.
    New,
    /// With the friends who have this key.
    Of(String),
}

/// The most entries of an item. Clones share the counts.
#[derive(Clone)]
pub(crate) struct EntryLimit {
    pub entries_max: u64,
    /// The entries of an item when they were last counted.
    pub counts: Cache<ItemId, (Instant, u64)>,
}

impl EntryLimit {
    /// Returns whether an item has as many entries as it may, by a count that is a moment old.
    async fn is_reached(
        &self,
        transaction: &mut MySqlConnection,
        item: ItemId,
    ) -> sqlx::Result<bool> {
        let at = Instant::now();
        if let Some((counted_at, count)) = self.counts.get(item) {
            if counted_at.elapsed() < COUNT_AGE_MAX {
                return Ok(count >= self.entries_max);
            }
            // One counts; meanwhile the others go on with the older count.
            self.counts.insert(item, (at, count));
        }
        let count = rows::count(transaction, item).await?;
        self.counts.insert(item, (at, count));
        Ok(count >= self.entries_max)
    }
}

/// Enters a buyer, or moves the entry that the buyer has to the party of choice. Returns the entry.
///
/// # Errors
/// The database's.
pub(crate) async fn enter_in(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
    buyer: UserId,
    choice: &PartyChoice,
    limit: &EntryLimit,
) -> sqlx::Result<Result<DrawEntry, EntryRefusal>> {
    let item = permit.item();
    if let Err(refusal) = lock_open(transaction, permit).await? {
        return Ok(Err(refusal));
    }
    if erased::contains(&mut *transaction, buyer).await? {
        return Ok(Err(EntryRefusal::AccountDeleted));
    }
    let found = rows::entry(&mut *transaction, item, buyer).await?;
    if let Some(entry) = found.as_ref().filter(|entry| has_chosen(entry, choice)) {
        return Ok(Ok(entry.clone()));
    }
    if found.is_none() && limit.is_reached(transaction, item).await? {
        return Ok(Err(EntryRefusal::Full));
    }
    if let Err(refusal) = lock_party(transaction, item, choice).await? {
        return Ok(Err(refusal));
    }
    let id = random_id();
    let party = match choice {
        PartyChoice::Unchanged => id.clone(),
        PartyChoice::New => random_id(),
        PartyChoice::Of(key) => key.clone(),
    };
    sqlx::query(
        "INSERT INTO draw_entries (item_id, user_id, entry, party, entered_at) \
         VALUES (?, ?, ?, ?, UTC_TIMESTAMP(6)) ON DUPLICATE KEY UPDATE party = IF(?, VALUES(party), party)",
    )
    .binds((item.get(), buyer.get(), &id, &party, *choice != PartyChoice::Unchanged))
    .run(&mut *transaction)
    .await?;
    let entry = rows::entry(&mut *transaction, item, buyer).await?;
    entry.map(Ok).ok_or(sqlx::Error::RowNotFound)
}

/// A deleted person's entry. After the close it stays in the published list, and gets no live place.
pub const ENTRIES: Trace = Trace {
    table: "draw_entries",
    column: "user_id",
    fate: Fate::Ended {
        // Few items are drawn at once.
        items: "SELECT draws.item_id FROM draws STRAIGHT_JOIN draw_entries \
             ON draw_entries.item_id = draws.item_id AND draw_entries.user_id = ? \
             WHERE draws.closed_at IS NULL",
        end: |_, transaction, permit, user| {
            Box::pin(async move { withdraw_in(transaction, permit, user).await.map(|_| None) })
        },
    },
};

/// Takes the entry of a buyer back, if the draw is open.
pub(crate) async fn withdraw_in(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
    buyer: UserId,
) -> sqlx::Result<Result<(), EntryRefusal>> {
    if let Err(refusal) = lock_open(transaction, permit).await? {
        return Ok(Err(refusal));
    }
    let delete = "DELETE FROM draw_entries WHERE item_id = ? AND user_id = ?";
    sqlx::query(delete).binds((permit.item().get(), buyer.get())).run(transaction).await.map(Ok)
}

/// Returns whether an entry is in the party of choice already.
fn has_chosen(entry: &DrawEntry, choice: &PartyChoice) -> bool {
    match choice {
        PartyChoice::Unchanged => true,
        PartyChoice::New => entry.is_in_party(),
        PartyChoice::Of(key) => entry.party == *key,
    }
}

/// Checks that one more entry may be in a party, and locks its entries, for which others who join wait.
async fn lock_party(
    transaction: &mut MySqlConnection,
    item: ItemId,
    choice: &PartyChoice,
) -> sqlx::Result<Result<(), EntryRefusal>> {
    let members = match choice {
        PartyChoice::Unchanged => return Ok(Ok(())),
        PartyChoice::New => 1,
        PartyChoice::Of(key) if !is_id(key) => 0,
        PartyChoice::Of(key) => {
            let mut members = 0;
            // The first time waits for a buyer who is joining; the second time finds this buyer too.
            for _ in 0..2 {
                let found: Vec<i64> = sqlx::query_scalar(
                    // The id of an entry that is alone is no key: its buyer has invited nobody.
                    "SELECT user_id FROM draw_entries \
                     WHERE item_id = ? AND party = ? AND party <> entry FOR UPDATE",
                )
                .binds((item.get(), key))
                .all(&mut *transaction)
                .await?;
                members = found.len();
            }
            members
        }
    };
    let party_max: u8 = sqlx::query_scalar("SELECT party_max FROM draws WHERE item_id = ?")
        .bind(item.get())
        .one(transaction)
        .await?;
    Ok(match members {
        0 => Err(EntryRefusal::PartyNotFound),
        _ if party_max < 2 || members >= party_max.into() => Err(EntryRefusal::PartyFull),
        _ => Ok(()),
    })
}

/// Whether a text is an id as [`random_id`] makes it. The database would also find it in capital letters.
fn is_id(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f'))
}

fn random_id() -> String {
    hex::encode(rand::random::<[u8; 16]>())
}

/// Locks the stock row shared, and checks that entries may change.
async fn lock_open(
    transaction: &mut MySqlConnection,
    permit: &ItemPermit,
) -> sqlx::Result<Result<(), EntryRefusal>> {
    let item = permit.item();
    if stock_lock::lock_shared(transaction, permit).await?.is_none() {
        return Ok(Err(EntryRefusal::Purchase(Refusal::ItemNotFound)));
    }
    let is_open: Option<i64> = sqlx::query_scalar(
        "SELECT closed_at IS NULL AND closes_at > UTC_TIMESTAMP(6) FROM draws WHERE item_id = ?",
    )
    .bind(item.get())
    .first(transaction)
    .await?;
    Ok(match is_open {
        None => Err(EntryRefusal::NoDraw),
        Some(0) => Err(EntryRefusal::EntriesClosed),
        Some(_) => Ok(()),
    })
}
