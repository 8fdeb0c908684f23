//! How fast an item's purchases go through, and whether another one would wait too long.
//!
//! A queue that nobody bounds grows until everybody in it waits beyond the deadline: then all the
//! work is done for buyers who have gone. So when purchases of an item wait longer than they may,
//! only as many are let in as can be served in that time, by the rate of the last moment; the others
//! are refused at once, which costs next to nothing. While nothing has finished yet nobody is
//! refused: the first crowd of a sale finds out how fast it goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use moka::sync::Cache;
use tokio::time::Instant;

use crate::domain::ItemId;

/// Items whose pace is known at once.
const ITEMS_MAX: u64 = 100_000;
/// The pace of an item that nobody bought for so long is forgotten.
const IDLE_MAX: Duration = Duration::from_secs(10);
/// Over how long the rate is counted.
const WINDOW: Duration = Duration::from_millis(500);
/// So many may always run, however slow they are.
const RUNNING_MIN: usize = 64;

/// The pace of each item. Clones share it.
#[derive(Clone)]
pub struct Paces {
    items: Cache<ItemId, Arc<Pace>>,
    started: Instant,
    wait_max: Duration,
}

/// The pace of one item.
#[derive(Debug, Default)]
struct Pace {
    running: AtomicUsize,
    /// How long the one that ended last was in.
    last_wait_us: AtomicU64,
    window_began_us: AtomicU64,
    ended_in_window: AtomicU64,
    /// Of the last whole window; 0 before there was one.
    ended_per_second: AtomicU64,
}

/// One purchase that is in; dropping it counts it as ended.
#[derive(Debug)]
pub struct Running {
    pace: Arc<Pace>,
    began_us: u64,
    started: Instant,
}

impl Paces {
    /// Nobody is to wait longer than `wait_max`.
    #[must_use]
    pub fn new(wait_max: Duration) -> Self {
        let items = Cache::builder().max_capacity(ITEMS_MAX).time_to_idle(IDLE_MAX).build();
        Self { items, started: Instant::now(), wait_max }
    }

    /// Lets a purchase of `item` in, unless it would wait too long.
    #[must_use]
    pub fn enter(&self, item: ItemId) -> Option<Running> {
        let pace = self.items.get(&item).unwrap_or_else(|| self.items.get_with(item, Arc::default));
        if pace.is_too_slow(micros(self.wait_max)) {
            return None;
        }
        pace.running.fetch_add(1, Ordering::Relaxed);
        Some(Running { pace, began_us: micros(self.started.elapsed()), started: self.started })
    }
}

impl Pace {
    fn is_too_slow(&self, wait_max_us: u64) -> bool {
        if self.last_wait_us.load(Ordering::Relaxed) <= wait_max_us {
            return false;
        }
        let rate = self.ended_per_second.load(Ordering::Relaxed);
        let served_in_time = rate.saturating_mul(wait_max_us) / 1_000_000;
        let served_in_time = usize::try_from(served_in_time).unwrap_or(usize::MAX);
        rate > 0 && self.running.load(Ordering::Relaxed) >= served_in_time.max(RUNNING_MIN)
    }

    fn ended(&self, began_us: u64, now_us: u64) {
        self.running.fetch_sub(1, Ordering::Relaxed);
        self.last_wait_us.store(now_us.saturating_sub(began_us), Ordering::Relaxed);
        let ended = self.ended_in_window.fetch_add(1, Ordering::Relaxed) + 1;
        let window_us = self.window_began_us.load(Ordering::Relaxed);
        let length_us = now_us.saturating_sub(window_us);
        if length_us < micros(WINDOW) {
            return;
        }
        // Only one of those who find the window over closes it.
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

impl Drop for Running {
    fn drop(&mut self) {
        self.pace.ended(self.began_us, micros(self.started.elapsed()));
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND_US: u64 = 1_000_000;

    /// `running` are in, and `rate` a second have ended lately, each after `wait_us`.
    fn pace(running: usize, rate: u64, wait_us: u64) -> Pace {
        let pace = Pace::default();
        pace.running.store(running, Ordering::Relaxed);
        pace.last_wait_us.store(wait_us, Ordering::Relaxed);
        pace.ended_per_second.store(rate, Ordering::Relaxed);
        pace
    }

    #[test]
    fn only_as_many_are_in_as_can_be_served_in_time() {
        let wait_max_us = 5 * SECOND_US;
        // As many as are served in five seconds, and one more.
        assert!(!pace(499, 100, 6 * SECOND_US).is_too_slow(wait_max_us));
        assert!(pace(500, 100, 6 * SECOND_US).is_too_slow(wait_max_us));
        // A crowd that is served in time, a few that are slow, and a start.
        assert!(!pace(5_000, 100, 4 * SECOND_US).is_too_slow(wait_max_us));
        assert!(!pace(RUNNING_MIN - 1, 1, 6 * SECOND_US).is_too_slow(wait_max_us));
        assert!(!pace(5_000, 0, 6 * SECOND_US).is_too_slow(wait_max_us));
    }

    #[test]
    fn the_rate_is_that_of_the_last_whole_window() {
        let pace = pace(1_000, 0, 0);
        pace.ended(0, SECOND_US);
        assert_eq!(pace.ended_per_second.load(Ordering::Relaxed), 0, "the first one has no length");
        for index in 1..=100 {
            pace.ended(0, SECOND_US + index * 5_000);
        }
        assert_eq!(pace.ended_per_second.load(Ordering::Relaxed), 200);
        assert_eq!(pace.running.load(Ordering::Relaxed), 1_000 - 101);
    }

    #[test]
    fn an_item_recovers_when_nobody_waits_long_any_more() {
        let pace = pace(1_000, 50, 2 * SECOND_US);
        assert!(pace.is_too_slow(SECOND_US));
        pace.ended(9 * SECOND_US, 9 * SECOND_US + 1_000);
        assert!(!pace.is_too_slow(SECOND_US));
    }

    #[tokio::test]
    async fn what_ended_is_not_in_any_more() {
        let paces = Paces::new(Duration::from_secs(1));
        let item = ItemId::new(1).expect("positive");
        let running: Vec<Running> = (0..100).filter_map(|_| paces.enter(item)).collect();
        let count =
            |paces: &Paces| paces.items.get(&item).map(|pace| pace.running.load(Ordering::Relaxed));
        assert_eq!((running.len(), count(&paces)), (100, Some(100)));
        drop(running);
        assert_eq!(count(&paces), Some(0));
    }
}
