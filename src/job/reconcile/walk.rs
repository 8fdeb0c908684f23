//! A walk over the counted items of one layout, a page at a time, which continues where the last
//! run stopped and remembers the differences that it found.

use std::collections::BTreeMap;

use ledger::Database;

use gates::redis_store::{Counter, CounterAndQueue};
use ledger::rows::answered;
use shop_domain::{ArbiterMode, ItemId};

/// Differences that a walk remembers until its next visit; further ones are not remembered.
const REMEMBERED_MAX: usize = 10_000;

/// The layout of an item's counter in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// One key for an item.
    Whole,
    /// The units of an item split over several keys.
    Split,
}

impl Layout {
    /// The table of the ledger that lists such items.
    pub fn table(self) -> &'static str {
        match self {
            Self::Whole => "redis_counters",
            Self::Split => "redis_buckets",
        }
    }
}

/// The sales that a walk inspects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sales {
    /// Sales that are not over, by the database's clock.
    Open,
    /// Sales that are over, with an arbiter: without one no counter is repaired.
    Ended,
}

impl Sales {
    /// The SQL condition. It names the kinds to use the index over kind and end.
    fn condition(self) -> &'static str {
        match self {
            Self::Open => "items.kind IN ('shop', 'lab') AND items.ends_at > UTC_TIMESTAMP(6)",
            Self::Ended => "items.ends_at <= UTC_TIMESTAMP(6) AND items.arbiter = 'on'",
        }
    }
}

/// An item as the ledger has it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    pub item: ItemId,
    pub available: i64,
    pub version: u64,
    pub arbiter: ArbiterMode,
    pub epoch: u64,
    /// The epoch that a route to the item must have.
    pub home_epoch: u64,
}

/// The counter of an item as Redis has it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Whole(CounterAndQueue),
    Split(Vec<Counter>),
}

/// One counter and its stock row, as one inspection read them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Inspection {
    pub seen: Seen,
    pub available: i64,
    pub version: u64,
    pub arbiter: ArbiterMode,
}

impl Inspection {
    /// Units by which Redis, with the queued units, exceeds the ledger.
    pub fn drift(&self) -> i64 {
        let redis = match &self.seen {
            Seen::Whole(seen) => seen.counter.available + seen.queued,
            Seen::Split(parts) => parts.iter().map(|part| part.available).sum(),
        };
        redis - self.available
    }
}

/// The state of a walk.
pub(super) struct Walk {
    pub layout: Layout,
    pub sales: Sales,
    /// The last item of the page before; 0 before the first page.
    after: i64,
    /// The last difference of each item.
    drifted: BTreeMap<i64, Inspection>,
}

/// A page of items, and the remembered differences in its range.
pub(super) struct Page {
    pub counted: Vec<Counted>,
    pub before: BTreeMap<i64, Inspection>,
    /// Whether this is the last page; the next one is the first again.
    pub is_last: bool,
}

impl Walk {
    /// Makes a walk that begins with the oldest item.
    pub fn new(layout: Layout, sales: Sales) -> Self {
        Self { layout, sales, after: 0, drifted: BTreeMap::new() }
    }

    /// Takes the next page of at most `size` items, and removes the remembered differences of its
    /// range: [`Walk::remember`] stores the new ones.
    pub async fn next_page(&mut self, pool: &Database, size: u32) -> Result<Page, ledger::Error> {
        let (table, condition) = (self.layout.table(), self.sales.condition());
        let statement = format!(
            "SELECT stock.item_id, available, version, arbiter, epoch, home_epoch FROM {table} \
             JOIN stock ON stock.item_id = {table}.item_id \
             JOIN items ON items.id = {table}.item_id \
             WHERE {table}.item_id > ? AND {condition} ORDER BY {table}.item_id LIMIT ?"
        );
        let rows = sqlx::query_as(&statement).bind(self.after).bind(size).fetch_all(pool);
        let rows: Vec<Row> = answered(rows).await?;
        let is_last = rows.len() < size as usize;
        let last = rows.last().filter(|_| !is_last).map_or(i64::MAX, |(id, ..)| *id);
        let counted = rows.into_iter().filter_map(counted).collect();
        let mut before = self.drifted.split_off(&self.after.saturating_add(1));
        self.drifted.append(&mut before.split_off(&last.saturating_add(1)));
        self.after = if is_last { 0 } else { last };
        Ok(Page { counted, before, is_last })
    }

    /// Remembers a difference until the next visit.
    pub fn remember(&mut self, item: ItemId, inspection: Inspection) {
        if self.drifted.len() < REMEMBERED_MAX {
            self.drifted.insert(item.get(), inspection);
        }
    }

    /// The sum of all remembered differences, in units.
    pub fn drift_units(&self) -> i64 {
        self.drifted.values().map(|inspection| inspection.drift().abs()).sum()
    }
}

/// Id, units available, version of the stock, arbiter, epoch, epoch of the home.
type Row = (i64, i64, u64, String, u64, u64);

/// `None` for a row that this program does not understand: a newer one may have written it.
fn counted((id, available, version, arbiter, epoch, home_epoch): Row) -> Option<Counted> {
    let (item, arbiter) = (ItemId::new(id)?, ArbiterMode::parse(&arbiter)?);
    Some(Counted { item, available, version, arbiter, epoch, home_epoch })
}
