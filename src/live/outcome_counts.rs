//! Counts of each item's purchases by outcome, for the operator's console: in this process, since
//! its start. Metrics count by strategy, which bounds their number; here the number of items is
//! bounded.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use shop_domain::{ItemId, Outcome};

/// Items with counts: the newest.
const ITEMS_MAX: usize = 10_000;

/// The number of purchases of one item by [`Outcome::as_str`].
type Counts = RwLock<BTreeMap<&'static str, AtomicU64>>;

/// The counts of all items. Clones count together.
#[derive(Clone, Default)]
pub struct OutcomeCounts {
    items: Arc<RwLock<BTreeMap<ItemId, Arc<Counts>>>>,
}

impl OutcomeCounts {
    /// Counts one purchase of `item` that ended with `outcome`.
    pub fn count(&self, item: ItemId, outcome: &Outcome) {
        let counts = self.of(item).unwrap_or_else(|| self.begin(item));
        let outcome = outcome.as_str();
        let known = counts.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get(outcome) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(known);
        let mut counts = counts.write().unwrap_or_else(PoisonError::into_inner);
        counts.entry(outcome).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// The number of purchases of `item` by outcome; empty when this process had none.
    #[must_use]
    pub fn read(&self, item: ItemId) -> BTreeMap<&'static str, u64> {
        let Some(counts) = self.of(item) else { return BTreeMap::new() };
        let counts = counts.read().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(outcome, count)| (*outcome, count.load(Ordering::Relaxed))).collect()
    }

    fn of(&self, item: ItemId) -> Option<Arc<Counts>> {
        self.items.read().unwrap_or_else(PoisonError::into_inner).get(&item).map(Arc::clone)
    }

    fn begin(&self, item: ItemId) -> Arc<Counts> {
        let mut items = self.items.write().unwrap_or_else(PoisonError::into_inner);
        let counts = Arc::clone(items.entry(item).or_default());
        if items.len() > ITEMS_MAX {
            items.pop_first();
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::{Doubt, Refusal};

    #[test]
    fn outcomes_are_counted_by_item_and_the_oldest_items_are_forgotten() {
        let outcome_counts = OutcomeCounts::default();
        let item = |id: usize| ItemId::new(i64::try_from(id).expect("small")).expect("positive");
        let refused = Outcome::Refused(Refusal::SoldOut { asked_at: None });
        outcome_counts.count(item(1), &refused);
        outcome_counts.count(item(1), &refused);
        outcome_counts.count(item(1), &Outcome::Unknown(Doubt::StillRunning));
        assert_eq!(
            outcome_counts.read(item(1)),
            BTreeMap::from([("outcome_unknown", 1), ("sold_out", 2)])
        );
        assert_eq!(outcome_counts.read(item(2)), BTreeMap::new());
        for id in 2..ITEMS_MAX + 2 {
            outcome_counts.count(item(id), &refused);
        }
        assert_eq!(outcome_counts.read(item(1)), BTreeMap::new(), "it is the oldest");
        assert_eq!(outcome_counts.read(item(ITEMS_MAX + 1)), BTreeMap::from([("sold_out", 1)]));
    }
}
