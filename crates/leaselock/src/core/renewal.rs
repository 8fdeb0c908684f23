//! Renewal: one scheduler for all holds of all locks renews each at a third of its lease, and fires
//! `lost` on time when that fails.
//!
//! Renewals that are due at about the same time share one command, where the backend supports it. One
//! that has no answer is sent again alone, so that a server that is away ends only its own holds.
//! The loop itself never waits for a backend, so a renewal that hangs delays neither another hold's
//! renewal nor its own hold's `lost` signal. There is one scheduler in each tokio runtime, since
//! tasks end with theirs; a service has one. When a runtime ends, nothing renews its holds any more,
//! so they are lost at once.

use std::collections::{BTreeMap, HashMap};
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures::future::BoxFuture;
use futures::stream::FuturesUnordered;
use futures::{FutureExt, StreamExt};
use tokio::runtime::{Handle, Id};
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use super::hold::{Deadline, Hold, Moment, Phase};
use super::stats::{count, protocol};
use super::store::{LeaseStore, Renewal, StoreResult, ask};
use crate::LEASE_MIN;
use crate::threads::{LazyLock, Mutex, locked};

/// A hold is renewed when this part of its lease has passed.
const RENEWALS_PER_LEASE: u32 = 3;

/// A failed renewal is tried again after this part of the lease.
const RETRIES_PER_LEASE: u32 = 12;

/// A hold that is due at most this much later than another one is renewed with it.
const RENEWED_EARLY: Duration = Duration::from_millis(20);

/// How long the scheduler sleeps when it has no hold: no new hold is due sooner than that, so holds
/// that come and go meanwhile do not wake it.
const IDLE_SLEEP: Duration = LEASE_MIN.checked_div(RENEWALS_PER_LEASE).expect("more than none");

/// How many holds go in one command at most.
const RENEWED_TOGETHER_MAX: usize = 100;

/// The running schedulers by their runtimes.
static SCHEDULERS: LazyLock<Mutex<HashMap<Id, Weak<Scheduler>>>> = LazyLock::new(Mutex::default);

/// A running scheduler. It ends when the last lock and the last guard that use it are gone.
pub(crate) struct Scheduler {
    pub(crate) renewals: Arc<Renewals>,
    task: AbortHandle,
}

impl Scheduler {
    /// The scheduler of a runtime, started if there is none.
    pub(crate) fn of(runtime: &Handle) -> Arc<Self> {
        let mut schedulers = locked(&SCHEDULERS);
        let id = runtime.id();
        let running = schedulers.get(&id).and_then(Weak::upgrade);
        if let Some(running) = running.filter(|scheduler| scheduler.runs()) {
            return running;
        }
        schedulers.retain(|_, scheduler| scheduler.strong_count() > 0);
        let renewals = Arc::new(Renewals::default());
        let end = End(Arc::clone(&renewals));
        let task = runtime.spawn(async move { end.0.run().await }).abort_handle();
        let scheduler = Arc::new(Self { renewals, task });
        schedulers.insert(id, Arc::downgrade(&scheduler));
        scheduler
    }

    /// Whether its runtime runs it.
    pub(crate) fn runs(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        self.renewals.closed.cancel();
    }
}

/// The holds, ordered by when the scheduler has to handle them next.
///
/// Lock order: first a hold's state, then the schedule.
#[derive(Default)]
pub(crate) struct Renewals {
    schedule: Mutex<Schedule>,
    earlier: Notify,
    closed: CancellationToken,
}

#[derive(Default)]
struct Schedule {
    holds: BTreeMap<(Instant, u64), (Arc<Hold>, Purpose)>,
    /// When the scheduler wakes up by itself. It is not moved when a hold ends: one needless wake-up
    /// in a third of a lease is cheaper than a wake-up by every short hold.
    alarm: Option<Instant>,
    /// Whether its scheduler has ended.
    ended: bool,
}

/// Ends the schedule when it is dropped: when the scheduler's task has ended, or its runtime.
struct End(Arc<Renewals>);

