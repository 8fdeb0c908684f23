//! The queue of waiters of one client: one queue per name, first come, first served.
//!
//! The caller that has the [`QueueHead`] of a name is the only one of its client that may ask the
//! backend for it, and keeps it for as long as it holds the lock. All others wait here and send
//! nothing, so ten thousand waiters cost the backend no more than one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;

use super::stats::Stats;
use super::store::BackendError;
use crate::threads::{Mutex, locked};
use crate::{AcquireError, Guard, LockName};

/// How many callers of one client may wait, all names together.
pub const WAITERS_MAX: u64 = 20_000;

/// The queues of all names of one lock.
pub(crate) struct WaitQueues {
    state: Mutex<State>,
    stats: Arc<Stats>,
}

#[derive(Default)]
struct State {
    // A ticket is never used twice, so a waiter that leaves late cannot remove another one.
    next_ticket: u64,
    // A queue exists exactly as long as someone is at its head, so idle names cost nothing.
    by_name: HashMap<LockName, Queue>,
}

/// The waiters for one name by their tickets, so in the order of arrival.
type Queue = BTreeMap<u64, Waiter>;

struct Waiter {
    /// The lease that it asks for.
    lease: Duration,
    wake: oneshot::Sender<WakeReason>,
}

/// Why a waiter is woken.
pub(crate) enum WakeReason {
    /// The waiter is at the head now and may ask the backend.
    Head(QueueHead),
    /// The waiter has the lock: the holder before it handed the lock over.
    Guard(Guard),
    /// The backend does not answer.
    Unavailable(BackendError),
}

/// The head of a name's queue: the right to ask the backend for that name. Dropping it passes it on
/// to the next waiter.
pub(crate) struct QueueHead {
    // `None` once it was passed on, so that dropping the empty shell does nothing.
    queues: Option<Arc<WaitQueues>>,
    name: LockName,
}

impl WaitQueues {
    pub(crate) fn new(stats: Arc<Stats>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), stats })
    }

    /// The head of the queue, if nobody has it.
    pub(crate) fn try_enter(self: &Arc<Self>, name: &LockName) -> Option<QueueHead> {
        let mut state = locked(&self.state);
        if state.by_name.contains_key(name) {
            return None;
        }
        state.by_name.insert(name.clone(), Queue::new());
        Some(self.head(name))
    }

    /// Waits for the head of the queue or for the lock itself. Dropping the future leaves the queue.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        name: &LockName,
        lease: Duration,
    ) -> Result<WakeReason, AcquireError> {
        let mut position = match self.join(name, lease)? {
            Entry::Head(head) => return Ok(WakeReason::Head(head)),
            Entry::Waiting(position) => position,
        };
        match (&mut position.woken).await {
            Ok(WakeReason::Unavailable(why)) => Err(AcquireError::Unavailable(why)),
            Ok(woken) => Ok(woken),
            // A queue is only ever dropped when nobody waits in it.
            Err(_) => unreachable!("a waiter stays in the queue until it is woken or leaves"),
        }
    }

    fn join(self: &Arc<Self>, name: &LockName, lease: Duration) -> Result<Entry, AcquireError> {
        let mut state = locked(&self.state);
        let state = &mut *state;
        let Some(queue) = state.by_name.get_mut(name) else {
            state.by_name.insert(name.clone(), Queue::new());
            return Ok(Entry::Head(self.head(name)));
        };
        // Only changed under the lock, so the limit is exact.
        if self.stats.waiting_now.load(Ordering::Relaxed) >= WAITERS_MAX {
            return Err(AcquireError::TooManyWaiters);
        }
        self.stats.waiting_now.fetch_add(1, Ordering::Relaxed);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let (wake, woken) = oneshot::channel();
        queue.insert(ticket, Waiter { lease, wake });
        Ok(Entry::Waiting(QueuePosition {
            queues: Arc::clone(self),
            name: name.clone(),
            ticket,
            woken,
        }))
    }

    fn head(self: &Arc<Self>, name: &LockName) -> QueueHead {
        QueueHead { queues: Some(Arc::clone(self)), name: name.clone() }
    }

    /// Takes the next waiter out of the queue, or ends the queue if there is none.
    fn next_waiter(&self, name: &LockName) -> Option<oneshot::Sender<WakeReason>> {
        let mut state = locked(&self.state);
        let Some((_, Waiter { wake, .. })) = state.by_name.get_mut(name)?.pop_first() else {
            state.by_name.remove(name);
            return None;
        };
        self.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
        Some(wake)
    }

    /// How many wait for the name.
    pub(crate) fn waiting(&self, name: &LockName) -> usize {
        locked(&self.state).by_name.get(name).map_or(0, BTreeMap::len)
    }
}

