//! "Sold out", answered from memory.
//!
//! After a gate has said so, requests are answered from here for a moment without Redis or MySQL.
//! (A request with a caller's key is then looked up in the ledger: it may be the retry of an order
//! that another instance has made, for which "sold out" would be wrong.) When the moment is over,
//! one request goes through and asks again while the others are still answered from memory. So a
//! restock anywhere is noticed within a second, and a sold-out item costs next to nothing, however
//! many buyers ask for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use crate::domain::ItemId;

/// Items that are remembered at once.
const REMEMBERED_MAX: u64 = 100_000;

/// The items that are known to be sold out. Clones share them.
#[derive(Clone)]
pub struct SoldOut {
    known: Cache<ItemId, Arc<AtomicU64>>,
    started: Instant,
    look_again: Duration,
}

impl SoldOut {
    /// Makes a memory that answers for `look_again` at a time; an entry that is not confirmed is
    /// dropped after twice that.
    #[must_use]
    pub fn new(look_again: Duration) -> Self {
        let known =
            Cache::builder().max_capacity(REMEMBERED_MAX).time_to_live(look_again * 2).build();
        Self { known, started: Instant::now(), look_again }
    }

    /// Whether memory says that the item is sold out. When the moment is over, one caller gets
    /// `false` and asks the gate again.
    #[must_use]
    pub fn is_known(&self, item: ItemId) -> bool {
        let Some(next_look_us) = self.known.get(&item) else { return false };
        let now_us = self.now_us();
        let due_us = next_look_us.load(Ordering::Relaxed);
        if now_us < due_us {
            return true;
        }
        let next_us = now_us + micros(self.look_again);
        let taken =
            next_look_us.compare_exchange(due_us, next_us, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_err()
    }

    /// Remembers that the ledger has nothing left of the item.
    pub fn learn(&self, item: ItemId) {
        let due_us = self.now_us() + micros(self.look_again);
        self.known.insert(item, Arc::new(AtomicU64::new(due_us)));
    }

    /// Forgets the item, because units came back.
    pub fn clear(&self, item: ItemId) {
        self.known.invalidate(&item);
    }

    fn now_us(&self) -> u64 {
        micros(self.started.elapsed())
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_at_a_time_looks_again() {
        let item = ItemId::new(1).expect("positive");
        let sold_out = SoldOut::new(Duration::from_secs(60));
        assert!(!sold_out.is_known(item));
        sold_out.learn(item);
        assert!(sold_out.is_known(item));
        // Make the next read due.
        sold_out.known.get(&item).expect("learnt").store(0, Ordering::Relaxed);
        let through = (0..10).filter(|_| !sold_out.is_known(item)).count();
        assert_eq!(through, 1);
        sold_out.clear(item);
        assert!(!sold_out.is_known(item));
    }
}