impl Drop for End {
    fn drop(&mut self) {
        let left = {
            let mut schedule = locked(&self.0.schedule);
            schedule.ended = true;
            std::mem::take(&mut schedule.holds)
        };
        for (hold, _) in left.into_values() {
            hold.lose(Phase::LostByTime);
        }
    }
}

/// Why a hold is in the schedule.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Its renewal is due.
    Renew,
    /// Its renewal was sent; until the answer comes, only its deadline counts.
    Deadline,
}

/// A renewal that was sent at `at`, and was due at `due`.
struct SentRenewal {
    hold: Arc<Hold>,
    due: Instant,
    at: Moment,
    /// See [`HoldState::renews_alone`](super::hold::HoldState::renews_alone).
    alone: bool,
}

/// When a hold whose command was sent at `sent_at` is to be renewed.
pub(crate) fn renew_at(sent_at: Instant, lease: Duration) -> Instant {
    sent_at + lease / RENEWALS_PER_LEASE
}

impl Renewals {
    /// Schedules `hold` at its `due` instant. It is lost at once if the runtime is ending.
    pub(crate) fn watch(&self, hold: &Arc<Hold>) {
        let state = hold.locked();
        let is_watched = self.insert(hold, state.due, Purpose::Renew);
        drop(state);
        if !is_watched {
            hold.lose(Phase::LostByTime);
        }
    }

    /// Takes `hold` out of the schedule. The answer of a renewal that was sent is ignored from now on.
    pub(crate) fn forget(&self, hold: &Hold, due: Instant) {
        locked(&self.schedule).holds.remove(&(due, hold.id));
    }

    /// Runs until the [`Scheduler`] is dropped.
    async fn run(&self) {
        let mut renewing = FuturesUnordered::new();
        let mut woken = false;
        loop {
            let due = self.take_due().into_iter();
            for batch in batches(due.filter_map(|(due, hold)| self.look_at(hold, due))) {
                renewing.push(renew(batch));
            }
            let alarm = self.set_alarm(std::mem::take(&mut woken));
            tokio::select! {
                () = self.closed.cancelled() => return,
                () = self.earlier.notified() => woken = true,
                () = sleep_until(alarm.unwrap_or_else(Instant::now)), if alarm.is_some() => {}
                Some(answered) = renewing.next() => {
                    for (sent, answer) in answered {
                        self.take_answer(&sent, answer);
                    }
                }
            }
        }
    }

    /// Takes the holds that are due, and those whose renewal is due within [`RENEWED_EARLY`].
    fn take_due(&self) -> Vec<(Instant, Arc<Hold>)> {
        let now = Instant::now();
        let mut schedule = locked(&self.schedule);
        let mut taken = Vec::new();
        while let Some(first) = schedule.holds.first_entry() {
            let due = first.key().0;
            let look = first.get().1;
            let soon = look == Purpose::Renew && !taken.is_empty() && due <= now + RENEWED_EARLY;
            if due > now && !soon {
                break;
            }
            taken.push((due, first.remove().0));
        }
        taken
    }

    fn set_alarm(&self, woken: bool) -> Option<Instant> {
        let mut schedule = locked(&self.schedule);
        let first = schedule.holds.keys().next().map(|(due, _)| *due);
        schedule.alarm = first.or_else(|| woken.then(|| Instant::now() + IDLE_SLEEP));
        schedule.alarm
    }

    /// Fires `lost` if the deadline has passed. Otherwise the renewal that was due at `due` is sent.
    fn look_at(&self, hold: Arc<Hold>, due: Instant) -> Option<SentRenewal> {
        let at = Moment::now();
        let mut state = hold.locked();
        if state.phase != Phase::Held {
            return None;
        }
        if state.deadline.has_passed() {
            drop(state);
            hold.lose(Phase::LostByTime);
            return None;
        }
        state.due = state.deadline.instant;
        self.insert(&hold, state.due, Purpose::Deadline);
        let alone = state.renews_alone;
        drop(state);
        Some(SentRenewal { hold, due, at, alone })
    }

