//! Load shedding by item: refuses a purchase that would wait too long, by the rate at which the
//! item's purchases end, or whose item uses up what all items share.
//!
//! An unbounded queue grows until every request in it waits beyond its deadline: then all the work
//! is done for buyers who do not wait any more. So when purchases of an item wait longer than they
//! may, the shedder admits only the number that can be served in that time, by the rate of the last
//! window, and refuses the others at once, which costs next to nothing. Until the first purchases
//! finish there is no rate, and none is refused.
//!
//! The purchases of an item whose row is locked do not end at all. So an item may have at most a
//! multiple of the permits that are still free (dynamic thresholds; Choudhury and Hahne, 1998): alone
//! it gets its share of all permits, several such items get less each, and some are always free. The
//! last one is for an item of which no purchase runs.
//!
//! An order of several items counts for each of them. While it waits for one of them, it counts for that one alone, with
//! the permits of all its lines, and its time there is no wait for the others.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::micros;
use ledger::cache::Cache;
use shop_domain::ItemId;

/// Items whose load is known at once.
const ITEMS_MAX: usize = 100_000;
/// Over how long the rate is counted.
const WINDOW: Duration = Duration::from_millis(500);
/// Purchases of an item that may always run, however slow they are.
const RUNNING_MIN: usize = 64;

/// Refuses purchases by the load of their item. Clones share the loads.
#[derive(Clone)]
pub struct LoadShedder {
    items: Cache<ItemId, Arc<ItemLoad>>,
    started: Instant,
    limits: ItemLimits,
}

/// What the purchases of one item may use.
#[derive(Clone, Copy, Debug)]
pub struct ItemLimits {
    /// How long they may wait.
    pub wait_max: Duration,
    /// The part of all permits that they may have while no other item has any, in percent.
    pub percent: u8,
}

/// The load of one item.
#[derive(Debug, Default)]
struct ItemLoad {
    running: AtomicUsize,
    /// The permits of those that run, and of other lines of orders that wait for the item.
    permits: AtomicUsize,
    /// The running time of the purchase that ended last.
    last_wait_us: AtomicU64,
    window_began_us: AtomicU64,
    ended_in_window: AtomicU64,
    /// The count of the last whole window; 0 before the first.
    ended_per_second: AtomicU64,
}

/// The permit of one purchase. When it is dropped, the purchase does not run any more.
#[derive(Debug)]
pub struct LoadPermit {
    item: ItemId,
    load: Arc<ItemLoad>,
    started: Instant,
    state: Mutex<PermitState>,
}

#[derive(Debug)]
struct PermitState {
    counted: CountedPermit,
    /// The start, moved later by the time that the order has waited for other items.
    began_us: u64,
    /// When the permit last changed the item that it counts for.
    changed_us: u64,
}

/// Counts a permit for an item until it is dropped.
#[derive(Debug)]
struct CountedPermit {
    load: Arc<ItemLoad>,
    /// Whether it belongs to a purchase of the item that runs.
    is_running: bool,
}

impl LoadShedder {
    /// Refuses purchases of items that are beyond their limits.
    pub fn new(limits: ItemLimits) -> Self {
        Self { items: Cache::new(ITEMS_MAX), started: Instant::now(), limits }
    }

    /// Lets a purchase of `item` in. Refuses it if it would wait too long, or if its item has its share of the permits
    /// while `free` are left (the purchase's own one included).
    #[must_use]
    pub fn enter(&self, item: ItemId, free: usize) -> Option<LoadPermit> {
        let ItemLimits { wait_max, percent } = self.limits;
        let load = self.items.get_or_insert_with(item, Arc::default);
        if load.is_too_slow(micros(wait_max)) || load.has_its_share(percent, free) {
            return None;
        }
        let began_us = micros(self.started.elapsed());
        let counted = CountedPermit::new(&load, true);
        let state = Mutex::new(PermitState { counted, began_us, changed_us: began_us });
        Some(LoadPermit { item, load, started: self.started, state })
    }
}

impl ItemLoad {
    fn is_too_slow(&self, wait_max_us: u64) -> bool {
        if self.last_wait_us.load(Ordering::Relaxed) <= wait_max_us {
            return false;
        }
        let rate = self.ended_per_second.load(Ordering::Relaxed);
        let served_in_time = rate.saturating_mul(wait_max_us) / 1_000_000;
        let served_in_time = usize::try_from(served_in_time).unwrap_or(usize::MAX);
        rate > 0 && self.running.load(Ordering::Relaxed) >= served_in_time.max(RUNNING_MIN)
    }

    fn has_its_share(&self, percent: u8, free: usize) -> bool {
        let permits = self.permits.load(Ordering::Relaxed);
        let others = 100_usize.saturating_sub(percent.into());
        if others == 0 || permits == 0 {
            return false;
        }
        // Alone, with `percent` of all permits, just as many times `others` percent are free.
        free < 2 || permits.saturating_mul(others) >= free.saturating_mul(percent.into())
    }

