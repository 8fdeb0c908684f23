//! Counts of each item's purchases by outcome, for the operator's console: in this process, since
//! its start. Metrics count by strategy, which bounds their number; here the number of items is
//! bounded.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use ledger::cache::Cache;
use shop_domain::{ItemId, Outcome};

/// Items with counts. Beyond them, those that are bought least are forgotten.
const ITEMS_MAX: usize = 10_000;

/// The number of purchases of one item by [`Outcome::as_str`].
type Counts = BTreeMap<&'static str, u64>;

/// The counts of all items. Clones count together.
#[derive(Clone)]
pub struct OutcomeCounts(Cache<ItemId, Arc<Mutex<Counts>>>);

impl Default for OutcomeCounts {
    fn default() -> Self {
        Self(Cache::new(ITEMS_MAX))
    }
}

impl OutcomeCounts {
    /// Counts one purchase of `item` that ended with `outcome`.
    pub fn count(&self, item: ItemId, outcome: &Outcome) {
        let counts = self.0.get_or_insert_with(item, Arc::default);
        *locked(&counts).entry(outcome.as_str()).or_default() += 1;
    }

    /// The number of purchases of `item` by outcome; empty when this process had none.
    #[must_use]
    pub fn read(&self, item: ItemId) -> BTreeMap<&'static str, u64> {
        self.0.get(item).map(|counts| locked(&counts).clone()).unwrap_or_default()
    }
}

fn locked(counts: &Mutex<Counts>) -> MutexGuard<'_, Counts> {
    counts.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::{Doubt, Refusal};

    #[test]
    fn outcomes_are_counted_by_item_and_the_number_of_items_is_bounded() {
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
        for id in 1..=2 * ITEMS_MAX {
            outcome_counts.count(item(id), &refused);
        }
        let is_known = |id: &usize| !outcome_counts.read(item(*id)).is_empty();
        let known = (1..=2 * ITEMS_MAX).filter(is_known).count();
        assert!((1..=ITEMS_MAX * 11 / 10).contains(&known), "{known}");
    }
}