    /// Takes the answer whether the hold was renewed or is not the token's any more; `None` when it is unknown.
    fn take_answer(&self, sent: &SentRenewal, answer: Option<bool>) {
        let hold = &sent.hold;
        let stats = &sent.hold.stats;
        protocol!("renewed", hold.name, hold.token, ok = answer);
        match answer {
            Some(true) => {
                count(&stats.renewals);
                stats.renewal_lag.add(sent.due.elapsed());
            }
            Some(false) | None => count(&stats.renew_failures),
        }
        if answer == Some(false) {
            hold.lose(Phase::LostToOthers);
            return;
        }
        let mut state = hold.locked();
        if state.phase != Phase::Held {
            return;
        }
        state.renews_alone = answer.is_none();
        let next = if answer == Some(true) {
            state.deadline = state.deadline.max(Deadline::of(sent.at, hold.lease));
            renew_at(sent.at.instant, hold.lease)
        } else {
            // An error proves nothing: the hold stays as it is, and so does its deadline.
            Instant::now() + hold.lease / RETRIES_PER_LEASE
        };
        self.forget(hold, state.due);
        state.due = next.min(state.deadline.instant);
        self.insert(hold, state.due, Purpose::Renew);
    }

    /// Whether it was inserted: an ended schedule takes nothing.
    fn insert(&self, hold: &Arc<Hold>, due: Instant, look: Purpose) -> bool {
        let mut schedule = locked(&self.schedule);
        if schedule.ended {
            return false;
        }
        schedule.holds.insert((due, hold.id), (Arc::clone(hold), look));
        if schedule.alarm.is_none_or(|alarm| due < alarm) {
            self.earlier.notify_one();
        }
        true
    }
}

/// Groups renewals that fit into one command.
fn batches(sent: impl Iterator<Item = SentRenewal>) -> Vec<Vec<SentRenewal>> {
    let mut batches: Vec<Vec<SentRenewal>> = Vec::new();
    for one in sent {
        let store = &one.hold.store;
        let fits = |batch: &&mut Vec<SentRenewal>| {
            let like = |first: &SentRenewal| !first.alone && Arc::ptr_eq(&first.hold.store, store);
            let shares = !one.alone && store.renews_together();
            shares && batch.len() < RENEWED_TOGETHER_MAX && batch.first().is_some_and(like)
        };
        match batches.iter_mut().rev().find(fits) {
            Some(batch) => batch.push(one),
            None => batches.push(vec![one]),
        }
    }
    batches
}

/// Sends one group of renewals, of at least one hold.
fn renew(batch: Vec<SentRenewal>) -> BoxFuture<'static, Vec<(SentRenewal, Option<bool>)>> {
    Box::pin(async move {
        let Some(SentRenewal { hold: first, .. }) = batch.first() else { return Vec::new() };
        count(&first.stats.renewal_batches);
        for sent in &batch {
            protocol!("renew", sent.hold.name, sent.hold.token);
        }
        let store = Arc::clone(&first.store);
        // A panic proves nothing about these holds, and ends none of others.
        let answers = AssertUnwindSafe(answers_of(&*store, &batch)).catch_unwind().await;
        let answers = answers.map(Result::unwrap_or_default).unwrap_or_default();
        let mut answers = answers.into_iter();
        batch.into_iter().map(|sent| (sent, answers.next().flatten())).collect()
    })
}

/// Asks the backend for one group of renewals, and returns its answers in their order.
async fn answers_of(
    store: &dyn LeaseStore,
    batch: &[SentRenewal],
) -> StoreResult<Vec<Option<bool>>> {
    if let [SentRenewal { hold, .. }] = batch {
        let renewed = store.renew(&hold.name, &hold.token, hold.lease);
        return ask(hold.lease, renewed).await.map(|renewed| vec![Some(renewed)]);
    }
    let renewal = |sent: &SentRenewal| {
        let Hold { name, token, lease, .. } = &*sent.hold;
        Renewal { name: name.clone(), token: token.clone(), lease: *lease }
    };
    let renewals: Vec<_> = batch.iter().map(renewal).collect();
    let lease = renewals.iter().map(|renewal| renewal.lease).min().unwrap_or(LEASE_MIN);
    ask(lease, store.renew_together(&renewals)).await
}
