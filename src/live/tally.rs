//! What became of the purchases of each item, for the operator's console: counted in this process,
//! since its start. Metrics count by strategy, so that their number is bounded; here the number of
//! items is.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use crate::domain::{ItemId, Outcome};

/// Items that are counted: the newest.
const ITEMS_MAX: usize = 1_000;

/// The purchases of one item by the word of their outcome.
type Counts = RwLock<BTreeMap<&'static str, AtomicU64>>;

/// The counts of all items. Clones count together.
#[derive(Clone, Default)]
pub struct Tally {
    items: Arc<RwLock<BTreeMap<ItemId, Arc<Counts>>>>,
}

impl Tally {
    /// A purchase of `item` ended.
    pub fn count(&self, item: ItemId, outcome: &Outcome) {
        let counts = self.of(item).unwrap_or_else(|| self.begin(item));
        let word = outcome.as_str();
        let known = counts.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = known.get(word) {
            count.fetch_add(1, Ordering::Relaxed);
            return;
        }
        drop(known);
        let mut counts = counts.write().unwrap_or_else(PoisonError::into_inner);
        counts.entry(word).or_default().fetch_add(1, Ordering::Relaxed);
    }

    /// The purchases of `item` by the word of their outcome; empty when there were none here.
    #[must_use]
    pub fn read(&self, item: ItemId) -> BTreeMap<&'static str, u64> {
        let Some(counts) = self.of(item) else { return BTreeMap::new() };
        let counts = counts.read().unwrap_or_else(PoisonError::into_inner);
        counts.iter().map(|(word, count)| (*word, count.load(Ordering::Relaxed))).collect()
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
    use crate::domain::{Doubt, Refusal};

    #[test]
    fn outcomes_are_counted_by_item_and_the_oldest_items_are_forgotten() {
        let tally = Tally::default();
        let item = |id: usize| ItemId::new(i64::try_from(id).expect("small")).expect("positive");
        let refused = Outcome::Refused(Refusal::SoldOut);
        tally.count(item(1), &refused);
        tally.count(item(1), &refused);
        tally.count(item(1), &Outcome::Unknown(Doubt::StillRunning));
        assert_eq!(tally.read(item(1)), BTreeMap::from([("outcome_unknown", 1), ("sold_out", 2)]));
        assert_eq!(tally.read(item(2)), BTreeMap::new());
        for id in 2..ITEMS_MAX + 2 {
            tally.count(item(id), &refused);
        }
        assert_eq!(tally.read(item(1)), BTreeMap::new(), "it is the oldest");
        assert_eq!(tally.read(item(ITEMS_MAX + 1)), BTreeMap::from([("sold_out", 1)]));
    }
}
