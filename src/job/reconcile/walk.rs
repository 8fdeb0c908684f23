//! A walk over the counted items of one kind, a page at a time, that goes on where the last run
//! stopped; and what it saw that differed from the ledger.

use std::collections::BTreeMap;

use sqlx::MySqlPool;

use crate::domain::{ArbiterMode, ItemId};
use crate::store::mysql::answered;
use crate::store::redis::{Counter, CounterAndQueue};

/// Differences that a walk remembers until it comes by again; further ones wait until some of these
/// are gone.
const REMEMBERED_MAX: usize = 10_000;

/// How counters lie in Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// An item has one key.
    Whole,
    /// An item's units are split over several keys.
    Split,
}

impl Layout {
    /// The ledger's list of such items.
    pub fn table(self) -> &'static str {
        match self {
            Self::Whole => "redis_counters",
            Self::Split => "redis_buckets",
        }
    }
}

/// Which sales a walk looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sales {
    /// Those that are not over, by the database's clock.
    Open,
    /// Those that are over. Without an arbiter nothing is repaired, and then nobody sells: these are
    /// left out.
    Ended,
}

impl Sales {
    /// The kinds are named for the index over kind and end.
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
}

/// What Redis has.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Seen {
    Whole(CounterAndQueue),
    Split(Vec<Counter>),
}

/// One counter as one look saw it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Look {
    pub seen: Seen,
    pub available: i64,
    pub version: u64,
    pub arbiter: ArbiterMode,
}

impl Look {
    /// Units that Redis has more than the ledger, with what is queued.
    pub fn drift(&self) -> i64 {
        let redis = match &self.seen {
            Seen::Whole(seen) => seen.counter.available + seen.queued,
            Seen::Split(parts) => parts.iter().map(|part| part.available).sum(),
        };
        redis - self.available
    }
}

/// The walk.
pub(super) struct Walk {
    pub layout: Layout,
    pub sales: Sales,
    /// The last item of the page before; 0 before the first page.
    after: i64,
    /// The differences that were last seen, by item.
    drifted: BTreeMap<i64, Look>,
}

/// A page of items, and what was remembered of those in its range.
pub(super) struct Page {
    pub counted: Vec<Counted>,
    pub before: BTreeMap<i64, Look>,
    /// Whether it was the last one; the next page is the first again.
    pub is_last: bool,
}

impl Walk {
    /// A walk that begins with the oldest item.
    pub fn new(layout: Layout, sales: Sales) -> Self {
        Self { layout, sales, after: 0, drifted: BTreeMap::new() }
    }

    /// Takes the next page of at most `size` items, and forgets what it remembers of their range:
    /// [`Walk::remember`] what is seen there now.
    pub async fn next_page(&mut self, pool: &MySqlPool, size: u32) -> Result<Page, sqlx::Error> {
        let (table, condition) = (self.layout.table(), self.sales.condition());
        let statement = format!(
            "SELECT stock.item_id, available, version, arbiter, epoch FROM {table} \
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

    /// Remembers a difference until the walk comes by again.
    pub fn remember(&mut self, item: ItemId, look: Look) {
        if self.drifted.len() < REMEMBERED_MAX {
            self.drifted.insert(item.get(), look);
        }
    }

    /// Units by which the counters differ, as far as they were last seen.
    pub fn drift_units(&self) -> i64 {
        self.drifted.values().map(|look| look.drift().abs()).sum()
    }
}

/// Id, units available, version of the stock, arbiter, epoch.
type Row = (i64, i64, u64, String, u64);

/// `None` for a row that this program does not understand: a newer one may have written it.
fn counted((id, available, version, arbiter, epoch): Row) -> Option<Counted> {
    let (item, arbiter) = (ItemId::new(id)?, ArbiterMode::parse(&arbiter)?);
    Some(Counted { item, available, version, arbiter, epoch })
}