    fn ended(&self, began_us: u64, now_us: u64) {
        self.last_wait_us.store(now_us.saturating_sub(began_us), Ordering::Relaxed);
        let ended = self.ended_in_window.fetch_add(1, Ordering::Relaxed) + 1;
        let window_us = self.window_began_us.load(Ordering::Relaxed);
        let length_us = now_us.saturating_sub(window_us);
        if length_us < micros(WINDOW) {
            return;
        }
        // Several requests may find the window over; the compare-exchange lets one close it.
        let closed = self.window_began_us.compare_exchange(
            window_us,
            now_us,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
        if closed.is_ok() {
            self.ended_in_window.store(0, Ordering::Relaxed);
            let rate = if window_us == 0 { 0 } else { ended.saturating_mul(1_000_000) / length_us };
            self.ended_per_second.store(rate, Ordering::Relaxed);
        }
    }
}

impl LoadPermit {
    /// Counts the purchase as ended. A purchase that was turned away after it had the permit, such as by another line
    /// of its order, is not counted: its time says nothing of the wait of the others.
    pub fn ended(&self) {
        let began_us = self.state().began_us;
        self.load.ended(began_us, micros(self.started.elapsed()));
    }

    /// Counts the lines of an order for the one item that the order waits for; each for its own item with `None`.
    pub fn wait(lines: &[Arc<Self>], awaited: Option<ItemId>) {
        let awaited = awaited.and_then(|item| lines.iter().find(|line| line.item == item));
        lines.iter().for_each(|line| line.count_for(awaited.unwrap_or(line)));
    }

    fn count_for(&self, line: &Self) {
        let now_us = micros(self.started.elapsed());
        let mut state = self.state();
        if !state.counted.is_running {
            state.began_us += now_us.saturating_sub(state.changed_us);
        }
        state.changed_us = now_us;
        state.counted = CountedPermit::new(&line.load, line.item == self.item);
    }

