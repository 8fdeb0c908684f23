//! Quarantine: whether the orders of an item are written apart for a while, because they made a batch fail or wait.
//!
//! Quarantine lasts for a second after each objection, and then until a batch of the item's own went
//! through whole and at once. So an item that is sold out, or whose row another transaction holds, costs the
//! others one batch, not one batch a second. An item that has not objected for a while, because nobody
//! orders it any more, is not in quarantine either: it would take a place of those that object now.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::time::Instant;

use super::pipeline::PATIENCE;
use crate::threads::{Mutex, MutexGuard};

/// Items that are in quarantine at once because their orders were refused. The orders of further ones are
/// refused in the batches of all: when many items object, writing each apart helps nobody.
pub(super) const QUARANTINED_MAX: i64 = 16;
/// How long an item stays apart after an objection.
const QUARANTINE_MIN: Duration = Duration::from_secs(1);
/// How long an item stays apart without an objection and without a clean batch. An item that objects
/// less often costs the others one batch in this time.
const QUARANTINE_MAX: Duration = Duration::from_secs(5);

/// How long an item waits for its next batch after orders that the ledger could not take. Buyers who try
/// again at once would fail as fast as others buy, and cost as much.
const FAILED_PAUSE: Duration = Duration::from_millis(50);

/// The quarantine of one item.
pub(super) struct Quarantine {
    state: Mutex<State>,
    quarantined: QuarantineCount,
}

/// The number of items in quarantine, and the metric that shows it. Clones count together.
#[derive(Clone, Default)]
pub(super) struct QuarantineCount {
    items: Arc<AtomicI64>,
    shown: Gauge,
}

impl QuarantineCount {
    /// A count of none, which `shown` shows from now on.
    pub(super) fn new(shown: Gauge) -> Self {
        Self { items: Arc::default(), shown }
    }

    /// The number of items in quarantine.
    pub(super) fn get(&self) -> i64 {
        self.items.load(Ordering::Relaxed)
    }

    fn inc(&self) {
        self.items.fetch_add(1, Ordering::Relaxed);
        self.shown.inc();
    }

    fn dec(&self) {
        self.items.fetch_sub(1, Ordering::Relaxed);
        self.shown.dec();
    }
}

#[derive(Default)]
struct State {
    /// `None`: not in quarantine. Otherwise the instant from which on a clean batch ends it.
    until: Option<Instant>,
    /// Whether a task waits for it to expire.
    is_watched: bool,
    /// The instant before which no batch of the item is to begin.
    paused_until: Option<Instant>,
}

impl Quarantine {
    /// Of an item that is not in quarantine, counted in `quarantined` when it is.
    pub(super) fn new(quarantined: QuarantineCount) -> Self {
        Self { state: Mutex::default(), quarantined }
    }

    /// Whether the item is in quarantine.
    pub(super) fn is_raised(&self) -> bool {
        self.state().until.is_some()
    }

    /// Whether the caller is to call [`Quarantine::expire`] from now on: the item is in quarantine, and no
    /// other caller does.
    pub(super) fn needs_watch(&self) -> bool {
        let mut state = self.state();
        let needs_watch = state.until.is_some() && !state.is_watched;
        state.is_watched |= needs_watch;
        needs_watch
    }

    /// Ends the quarantine if the last objection is long ago. Returns the instant at which to look
    /// again, `None` when the item is not in quarantine any more.
    pub(super) fn expire(&self, now: Instant) -> Option<Instant> {
        let mut state = self.state();
        let expires = state.until.map(|until| until + QUARANTINE_MAX);
        if expires.is_some_and(|expires| expires > now) {
            return expires;
        }
        if state.until.take().is_some() {
            self.quarantined.dec();
        }
        state.is_watched = false;
        None
    }

    /// Puts the item into quarantine for a second from `now` on.
    pub(super) fn raise(&self, now: Instant) {
        self.raise_until(now + QUARANTINE_MIN);
    }

    /// Puts the item into quarantine until its next clean batch.
    pub(super) fn raise_until_clean(&self, now: Instant) {
        self.raise_until(now);
    }

