//! A walk over the counted items of one layout, a page at a time, which continues where the last
//! run stopped and remembers the differences that it found.

use std::collections::BTreeMap;

use mysql_connection::Database;

use gates::redis_store::{Counter, CounterAndQueue};
use ledger::rows::redis_lists::{CountedItem, CounterLayout, Sales};
use shop_domain::{ArbiterMode, ItemId};

/// Differences that a walk remembers until its next visit; further ones are not remembered.
const REMEMBERED_MAX: usize = 10_000;

/// The counter of an item as Redis has it.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum CounterState {
    Whole(CounterAndQueue),
    Split(Vec<Counter>),
}

/// One counter and its stock row, as one inspection read them.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Inspection {
    pub seen: CounterState,
    pub available: i64,
    pub version: u64,
    pub arbiter: Option<ArbiterMode>,
}

impl Inspection {
    /// Units by which Redis, with the queued units, exceeds the ledger.
    pub fn drift(&self) -> i64 {
        let redis = match &self.seen {
            CounterState::Whole(seen) => seen.counter.available + seen.queued,
            CounterState::Split(parts) => parts.iter().map(|part| part.available).sum(),
        };
        redis - self.available
    }
}

/// The state of a walk.
pub(super) struct Walk {
    pub layout: CounterLayout,
    pub sales: Sales,
    /// The last item of the page before; 0 before the first page.
    after: i64,
    /// The last difference of each item.
    drifted: BTreeMap<i64, Inspection>,
}

/// A page of items, and the remembered differences in its range.
pub(super) struct Page {
    pub counted: Vec<CountedItem>,
    pub before: BTreeMap<i64, Inspection>,
    /// Whether this is the last page; the next one is the first again.
    pub is_last: bool,
}

impl Walk {
    /// Makes a walk that begins with the oldest item.
    pub fn new(layout: CounterLayout, sales: Sales) -> Self {
        Self { layout, sales, after: 0, drifted: BTreeMap::new() }
    }

    /// Takes the next page of at most `size` items, and removes the remembered differences of its
    /// range: [`Walk::remember`] stores the new ones.
    pub async fn next_page(&mut self, pool: &Database, size: u32) -> Result<Page, ledger::Error> {
        let rows = self.layout.list(pool, self.sales, self.after, size).await?;
        let is_last = rows.len() < size as usize;
        let last = rows.last().filter(|_| !is_last).map_or(i64::MAX, |row| row.item.get());
        let mut before = self.drifted.split_off(&self.after.saturating_add(1));
        self.drifted.append(&mut before.split_off(&last.saturating_add(1)));
        self.after = if is_last { 0 } else { last };
        Ok(Page { counted: rows, before, is_last })
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
