//! Waiting inside the process: one line per name, first come first served.
//!
//! Whoever has the [`Turn`] of a name is the only one of this process who may ask the backend for
//! it, and keeps the turn for as long as it holds the lock. All others wait here without sending
//! anything, so ten thousand waiters cost the backend no more than one.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::oneshot;

use super::stats::Stats;
use crate::{AcquireError, Guard, LockName};

/// How many callers of one process may stand in line, all names of one lock together.
pub const WAITERS_MAX: u64 = 20_000;

/// All lines of one lock.
pub(crate) struct Lines {
    state: Mutex<State>,
    stats: Arc<Stats>,
}

#[derive(Default)]
struct State {
    // Tickets are never used twice, so a late leaver cannot take somebody else's place.
    next_ticket: u64,
    // A line exists exactly as long as someone has the turn, so idle names cost nothing.
    by_name: HashMap<LockName, Line>,
}

/// Those who wait for one name, the one who came first in front.
type Line = BTreeMap<u64, InLine>;

struct InLine {
    /// The lease it wants.
    lease: Duration,
    call: oneshot::Sender<Called>,
}

/// What the next in line gets.
pub(crate) enum Called {
    /// It may ask the backend.
    Turn(Turn),
    /// It has the lock: the one before handed it over.
    Guard(Guard),
    /// The backend does not answer.
    Unavailable(String),
}

/// The right to ask the backend for one name. Dropping it passes it to the next in line.
pub(crate) struct Turn {
    // `None` once the turn was passed on, so that dropping the empty shell does nothing.
    lines: Option<Arc<Lines>>,
    name: LockName,
}

impl Lines {
    pub(crate) fn new(stats: Arc<Stats>) -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), stats })
    }

    /// The turn, if nobody has it.
    pub(crate) fn try_enter(self: &Arc<Self>, name: &LockName) -> Option<Turn> {
        let mut state = self.locked();
        if state.by_name.contains_key(name) {
            return None;
        }
        state.by_name.insert(name.clone(), Line::new());
        Some(self.turn(name))
    }

    /// Waits in line for the turn or for the lock itself. Dropping the future leaves the line.
    pub(crate) async fn enter(
        self: &Arc<Self>,
        name: &LockName,
        lease: Duration,
    ) -> Result<Called, AcquireError> {
        let mut waiter = match self.join(name, lease)? {
            Place::Turn(turn) => return Ok(Called::Turn(turn)),
            Place::Waiting(waiter) => waiter,
        };
        match (&mut waiter.called).await {
            Ok(Called::Unavailable(why)) => Err(AcquireError::Unavailable(why)),
            Ok(called) => Ok(called),
            // A line is only ever dropped when nobody waits in it.
            Err(_) => unreachable!("a waiter stays in line until it is called or leaves"),
        }
    }

    fn join(self: &Arc<Self>, name: &LockName, lease: Duration) -> Result<Place, AcquireError> {
        let mut locked = self.locked();
        let state = &mut *locked;
        let Some(line) = state.by_name.get_mut(name) else {
            state.by_name.insert(name.clone(), Line::new());
            return Ok(Place::Turn(self.turn(name)));
        };
        // Only changed under the lock, so the limit is exact.
        if self.stats.waiting_now.load(Ordering::Relaxed) >= WAITERS_MAX {
            return Err(AcquireError::TooManyWaiters);
        }
        self.stats.waiting_now.fetch_add(1, Ordering::Relaxed);
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let (call, called) = oneshot::channel();
        line.insert(ticket, InLine { lease, call });
        Ok(Place::Waiting(Waiter { lines: Arc::clone(self), name: name.clone(), ticket, called }))
    }

    fn turn(self: &Arc<Self>, name: &LockName) -> Turn {
        Turn { lines: Some(Arc::clone(self)), name: name.clone() }
    }

    /// Takes the next waiter out of the line, or ends the line if there is none.
    fn next_waiter(&self, name: &LockName) -> Option<oneshot::Sender<Called>> {
        let mut state = self.locked();
        let Some((_, InLine { call, .. })) = state.by_name.get_mut(name)?.pop_first() else {
            state.by_name.remove(name);
            return None;
        };
        self.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
        Some(call)
    }

    /// How many wait for the name.
    pub(crate) fn waiting(&self, name: &LockName) -> usize {
        self.locked().by_name.get(name).map_or(0, BTreeMap::len)
    }

    fn locked(&self) -> MutexGuard<'_, State> {
        // Nothing in here can panic half-way through a change.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn {
    /// Takes the next waiter out of the line if it wants such a lease. The turn stays here.
    pub(crate) fn pop_waiter(&self, lease: Duration) -> Option<oneshot::Sender<Called>> {
        let lines = self.lines.as_ref()?;
        let mut state = lines.locked();
        let first = state.by_name.get_mut(&self.name)?.first_entry()?;
        if first.get().lease != lease {
            return None;
        }
        let call = first.remove().call;
        lines.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
        Some(call)
    }
}