impl QueueHead {
    /// Takes the next waiter out of the queue if it asks for this lease. The head stays here.
    pub(crate) fn pop_waiter(&self, lease: Duration) -> Option<oneshot::Sender<WakeReason>> {
        let queues = self.queues.as_ref()?;
        let mut state = locked(&queues.state);
        let first = state.by_name.get_mut(&self.name)?.first_entry()?;
        if first.get().lease != lease {
            return None;
        }
        let wake = first.remove().wake;
        queues.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
        Some(wake)
    }

    /// Fails all present waiters because the backend does not answer. If each of them asked in turn,
    /// the last one would learn it long after its own deadline.
    pub(crate) fn fail_waiters(&self, why: &BackendError) {
        let Some(queues) = &self.queues else { return };
        let waiters = match locked(&queues.state).by_name.get_mut(&self.name) {
            Some(queue) => std::mem::take(queue),
            None => return,
        };
        for Waiter { wake, .. } in waiters.into_values() {
            queues.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
            // A waiter that has left meanwhile needs no answer.
            let _ = wake.send(WakeReason::Unavailable(why.clone()));
        }
    }
}

impl Drop for QueueHead {
    fn drop(&mut self) {
        let Some(queues) = self.queues.take() else {
            return;
        };
        // The head itself travels through the channel: if the receiver goes away after the send,
        // the head is dropped with it and wakes the next waiter. No wake-up can be lost.
        while let Some(wake) = queues.next_waiter(&self.name) {
            match wake.send(WakeReason::Head(queues.head(&self.name))) {
                Err(WakeReason::Head(mut returned)) => returned.queues = None,
                _ => return,
            }
        }
    }
}

/// What entering a queue gives.
enum Entry {
    Head(QueueHead),
    Waiting(QueuePosition),
}

/// A position in a queue. Dropping it leaves the queue; a head that has just arrived is passed on.
struct QueuePosition {
    queues: Arc<WaitQueues>,
    name: LockName,
    ticket: u64,
    woken: oneshot::Receiver<WakeReason>,
}

impl Drop for QueuePosition {
    fn drop(&mut self) {
        let mut state = locked(&self.queues.state);
        let left = match state.by_name.get_mut(&self.name) {
            Some(queue) => queue.remove(&self.ticket),
            None => None,
        };
        if left.is_some() {
            self.queues.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use futures::{FutureExt, poll};

    use super::super::store::BackendError;
    use super::{WaitQueues, locked};
    use crate::{AcquireError, LockName, Stats};

    #[tokio::test]
    async fn all_waiters_learn_at_once_that_the_backend_is_away() {
        let stats = Arc::new(Stats::default());
        let queues = WaitQueues::new(Arc::clone(&stats));
        let name = LockName::new("away").expect("a name");
        let head = queues.try_enter(&name).expect("nobody has the head");
        let enter = || {
            let (queues, name) = (Arc::clone(&queues), name.clone());
            Box::pin(async move { queues.enter(&name, Duration::from_secs(1)).await })
        };
        let mut waiters = [enter(), enter(), enter()];
        for waiter in &mut waiters {
            assert!(poll!(waiter).is_pending());
        }
        head.fail_waiters(&BackendError::new("gone"));
        for waiter in waiters {
            let answer = waiter.now_or_never().expect("nobody waits any more").err();
            assert_eq!(answer, Some(AcquireError::Unavailable(BackendError::new("gone"))));
        }
        assert_eq!(stats.snapshot().waiting_now, 0);
        let mut late = enter();
        assert!(poll!(&mut late).is_pending(), "a later waiter may ask again");
        drop(head);
        assert!(late.now_or_never().is_some());
    }

    /// W7: nothing is kept of waiters that were served or went away.
    #[tokio::test]
    async fn a_queue_that_has_ended_leaves_nothing_behind() {
        const WAITERS: usize = 10_000;
        let stats = Arc::new(Stats::default());
        let queues = WaitQueues::new(Arc::clone(&stats));
        let name = LockName::new("many").expect("a name");
        let head = queues.try_enter(&name).expect("nobody has the head");
        let mut waiters = Vec::new();
        for _ in 0..WAITERS {
            let (queues, name) = (Arc::clone(&queues), name.clone());
            let mut waiter =
                Box::pin(async move { queues.enter(&name, Duration::from_secs(1)).await });
            assert!(poll!(&mut waiter).is_pending());
            waiters.push(waiter);
        }
        assert_eq!(queues.waiting(&name), WAITERS);
        let gone = waiters.split_off(WAITERS / 2);
        drop(gone);
        drop(head);
        for waiter in waiters {
            drop(waiter.await.expect("its head"));
        }
        assert_eq!(stats.snapshot().waiting_now, 0);
        assert!(locked(&queues.state).by_name.is_empty(), "a queue is left");
    }
}