    fn state(&self) -> MutexGuard<'_, PermitState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CountedPermit {
    fn new(load: &Arc<ItemLoad>, is_running: bool) -> Self {
        load.permits.fetch_add(1, Ordering::Relaxed);
        load.running.fetch_add(is_running.into(), Ordering::Relaxed);
        Self { load: Arc::clone(load), is_running }
    }
}

impl Drop for CountedPermit {
    fn drop(&mut self) {
        self.load.running.fetch_sub(self.is_running.into(), Ordering::Relaxed);
        self.load.permits.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// `running` are in, and `rate` a second have ended lately, each after `wait_us`.
    fn load(running: usize, rate: u64, wait_us: u64) -> ItemLoad {
        let load = ItemLoad::default();
        load.running.store(running, Ordering::Relaxed);
        load.last_wait_us.store(wait_us, Ordering::Relaxed);
        load.ended_per_second.store(rate, Ordering::Relaxed);
        load
    }

    #[test]
    fn only_as_many_are_in_as_can_be_served_in_time() {
        let wait_max_us = 5 * SECOND_US;
        // As many as are served in five seconds, and one more.
        assert!(!load(499, 100, 6 * SECOND_US).is_too_slow(wait_max_us));
        assert!(load(500, 100, 6 * SECOND_US).is_too_slow(wait_max_us));
        // Many purchases that are served in time, a few slow ones, and the first ones.
        assert!(!load(5_000, 100, 4 * SECOND_US).is_too_slow(wait_max_us));
        assert!(!load(RUNNING_MIN - 1, 1, 6 * SECOND_US).is_too_slow(wait_max_us));
        assert!(!load(5_000, 0, 6 * SECOND_US).is_too_slow(wait_max_us));
    }

    #[test]
    fn the_rate_is_that_of_the_last_whole_window() {
        let load = load(1_000, 0, 0);
        load.ended(0, SECOND_US);
        assert_eq!(load.ended_per_second.load(Ordering::Relaxed), 0, "the first one has no length");
        for index in 1..=100 {
            load.ended(0, SECOND_US + index * 5_000);
        }
        assert_eq!(load.ended_per_second.load(Ordering::Relaxed), 200);
    }

    /// How many purchases each of some items gets of `permits`, when all of them press and none ends.
    fn shares(permits: usize, percent: u8, items: usize) -> Vec<usize> {
        let loads: Vec<ItemLoad> = (0..items).map(|_| ItemLoad::default()).collect();
        let mut free = permits;
        for _ in 0..permits {
            for load in &loads {
                if free > 0 && !load.has_its_share(percent, free) {
                    load.permits.fetch_add(1, Ordering::Relaxed);
                    free -= 1;
                }
            }
        }
        loads.iter().map(|load| load.permits.load(Ordering::Relaxed)).collect()
    }

    #[test]
    fn some_permits_stay_free_however_many_items_are_stuck() {
        assert_eq!(shares(10_000, 90, 1), [9_000]);
        assert_eq!(shares(10_000, 50, 1), [5_000]);
        assert_eq!(shares(10_000, 100, 1), [10_000]);
        for items in [2, 10, 100] {
            let shares = shares(10_000, 90, items);
            let (least, most) = (shares.iter().min(), shares.iter().max());
            assert!(most.expect("some") - least.expect("some") <= 1, "{shares:?}");
            let free = 10_000 - shares.iter().sum::<usize>();
            assert!(free >= 10_000 / (1 + 9 * items) - 2, "{free} for {items} items");
        }
        // The last permit is for an item that has none.
        assert_eq!(shares(2, 90, 1), [1]);
        assert_eq!(shares(2, 90, 3), [1, 1, 0]);
        assert_eq!(shares(1, 90, 1), [1]);
    }

    #[tokio::test]
    async fn what_ended_is_not_in_any_more() {
        let shedder =
            LoadShedder::new(ItemLimits { wait_max: Duration::from_secs(1), percent: 100 });
        let item = ItemId::new(1).expect("positive");
        let running: Vec<LoadPermit> =
            (0..100).filter_map(|left| shedder.enter(item, 100 - left)).collect();
        let count = |shedder: &LoadShedder| {
            shedder.items.get(item).map(|load| load.running.load(Ordering::Relaxed))
        };
        assert_eq!((running.len(), count(&shedder)), (100, Some(100)));
        drop(running);
        assert_eq!(count(&shedder), Some(0));
    }

    /// Buyers who send a request again while it runs are turned away at once. They let nobody else in.
    #[tokio::test]
    async fn what_never_ran_says_nothing_of_the_wait() {
        let shedder =
            LoadShedder::new(ItemLimits { wait_max: Duration::from_secs(1), percent: 100 });
        let item = ItemId::new(1).expect("positive");
        let mut entered: Vec<LoadPermit> =
            (0..RUNNING_MIN + 3).filter_map(|_| shedder.enter(item, 1_000)).collect();
        let load = shedder.items.get(item).expect("it has purchases");
        load.last_wait_us.store(6 * SECOND_US, Ordering::Relaxed);
        load.ended_per_second.store(1, Ordering::Relaxed);
        drop(entered.pop());
        assert!(shedder.enter(item, 1_000).is_none(), "a purchase would wait too long");
        entered.pop().expect("many are in").ended();
        assert!(shedder.enter(item, 1_000).is_some(), "a purchase has ended at once");
    }

    /// Orders of two items wait for one of them for longer than they may. The buyers of the other one go on.
    #[tokio::test]
    async fn an_order_counts_for_the_item_that_it_waits_for() {
        let limits = ItemLimits { wait_max: Duration::from_secs(1), percent: 50 };
        let mut shedder = LoadShedder::new(limits);
        // So that times may lie before now.
        shedder.started = Instant::now().checked_sub(Duration::from_secs(60)).expect("a minute");
        let [cold, hot] = [1, 2].map(|id| ItemId::new(id).expect("positive"));
        let enter = |item| Arc::new(shedder.enter(item, 1_000).expect("there is room"));
        let orders: Vec<_> = (0..RUNNING_MIN).map(|_| [cold, hot].map(enter)).collect();
        let counts = |item| {
            let load = shedder.items.get(item).expect("it has purchases");
            [&load.running, &load.permits].map(|count| count.load(Ordering::Relaxed))
        };
        assert_eq!([counts(cold), counts(hot)], [[64, 64]; 2]);
        for order in &orders {
            LoadPermit::wait(order, Some(hot));
            // As if they waited for six seconds.
            for line in order {
                let mut state = line.state();
                state.began_us -= 6 * SECOND_US;
                state.changed_us -= 6 * SECOND_US;
            }
        }
        assert_eq!([counts(cold), counts(hot)], [[0, 0], [64, 128]]);
        for order in &orders {
            LoadPermit::wait(order, None);
            order.iter().for_each(|line| line.ended());
        }
        assert_eq!([counts(cold), counts(hot)], [[64, 64]; 2]);
        for item in [cold, hot] {
            let load = shedder.items.get(item).expect("it has purchases");
            load.ended_per_second.store(1, Ordering::Relaxed);
        }
        assert!(shedder.enter(hot, 1_000).is_none(), "its orders have waited for too long");
        assert!(shedder.enter(cold, 1_000).is_some(), "nobody has waited for it");
        drop(orders);
        assert_eq!([counts(cold), counts(hot)], [[0, 0]; 2]);
    }
}
