//! The answers of batches. The side that waits for an answer has it at once, and is woken later: each runtime wakes
//! those of its own connections, a few at a time, and the items take turns.
//!
//! With `http.runtimes` a connection lives on a runtime of its own. To wake a task there from another
//! runtime takes a system call for each task. So the tasks of one runtime are left in a list, and one task
//! there wakes them on its own thread.
//!
//! A runtime works off its tasks in the order in which they became ready, and a client that is answered sends its next
//! request. So a crowd that is woken at once is soon ahead of every other client again. Here it waits for its turns
//! instead: a runtime wakes only a few tasks in each round, which ends when it has looked for new requests. A buyer
//! whose time ends meanwhile has the answer nevertheless: the end of the time wakes its task, too, which finds it.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll};
use std::{iter, mem};

use shop_domain::ItemId;
use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;
use tokio::task::yield_now;

use crate::threads::{Mutex, MutexGuard};

/// Tasks that a runtime wakes in a round. Each may bring one request, and a runtime takes more requests than that in a
/// round (`EVENTS_EACH_LOOK` in `crates/web/src/runtimes.rs`).
const EACH_ROUND: usize = 16;

/// A task whose answer is given.
pub struct ReadyAnswer<S> {
    /// The runtime of the task.
    pub runtime: Handle,
    /// The item that takes a turn with it.
    pub item: ItemId,
    /// Wakes the task when it is dropped.
    pub sender: S,
}

/// Wakes the tasks whose answers are given: each when its `S` is dropped.
pub struct Answers<S> {
    runtimes: Mutex<HashMap<Id, Arc<AnswerList<S>>>>,
}

/// The tasks of one runtime.
struct AnswerList<S>(Mutex<WaitingAnswers<S>>);

/// Tasks that wait for their turns. They are at most as many as the purchases that run.
struct WaitingAnswers<S> {
    /// By item, and the items in the order of their turns.
    by_item: HashMap<ItemId, VecDeque<S>>,
    items: VecDeque<ItemId>,
    /// Whether a task wakes them.
    is_served: bool,
}

/// The end that gives an answer. When it is dropped, the other end is woken.
pub struct AnswerSender<A> {
    slot: Arc<Mutex<Option<A>>>,
    _turn: oneshot::Sender<()>,
}

/// The end that waits for an answer: `None` when none will come.
pub struct AnswerReceiver<A> {
    slot: Arc<Mutex<Option<A>>>,
    /// Closed when the sender is dropped.
    turn: oneshot::Receiver<()>,
}

impl<S> Default for Answers<S> {
    fn default() -> Self {
        Self { runtimes: Mutex::new(HashMap::new()) }
    }
}

impl<S: Send + 'static> Answers<S> {
    /// Leaves tasks to their runtimes, each of which is woken once.
    pub fn wake(&self, ready: impl IntoIterator<Item = ReadyAnswer<S>>) {
        let mut of_runtimes: Vec<(Handle, Vec<(ItemId, S)>)> = Vec::new();
        for ReadyAnswer { runtime, item, sender } in ready {
            let known = of_runtimes.iter_mut().find(|(one, _)| one.id() == runtime.id());
            match known {
                Some((_, senders)) => senders.push((item, sender)),
                None => of_runtimes.push((runtime, vec![(item, sender)])),
            }
        }
        for (runtime, senders) in of_runtimes {
            let list = self.of_runtime(runtime.id());
            if list.add(senders) {
                runtime.spawn(list.serve());
            }
        }
    }

    fn of_runtime(&self, runtime: Id) -> Arc<AnswerList<S>> {
        let mut runtimes = locked(&self.runtimes);
        Arc::clone(runtimes.entry(runtime).or_insert_with(|| Arc::new(AnswerList::new())))
    }
}

impl<S> AnswerList<S> {
    fn new() -> Self {
        Self(Mutex::new(WaitingAnswers {
            by_item: HashMap::new(),
            items: VecDeque::new(),
            is_served: false,
        }))
    }

    /// Adds tasks. Returns whether a task is to be started that wakes them.
    fn add(&self, senders: Vec<(ItemId, S)>) -> bool {
        let mut waiting = locked(&self.0);
        senders.into_iter().for_each(|(item, sender)| waiting.push(item, sender));
        !mem::replace(&mut waiting.is_served, true)
    }

    /// Wakes the tasks of one round after the other, until none waits.
    async fn serve(self: Arc<Self>) {
        loop {
            let round = locked(&self.0).round();
            drop(round);
            if locked(&self.0).has_ended() {
                return;
            }
            // It goes on when the runtime has looked for new requests.
            yield_now().await;
        }
    }
}

impl<S> WaitingAnswers<S> {
    fn push(&mut self, item: ItemId, sender: S) {
        let queue = self.by_item.entry(item).or_default();
        if queue.is_empty() {
            self.items.push_back(item);
        }
        queue.push_back(sender);
    }

    /// The next task of the next item.
    fn pop(&mut self) -> Option<S> {
        let item = self.items.pop_front()?;
        let queue = self.by_item.get_mut(&item)?;
        let sender = queue.pop_front();
        if queue.is_empty() {
            self.by_item.remove(&item);
        } else {
            self.items.push_back(item);
        }
        sender
    }

