//! Suspicion: whether an item is written apart from the others for a while, because of it a batch
//! was rolled back or waited.
//!
//! Suspicion lasts for a second after each objection, and then until a batch of the item's own went
//! through whole and at once. So an item that is sold out, or whose row another transaction holds, costs the
//! others one batch, not one batch a second.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::pipeline::PATIENCE;

/// Items that are suspect at once because their orders were refused. The orders of further ones are
/// refused in the batches of all: when many items object, writing each apart helps nobody.
pub(super) const SUSPECTS_MAX: i64 = 16;
/// How long an item stays apart after an objection.
const SUSPECT_FOR: Duration = Duration::from_secs(1);

/// The suspicion of one item.
pub(super) struct Suspicion {
    /// `None`: not suspect. Otherwise the instant from which on a clean batch ends it.
    until: Mutex<Option<Instant>>,
    /// The number of suspect items, which all items share.
    suspects: Gauge,
}

impl Suspicion {
    /// Of an item that is not suspect, counted in `suspects` when it is.
    pub(super) fn new(suspects: Gauge) -> Self {
        Self { until: Mutex::new(None), suspects }
    }

    /// Whether the item is suspect.
    pub(super) fn is_raised(&self) -> bool {
        self.until().is_some()
    }

    /// Makes the item suspect for a second from `now` on.
    pub(super) fn raise(&self, now: Instant) {
        self.raise_until(now + SUSPECT_FOR);
    }

    /// Makes the item suspect until its next clean batch.
    pub(super) fn raise_until_clean(&self, now: Instant) {
        self.raise_until(now);
    }

    /// Takes note of the end, at `now`, of a batch of the item's own that began at `begun` and
    /// either objected or was clean. A slow one was not clean, unless more than
    /// [`SUSPECTS_MAX`] items are apart: then each is slow for that reason alone.
    pub(super) fn batch_ended(&self, begun: Instant, now: Instant, objected: bool) {
        let slow = now - begun > PATIENCE && self.suspects.get() <= SUSPECTS_MAX;
        if objected || slow {
            self.raise(now);
            return;
        }
        let mut until = self.until();
        if until.is_some_and(|until| begun >= until) {
            *until = None;
            self.suspects.dec();
        }
    }

    fn raise_until(&self, instant: Instant) {
        let mut until = self.until();
        if until.is_none() {
            self.suspects.inc();
        }
        *until = (*until).max(Some(instant));
    }

    fn until(&self) -> MutexGuard<'_, Option<Instant>> {
        self.until.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Suspicion {
    fn drop(&mut self) {
        if self.is_raised() {
            self.suspects.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_suspect_for_a_second_and_until_its_next_clean_batch() {
        let suspects = Gauge::default();
        let item = Suspicion::new(suspects.clone());
        let raised = Instant::now();
        item.raise(raised);
        item.batch_ended(raised, raised, false);
        assert!(item.is_raised(), "too early");
        let later = raised + 2 * SUSPECT_FOR;
        item.batch_ended(later, later, true);
        item.batch_ended(later, later, false);
        assert!(item.is_raised(), "it objected again");
        let (slow, slow_ended) = (later + SUSPECT_FOR, later + SUSPECT_FOR + 2 * PATIENCE);
        item.batch_ended(slow, slow_ended, false);
        assert!(item.is_raised(), "it was slow");
        assert_eq!(suspects.get(), 1);
        let last = slow_ended + SUSPECT_FOR;
        item.batch_ended(last, last, false);
        assert_eq!((item.is_raised(), suspects.get()), (false, 0));
    }

    #[test]
    fn a_clean_batch_clears_an_item_that_only_was_in_bad_company() {
        let suspects = Gauge::default();
        let item = Suspicion::new(suspects.clone());
        let now = Instant::now();
        item.raise_until_clean(now);
        assert_eq!((item.is_raised(), suspects.get()), (true, 1));
        item.batch_ended(now, now, false);
        assert_eq!((item.is_raised(), suspects.get()), (false, 0));
        item.raise(now);
        drop(item);
        assert_eq!(suspects.get(), 0);
    }

    #[test]
    fn slow_batches_keep_nobody_apart_when_very_many_are() {
        let suspects = Gauge::default();
        let now = Instant::now();
        let items: Vec<Suspicion> =
            (0..=SUSPECTS_MAX).map(|_| Suspicion::new(suspects.clone())).collect();
        items.iter().for_each(|item| item.raise_until_clean(now));
        items[0].batch_ended(now, now + 2 * PATIENCE, false);
        assert!(!items[0].is_raised());
        items[1].batch_ended(now, now + 2 * PATIENCE, false);
        assert!(items[1].is_raised(), "few enough are left");
    }
}