    /// Takes note of the end, at `now`, of a batch of the item's own that began at `begun` and
    /// either objected or was clean. A slow one was not clean, unless more than
    /// [`QUARANTINED_MAX`] items are apart: then each is slow for that reason alone.
    pub(super) fn batch_ended(&self, begun: Instant, now: Instant, objected: bool) {
        let slow = now - begun > PATIENCE && self.quarantined.get() <= QUARANTINED_MAX;
        if objected || slow {
            self.raise(now);
            return;
        }
        let mut state = self.state();
        if state.until.is_some_and(|until| begun >= until) {
            state.until = None;
            self.quarantined.dec();
        }
    }

    /// Has the item's next batch wait, because the ledger could not take its orders at `now`.
    pub(super) fn pause(&self, now: Instant) {
        self.state().paused_until = Some(now + FAILED_PAUSE);
    }

    /// The instant until which the item's next batch is to wait. The batch after that one does not wait.
    pub(super) fn take_pause(&self) -> Option<Instant> {
        self.state().paused_until.take()
    }

    fn raise_until(&self, instant: Instant) {
        let mut state = self.state();
        if state.until.is_none() {
            self.quarantined.inc();
        }
        state.until = state.until.max(Some(instant));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        if self.is_raised() {
            self.quarantined.dec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_is_in_quarantine_for_a_second_and_until_its_next_clean_batch() {
        let quarantined = QuarantineCount::default();
        let item = Quarantine::new(quarantined.clone());
        let raised = Instant::now();
        item.raise(raised);
        item.batch_ended(raised, raised, false);
        assert!(item.is_raised(), "too early");
        let later = raised + 2 * QUARANTINE_MIN;
        item.batch_ended(later, later, true);
        item.batch_ended(later, later, false);
        assert!(item.is_raised(), "it objected again");
        let (slow, slow_ended) = (later + QUARANTINE_MIN, later + QUARANTINE_MIN + 2 * PATIENCE);
        item.batch_ended(slow, slow_ended, false);
        assert!(item.is_raised(), "it was slow");
        assert_eq!(quarantined.get(), 1);
        let last = slow_ended + QUARANTINE_MIN;
        item.batch_ended(last, last, false);
        assert_eq!((item.is_raised(), quarantined.get()), (false, 0));
    }

    #[test]
    fn a_clean_batch_clears_an_item_that_only_was_in_bad_company() {
        let quarantined = QuarantineCount::default();
        let item = Quarantine::new(quarantined.clone());
        let now = Instant::now();
        item.raise_until_clean(now);
        assert_eq!((item.is_raised(), quarantined.get()), (true, 1));
        item.batch_ended(now, now, false);
        assert_eq!((item.is_raised(), quarantined.get()), (false, 0));
        item.raise(now);
        drop(item);
        assert_eq!(quarantined.get(), 0);
    }

    #[test]
    fn suspicion_expires_when_nothing_objects_any_more() {
        let quarantined = QuarantineCount::default();
        let item = Quarantine::new(quarantined.clone());
        let now = Instant::now();
        assert!(!item.needs_watch(), "it is not in quarantine");
        item.raise(now);
        assert!(item.needs_watch() && !item.needs_watch(), "one watches");
        let expires = item.expire(now).expect("it has just objected");
        // It objects again meanwhile.
        item.raise(now + QUARANTINE_MAX);
        let later = item.expire(expires).expect("it has objected again");
        assert!(later > expires && item.is_raised());
        assert_eq!(item.expire(later), None);
        assert_eq!((item.is_raised(), quarantined.get()), (false, 0));
        item.raise(later);
        assert!(item.needs_watch(), "nobody watches any more");
    }

    #[test]
    fn one_batch_waits_after_orders_that_failed() {
        let item = Quarantine::new(QuarantineCount::default());
        let now = Instant::now();
        assert_eq!(item.take_pause(), None);
        item.pause(now);
        assert!(item.take_pause() > Some(now) && item.take_pause().is_none(), "once");
    }

    #[test]
    fn slow_batches_keep_nobody_apart_when_very_many_are() {
        let quarantined = QuarantineCount::default();
        let now = Instant::now();
        let items: Vec<Quarantine> =
            (0..=QUARANTINED_MAX).map(|_| Quarantine::new(quarantined.clone())).collect();
        items.iter().for_each(|item| item.raise_until_clean(now));
        items[0].batch_ended(now, now + 2 * PATIENCE, false);
        assert!(!items[0].is_raised());
        items[1].batch_ended(now, now + 2 * PATIENCE, false);
        assert!(items[1].is_raised(), "few enough are left");
    }
}