    /// The tasks of a round.
    fn round(&mut self) -> Vec<S> {
        iter::from_fn(|| self.pop()).take(EACH_ROUND).collect()
    }

    /// Whether none waits, so that the task that wakes them ends.
    fn has_ended(&mut self) -> bool {
        self.is_served = !self.items.is_empty();
        !self.is_served
    }
}

/// Makes the two ends of an answer.
pub fn answer_channel<A>() -> (AnswerSender<A>, AnswerReceiver<A>) {
    let slot = Arc::new(Mutex::new(None));
    let (_turn, turn) = oneshot::channel();
    (AnswerSender { slot: Arc::clone(&slot), _turn }, AnswerReceiver { slot, turn })
}

impl<A> AnswerSender<A> {
    /// Gives the answer. From now on the other end has it whenever it is asked.
    pub fn give(&self, answer: A) {
        *locked(&self.slot) = Some(answer);
    }
}

impl<A> Future for AnswerReceiver<A> {
    type Output = Option<A>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<A>> {
        let this = self.get_mut();
        let known = locked(&this.slot).take();
        if known.is_some() {
            return Poll::Ready(known);
        }
        // An answer that comes now is given before the turn.
        Pin::new(&mut this.turn).poll(context).map(|_| locked(&this.slot).take())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::future::join_all;
    use tokio::runtime::{Builder, Runtime};
    use tokio::time::{Instant, timeout_at};

    const CROWD: usize = 1_000;
    /// A runtime looks for new requests after 61 tasks. Each task that is woken is one of them, and brings one request.
    const WOKEN_MAX: usize = 61 / 2;

    type Told = Arc<Mutex<Vec<i64>>>;

    /// Notes the item when it is dropped.
    struct Tell(Told, i64);

    impl Drop for Tell {
        fn drop(&mut self) {
            locked(&self.0).push(self.1);
        }
    }

    fn runtime() -> Runtime {
        Builder::new_current_thread().enable_time().build().expect("a runtime")
    }

    fn ready<S>(runtime: &Runtime, id: i64, sender: S) -> ReadyAnswer<S> {
        let item = ItemId::new(id).expect("positive");
        ReadyAnswer { runtime: runtime.handle().clone(), item, sender }
    }

    #[test]
    fn answers_reach_the_tasks_of_their_runtimes() {
        let runtimes = [runtime(), runtime()];
        let answers = Answers::default();
        let mut waiting = Vec::new();
        let mut senders = Vec::new();
        for runtime in &runtimes {
            let (of_runtime, receivers): (Vec<_>, Vec<_>) =
                (0..3).map(|_| answer_channel()).unzip();
            let task = runtime.spawn(join_all(receivers));
            // They wait before their answers come.
            runtime.block_on(yield_now());
            waiting.push(task);
            senders.extend(of_runtime.into_iter().map(|sender| ready(runtime, 1, sender)));
        }
        senders.iter().for_each(|ready| ready.sender.give(7));
        answers.wake(senders);
        assert_eq!(locked(&answers.runtimes).len(), runtimes.len(), "one list for each runtime");
        for (runtime, task) in runtimes.iter().zip(waiting) {
            let received = runtime.block_on(task).expect("it does not panic");
            assert_eq!(received, [Some(7); 3], "each has its answer");
        }
    }

    /// A sender that breaks off wakes its receiver, too.
    #[test]
    fn an_answer_that_will_not_come_is_not_waited_for() {
        let (sender, receiver) = answer_channel::<i64>();
        drop(sender);
        assert_eq!(runtime().block_on(receiver), None);
    }

    /// The time of a buyer may end while its answer waits for its turn. Then the answer is not unknown.
    #[test]
    fn an_answer_is_known_before_its_turn() {
        let connections = runtime();
        let answers = Answers::default();
        let (sender, receiver) = answer_channel();
        sender.give(7);
        answers.wake([ready(&connections, 1, sender)]);
        // No task of the runtime has run yet.
        let received = connections.block_on(async { timeout_at(Instant::now(), receiver).await });
        assert_eq!(received, Ok(Some(7)));
    }

    /// An answer that comes after a thousand of another item has its turn in one of the next rounds. The runtime that
    /// writes the batches is the same here, as without `http.runtimes`.
    #[test]
    fn a_crowd_does_not_hold_up_another_item() {
        let told = Told::default();
        let answers = Answers::default();
        let runtime = runtime();
        runtime.block_on(async {
            for (id, count) in [(1, CROWD), (2, 1)] {
                let one = || ready(&runtime, id, Tell(Arc::clone(&told), id));
                answers.wake(iter::repeat_with(one).take(count));
            }
            yield_now().await;
            let first = locked(&told).len();
            assert!((1..=WOKEN_MAX).contains(&first), "{first} were woken in one round");
            for _ in 0..CROWD {
                yield_now().await;
            }
        });
        let told = locked(&told);
        assert_eq!(told.len(), CROWD + 1, "each has its turn");
        let before = told.iter().position(|id| *id == 2).expect("it was woken");
        assert!(before < WOKEN_MAX, "{before} of the crowd were woken before it");
    }
}
