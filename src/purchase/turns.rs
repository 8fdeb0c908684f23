//! Turns: how many purchases a runtime begins before it reads further requests, and whose.
//!
//! A runtime works off its tasks in the order in which they became ready. Thousands of requests for one item that arrive
//! together would all be ahead of a request for another one. So a runtime begins only a few purchases in each round, which
//! ends when it has looked for new requests. Those that wait for a later round are queued by item, and the items take turns.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::yield_now;
use tokio_util::task::TaskTracker;

use shop_domain::ItemId;

/// Purchases that a runtime begins in a round. Tokio looks for new requests after 61 tasks, and a purchase that waited for
/// its turn is three of them: its request, its turn and its answer.
const EACH_ROUND: usize = 16;

/// The turns of all runtimes. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    runtimes: Arc<RwLock<HashMap<Id, RuntimeTurns>>>,
}

/// The turns of one runtime.
#[derive(Clone, Debug, Default)]
struct RuntimeTurns(Arc<Mutex<Round>>);

/// The present round of a runtime.
#[derive(Debug, Default)]
struct Round {
    /// Purchases that may still begin.
    left: usize,
    /// Whether a task counts the rounds.
    is_counted: bool,
    /// Those that wait, by item, and the items in the order of their turns.
    waiting: HashMap<ItemId, VecDeque<oneshot::Sender<()>>>,
    items: VecDeque<ItemId>,
}

impl Turns {
    /// Waits for the turn of a purchase of `item`. The limit of purchases that run at once bounds how many wait. `tasks`
    /// tracks the task that counts the rounds.
    pub async fn take(&self, item: ItemId, tasks: &TaskTracker) {
        let turns = self.of_runtime(Handle::current().id());
        let waiting = {
            let mut round = turns.round();
            if !round.is_counted {
                round.is_counted = true;
                round.left = EACH_ROUND;
                tasks.spawn(turns.clone().count_rounds());
            }
            round.enter(item)
        };
        if let Some(turn) = waiting {
            // It fails only when the runtime ends.
            let _ = turn.await;
        }
    }

    fn of_runtime(&self, runtime: Id) -> RuntimeTurns {
        let known = self.runtimes.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(turns) = known.get(&runtime) {
            return turns.clone();
        }
        drop(known);
        let mut known = self.runtimes.write().unwrap_or_else(PoisonError::into_inner);
        known.entry(runtime).or_default().clone()
    }
}

impl RuntimeTurns {
    fn round(&self) -> MutexGuard<'_, Round> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins one round after the other, until nothing begins in one.
    async fn count_rounds(self) {
        loop {
            // It goes on when the runtime has looked for new requests.
            yield_now().await;
            if !self.round().next() {
                return;
            }
        }
    }
}

impl Round {
    /// Takes a place of this round; otherwise what waits for one in a later round.
    fn enter(&mut self, item: ItemId) -> Option<oneshot::Receiver<()>> {
        if self.left > 0 && self.items.is_empty() {
            self.left -= 1;
            return None;
        }
        let (turn, waiting) = oneshot::channel();
        let queue = self.waiting.entry(item).or_default();
        if queue.is_empty() {
            self.items.push_back(item);
        }
        queue.push_back(turn);
        Some(waiting)
    }

    /// Begins the next round. Returns whether there is one.
    fn next(&mut self) -> bool {
        let was_used = self.left < EACH_ROUND;
        self.left = EACH_ROUND;
        while self.left > 0 {
            let Some(turn) = self.pop() else { break };
            // A client that has left takes no place.
            if turn.send(()).is_ok() {
                self.left -= 1;
            }
        }
        self.is_counted = was_used || self.left < EACH_ROUND;
        self.is_counted
    }

    /// The next one of the next item.
    fn pop(&mut self) -> Option<oneshot::Sender<()>> {
        let item = self.items.pop_front()?;
        let queue = self.waiting.get_mut(&item)?;
        let turn = queue.pop_front();
        if queue.is_empty() {
            self.waiting.remove(&item);
        } else {
            self.items.push_back(item);
        }
        turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const CROWD: usize = 1_000;

    fn item(id: i64) -> ItemId {
        ItemId::new(id).expect("an id")
    }

    /// A purchase that comes after a thousand of another item begins in one of the next rounds.
    #[tokio::test]
    async fn a_crowd_does_not_hold_up_another_item() {
        let (turns, tasks) = (Turns::default(), TaskTracker::new());
        let counts: Arc<[AtomicUsize; 2]> = Arc::default();
        let begin = |id| {
            let (turns, tasks, counts) = (turns.clone(), tasks.clone(), Arc::clone(&counts));
            async move {
                counts[0].fetch_add(1, Ordering::Relaxed);
                turns.take(item(id), &tasks).await;
                counts[1].fetch_add(1, Ordering::Relaxed)
            }
        };
        let crowd: Vec<_> = (0..CROWD).map(|_| tokio::spawn(begin(1))).collect();
        while counts[0].load(Ordering::Relaxed) < CROWD {
            yield_now().await;
        }
        let before = begin(2).await;
        assert!(before < CROWD / 2, "{before} of the crowd began before it");
        for task in crowd {
            task.await.expect("each has its turn");
        }
        tasks.close();
        tasks.wait().await;
    }

    /// A place of a round goes to a client that still waits.
    #[test]
    fn a_client_that_has_left_takes_no_place() {
        let mut round = Round::default();
        let mut wait = || round.enter(item(1)).expect("no place is left");
        let left: Vec<_> = (0..2 * EACH_ROUND).map(|_| wait()).collect();
        let mut stays = wait();
        drop(left);
        assert!(round.next());
        assert_eq!(stays.try_recv(), Ok(()));
        assert_eq!(round.left, EACH_ROUND - 1);
    }
}