impl Turn {
    /// Tells all who wait now that the backend does not answer. Asking one after the other, the last
    /// would learn it long after it has given up.
    pub(crate) fn tell_unavailable(&self, why: &str) {
        let Some(lines) = &self.lines else { return };
        let waiters = match lines.locked().by_name.get_mut(&self.name) {
            Some(line) => std::mem::take(line),
            None => return,
        };
        for InLine { call, .. } in waiters.into_values() {
            lines.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
            // Whoever has left meanwhile needs no answer.
            let _ = call.send(Called::Unavailable(why.to_owned()));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let Some(lines) = self.lines.take() else {
            return;
        };
        // The turn itself travels through the channel: if the receiver goes away after the send,
        // the turn is dropped with it and calls the next one. No wake-up can be lost.
        while let Some(call) = lines.next_waiter(&self.name) {
            match call.send(Called::Turn(lines.turn(&self.name))) {
                Err(Called::Turn(mut returned)) => returned.lines = None,
                _ => return,
            }
        }
    }
}

enum Place {
    Turn(Turn),
    Waiting(Waiter),
}

/// A place in line. Dropping it leaves the line; a turn that has just arrived is passed on.
struct Waiter {
    lines: Arc<Lines>,
    name: LockName,
    ticket: u64,
    called: oneshot::Receiver<Called>,
}

impl Drop for Waiter {
    fn drop(&mut self) {
        let mut state = self.lines.locked();
        let left = match state.by_name.get_mut(&self.name) {
            Some(line) => line.remove(&self.ticket),
            None => None,
        };
        if left.is_some() {
            self.lines.stats.waiting_now.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;
    use std::time::Duration;

    use futures::{FutureExt, poll};
    use tokio::time::timeout;

    use super::Lines;
    use crate::{AcquireError, LockName, Stats};

    /// The first in line goes away at the very moment in which it is called: the second is called
    /// instead, whichever came first.
    #[tokio::test]
    async fn a_turn_is_not_lost_with_a_waiter_that_leaves_when_it_is_called() {
        const ROUNDS: u64 = 20_000;
        let stats = Arc::new(Stats::default());
        let lines = Lines::new(Arc::clone(&stats));
        let name = LockName::new("crossing").expect("a name");
        // Both sides spin until the other has arrived, so that they go on at the same time.
        let arrived = Arc::new(AtomicU64::new(0));
        let meet = |arrived: &AtomicU64, round: u64| {
            arrived.fetch_add(1, Ordering::SeqCst);
            while arrived.load(Ordering::SeqCst) < 2 * (round + 1) {
                thread::yield_now();
            }
        };
        let (leavers, to_drop) = std::sync::mpsc::channel();
        let arrived_there = Arc::clone(&arrived);
        let leaving = thread::spawn(move || {
            for (round, leaver) in (0..).zip(to_drop) {
                meet(&arrived_there, round);
                drop(leaver);
            }
        });
        let enter = || {
            let (lines, name) = (Arc::clone(&lines), name.clone());
            Box::pin(async move { lines.enter(&name, Duration::from_secs(1)).await })
        };
        for round in 0..ROUNDS {
            let turn = lines.try_enter(&name).expect("nobody has the turn");
            let (mut first, mut second) = (enter(), enter());
            assert!(poll!(&mut first).is_pending());
            assert!(poll!(&mut second).is_pending());
            leavers.send(first).expect("the other thread runs");
            meet(&arrived, round);
            drop(turn);
            let turn = timeout(Duration::from_secs(5), second).await;
            drop(turn.expect("the second is called").expect("its turn"));
        }
        drop(leavers);
        leaving.join().expect("the other thread ends");
        assert_eq!(stats.snapshot().waiting_now, 0);
    }

    #[tokio::test]
    async fn all_waiters_are_told_at_once_that_the_backend_is_away() {
        let stats = Arc::new(Stats::default());
        let lines = Lines::new(Arc::clone(&stats));
        let name = LockName::new("away").expect("a name");
        let turn = lines.try_enter(&name).expect("nobody has the turn");
        let enter = || {
            let (lines, name) = (Arc::clone(&lines), name.clone());
            Box::pin(async move { lines.enter(&name, Duration::from_secs(1)).await })
        };
        let mut waiters = [enter(), enter(), enter()];
        for waiter in &mut waiters {
            assert!(poll!(waiter).is_pending());
        }
        turn.tell_unavailable("gone");
        for waiter in waiters {
            let told = waiter.now_or_never().expect("nobody waits any more").err();
            assert_eq!(told, Some(AcquireError::Unavailable("gone".to_owned())));
        }
        assert_eq!(stats.snapshot().waiting_now, 0);
        let mut late = enter();
        assert!(poll!(&mut late).is_pending(), "a later waiter may ask again");
        drop(turn);
        assert!(late.now_or_never().is_some());
    }

    /// W7: of a crowd that has been served or has gone away nothing is kept.
    #[tokio::test]
    async fn a_line_that_has_ended_leaves_nothing_behind() {
        const WAITERS: usize = 10_000;
        let stats = Arc::new(Stats::default());
        let lines = Lines::new(Arc::clone(&stats));
        let name = LockName::new("crowded").expect("a name");
        let turn = lines.try_enter(&name).expect("nobody has the turn");
        let mut waiters = Vec::new();
        for _ in 0..WAITERS {
            let (lines, name) = (Arc::clone(&lines), name.clone());
            let mut waiter =
                Box::pin(async move { lines.enter(&name, Duration::from_secs(1)).await });
            assert!(poll!(&mut waiter).is_pending());
            waiters.push(waiter);
        }
        assert_eq!(lines.waiting(&name), WAITERS);
        let gone = waiters.split_off(WAITERS / 2);
        drop(gone);
        drop(turn);
        for waiter in waiters {
            drop(waiter.await.expect("its turn"));
        }
        assert_eq!(stats.snapshot().waiting_now, 0);
        assert!(lines.locked().by_name.is_empty(), "a line is left");
    }
}
