//! One scheduler for all holds of a lock: renews each at a third of its lease, and fires `lost` on
//! time when that did not work.
//!
//! The loop itself never waits for the backend, so a renewal that hangs delays neither another
//! hold's renewal nor its own hold's `lost` signal.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::guard::{Hold, Phase};
use super::lease::{LeaseStore, ask, local_deadline};
use super::stats::{Stats, count};

/// A hold is renewed when this part of its lease has passed.
const RENEWALS_PER_LEASE: u32 = 3;

/// A failed renewal is tried again after this part of the lease.
const RETRIES_PER_LEASE: u32 = 12;

/// The holds, ordered by when the scheduler has to look at them next.
///
/// Whoever needs both locks takes a hold's state first, then the schedule.
#[derive(Default)]
pub(super) struct Renewals {
    schedule: Mutex<Schedule>,
    earlier: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct Schedule {
    holds: BTreeMap<(Instant, u64), Arc<Hold>>,
    /// When the scheduler wakes up by itself. It is not moved when a hold ends: waking once for
    /// nothing in a third of a lease is cheaper than being woken by every short hold.
    alarm: Option<Instant>,
}

/// When a hold whose command was sent at `sent_at` is to be renewed.
pub(super) fn renew_at(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + lease / RENEWALS_PER_LEASE
}

impl Renewals {
    /// Looks after `hold` from its `due` instant on.
    pub(super) fn watch(&self, hold: &Arc<Hold>) {
        let state = hold.locked();
        self.insert(hold, state.due);
    }

    /// Never looks at `hold` again. A renewal that is on its way changes nothing any more.
    pub(super) fn forget(&self, hold: &Hold, due: Instant) {
        self.locked().holds.remove(&(due, hold.id));
    }

    /// Ends the scheduler.
    pub(super) fn close(&self) {
        self.closed.cancel();
    }

    /// The scheduler. Ends after [`Renewals::close`].
    pub(super) async fn run(self: Arc<Self>, store: Arc<dyn LeaseStore>, stats: Arc<Stats>) {
        let mut renewing = FuturesUnordered::new();
        loop {
            for hold in self.take_due() {
                if let Some(sent_at) = self.look_at(&hold, &stats) {
                    renewing.push(renew(hold, sent_at, Arc::clone(&store)));
                }
            }
            let alarm = self.set_alarm();
            tokio::select! {
                () = self.closed.cancelled() => return,
                () = self.earlier.notified() => {}
                () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => {}
                Some((hold, sent_at, answer)) = renewing.next() => {
                    self.take_answer(&hold, sent_at, answer, &stats);
                }
            }
        }
    }

    fn take_due(&self) -> Vec<Arc<Hold>> {
        let now = Instant::now();
        let mut schedule = self.locked();
        let mut due = Vec::new();
        while let Some(first) = schedule.holds.first_entry()
            && first.key().0 <= now
        {
            due.push(first.remove());
        }
        due
    }

    fn set_alarm(&self) -> Option<Instant> {
        let mut schedule = self.locked();
        schedule.alarm = schedule.holds.keys().next().map(|(due, _)| *due);
        schedule.alarm
    }

    /// Fires `lost` if the deadline has passed; otherwise it is time to renew, and the instant at
    /// which the renewal counts as sent is returned.
    fn look_at(&self, hold: &Arc<Hold>, stats: &Stats) -> Option<Instant> {
        let now = Instant::now();
        {
            let mut state = hold.locked();
            if state.phase != Phase::Held {
                return None;
            }
            if now < state.deadline {
                // Until the answer comes, only the deadline is left to watch.
                state.due = state.deadline;
                self.insert(hold, state.due);
                return Some(now);
            }
        }
        if hold.lose(Phase::LostByTime) {
            count(&stats.lost);
        }
        None
    }

    fn take_answer(&self, hold: &Arc<Hold>, sent_at: Instant, answer: Answer, stats: &Stats) {
        if answer == Answer::NotOurs {
            count(&stats.renew_failures);
            if hold.lose(Phase::LostToOthers) {
                count(&stats.lost);
            }
            return;
        }
        count(match answer {
            Answer::Renewed => &stats.renewals,
            _ => &stats.renew_failures,
        });
        let mut state = hold.locked();
        if state.phase != Phase::Held {
            return;
        }
        let next = if answer == Answer::Renewed {
            state.deadline = state.deadline.max(local_deadline(sent_at, hold.lease));
            renew_at(sent_at, hold.lease)
        } else {
            // An error proves nothing: the hold stays as it is, and so does its deadline.
            Instant::now() + hold.lease / RETRIES_PER_LEASE
        };
        self.forget(hold, state.due);
        state.due = next.min(state.deadline);
        self.insert(hold, state.due);
    }

    fn insert(&self, hold: &Arc<Hold>, due: Instant) {
        let mut schedule = self.locked();
        schedule.holds.insert((due, hold.id), Arc::clone(hold));
        if schedule.alarm.is_none_or(|alarm| due < alarm) {
            self.earlier.notify_one();
        }
    }

    fn locked(&self) -> MutexGuard<'_, Schedule> {
        // Nothing in here can panic half-way through a change.
        self.schedule.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Answer {
    Renewed,
    NotOurs,
    Unknown,
}

fn renew(
    hold: Arc<Hold>,
    sent_at: Instant,
    store: Arc<dyn LeaseStore>,
) -> BoxFuture<'static, (Arc<Hold>, Instant, Answer)> {
    Box::pin(async move {
        let renewed = store.renew(&hold.name, &hold.token, hold.lease);
        let answer = match ask(hold.lease, renewed).await {
            Ok(true) => Answer::Renewed,
            Ok(false) => Answer::NotOurs,
            Err(_) => Answer::Unknown,
        };
        (hold, sent_at, answer)
    })
}
