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

use tokio::time::Instant;

use super::micros;
use ledger::cache::Cache;
use shop_domain::ItemId;

/// Items that are remembered at once.
const REMEMBERED_MAX: usize = 100_000;

/// The items that are known to be sold out. Clones share them.
#[derive(Clone)]
pub struct SoldOut {
    known: Cache<ItemId, Arc<SoldOutItem>>,
    started: Instant,
    look_again: Duration,
}

/// One item that is or was sold out. Times are in microseconds since the start of the memory, and 0 is never.
#[derive(Debug, Default)]
struct SoldOutItem {
    /// When the ledger was asked.
    learnt_us: AtomicU64,
    next_look_us: AtomicU64,
    /// When units came back: an answer to an earlier question does not know of them, and may come later.
    cleared_us: AtomicU64,
}

impl SoldOut {
    /// Makes a memory that answers for `look_again` at a time. An entry is not used any more when it is not confirmed
    /// within twice this time.
    pub fn new(look_again: Duration) -> Self {
        Self { known: Cache::new(REMEMBERED_MAX), started: Instant::now(), look_again }
    }

    /// Whether memory says that the item is sold out. When the moment is over, one caller gets
    /// `false` and asks the gate again.
    pub fn is_known(&self, item: ItemId) -> bool {
        let Some(known) = self.known.get(item) else { return false };
        let now_us = self.now_us();
        let look_again_us = micros(self.look_again);
        let learnt_us = known.learnt_us.load(Ordering::Relaxed);
        let is_cleared = learnt_us <= known.cleared_us.load(Ordering::Relaxed);
        if is_cleared || now_us >= learnt_us.saturating_add(2 * look_again_us) {
            return false;
        }
        let due_us = known.next_look_us.load(Ordering::Relaxed);
        if now_us < due_us {
            return true;
        }
        let next_us = now_us + look_again_us;
        let next_look = &known.next_look_us;
        let taken =
            next_look.compare_exchange(due_us, next_us, Ordering::Relaxed, Ordering::Relaxed);
        taken.is_err()
    }

    /// Remembers that the ledger, which was asked at this moment, has nothing left of the item. The longer the answer
    /// took, the shorter it is remembered. `None`: the gate itself has said so, now.
    pub fn learn(&self, item: ItemId, asked_at: Option<std::time::Instant>) {
        let asked_at = asked_at.map_or_else(Instant::now, Instant::from_std);
        let learnt_us = self.at_us(asked_at);
        let known = self.known.get_or_insert_with(item, Arc::default);
        if known.learnt_us.fetch_max(learnt_us, Ordering::Relaxed) <= learnt_us {
            let next_look_us = learnt_us + micros(self.look_again);
            known.next_look_us.store(next_look_us, Ordering::Relaxed);
        }
    }

    /// Forgets the item, because units came back, and believes no answer that was asked for before.
    pub fn clear(&self, item: ItemId) {
        let known = self.known.get_or_insert_with(item, Arc::default);
        known.cleared_us.fetch_max(self.now_us(), Ordering::Relaxed);
    }

    fn now_us(&self) -> u64 {
        self.at_us(Instant::now())
    }

    fn at_us(&self, moment: Instant) -> u64 {
        micros(moment.saturating_duration_since(self.started)).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_caller_at_a_time_looks_again() {
        let item = ItemId::new(1).expect("positive");
        let sold_out = SoldOut::new(Duration::from_secs(60));
        assert!(!sold_out.is_known(item));
        sold_out.learn(item, None);
        assert!(sold_out.is_known(item));
        // Make the next read due.
        sold_out.known.get(item).expect("learnt").next_look_us.store(0, Ordering::Relaxed);
        let through = (0..10).filter(|_| !sold_out.is_known(item)).count();
        assert_eq!(through, 1);
        sold_out.clear(item);
        assert!(!sold_out.is_known(item));
    }

    #[test]
    fn an_entry_is_not_used_beyond_twice_the_moment() {
        let (item, look_again) = (ItemId::new(1).expect("positive"), Duration::from_millis(1));
        let sold_out = SoldOut::new(look_again);
        // A late look has put the next one off.
        let learnt_us = AtomicU64::new(1);
        let next_look_us = AtomicU64::new(u64::MAX);
        let known = SoldOutItem { learnt_us, next_look_us, ..SoldOutItem::default() };
        sold_out.known.insert(item, Arc::new(known));
        std::thread::sleep(look_again * 3);
        assert!(!sold_out.is_known(item));
    }

    #[test]
    fn an_answer_is_as_old_as_its_question() {
        let (item, look_again) = (ItemId::new(1).expect("positive"), Duration::from_millis(1));
        let sold_out = SoldOut::new(look_again);
        let asked_at = std::time::Instant::now();
        std::thread::sleep(look_again * 2);
        sold_out.learn(item, Some(asked_at));
        assert!(!sold_out.is_known(item));
    }

    #[test]
    fn an_answer_that_was_asked_for_before_units_came_back_is_not_believed() {
        let item = ItemId::new(1).expect("positive");
        let sold_out = SoldOut::new(Duration::from_secs(60));
        let before = std::time::Instant::now();
        std::thread::sleep(Duration::from_millis(1));
        sold_out.clear(item);
        sold_out.learn(item, Some(before));
        assert!(!sold_out.is_known(item));
        std::thread::sleep(Duration::from_millis(1));
        sold_out.learn(item, Some(std::time::Instant::now()));
        assert!(sold_out.is_known(item), "an answer that was asked for later is believed");
    }
}
