//! The answers of batches: each runtime sends those for its own connections, a few at a time, and the items take turns.
//!
//! With `http.runtimes` a connection lives on a runtime of its own. To wake a task there from another
//! runtime takes a system call for each task. So the answers for one runtime are left in a list, and one
//! task there wakes the connections' tasks on its own thread.
//!
//! A runtime works off its tasks in the order in which they became ready, and a client that is answered sends its next
//! request. So a crowd whose answers are all sent at once is soon ahead of every other client again. Here it waits for its
//! answers instead: a runtime sends only a few in each round, which ends when it has looked for new requests.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, PoisonError};
use std::{iter, mem};

use shop_domain::ItemId;
use tokio::runtime::{Handle, Id};
use tokio::task::yield_now;

use crate::threads::{Mutex, MutexGuard};

/// Answers that a runtime sends in a round. Each may bring one request, and a runtime takes more requests than that in a
/// round (`EVENTS_EACH_LOOK` in `crates/web/src/runtimes.rs`).
const EACH_ROUND: usize = 16;

/// An answer, and where it is sent.
pub struct ReadyAnswer<A> {
    /// The runtime of the task that waits for it.
    pub runtime: Handle,
    /// The item that takes a turn with it.
    pub item: ItemId,
    /// The answer with the side that waits for it.
    pub answer: A,
}

/// Sends the answers of batches. `A` is an answer with the side that waits for it.
pub struct Answers<A> {
    runtimes: Mutex<HashMap<Id, Arc<AnswerList<A>>>>,
    send: fn(A),
}

/// The answers for one runtime.
struct AnswerList<A>(Mutex<WaitingAnswers<A>>);

/// Answers that wait. They are at most as many as the purchases that run.
struct WaitingAnswers<A> {
    /// By item, and the items in the order of their turns.
    by_item: HashMap<ItemId, VecDeque<A>>,
    items: VecDeque<ItemId>,
    /// Whether a task sends them.
    is_served: bool,
}

impl<A: Send + 'static> Answers<A> {
    /// Sends nothing yet; `send` sends one answer.
    #[must_use]
    pub fn new(send: fn(A)) -> Self {
        Self { runtimes: Mutex::new(HashMap::new()), send }
    }

    /// Sends answers to tasks of the present runtime at once, and leaves the others to their runtimes, each of which is
    /// woken once.
    pub fn send(&self, answers: impl IntoIterator<Item = ReadyAnswer<A>>) {
        let here = Handle::current().id();
        let mut elsewhere: Vec<(Handle, Vec<(ItemId, A)>)> = Vec::new();
        for ReadyAnswer { runtime, item, answer } in answers {
            if runtime.id() == here {
                (self.send)(answer);
                continue;
            }
            let known = elsewhere.iter_mut().find(|(one, _)| one.id() == runtime.id());
            match known {
                Some((_, answers)) => answers.push((item, answer)),
                None => elsewhere.push((runtime, vec![(item, answer)])),
            }
        }
        for (runtime, answers) in elsewhere {
            let list = self.of_runtime(runtime.id());
            if list.add(answers) {
                runtime.spawn(list.serve(self.send));
            }
        }
    }

    fn of_runtime(&self, runtime: Id) -> Arc<AnswerList<A>> {
        let mut runtimes = self.runtimes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(runtimes.entry(runtime).or_insert_with(|| Arc::new(AnswerList::new())))
    }
}

impl<A> AnswerList<A> {
    fn new() -> Self {
        Self(Mutex::new(WaitingAnswers {
            by_item: HashMap::new(),
            items: VecDeque::new(),
            is_served: false,
        }))
    }

    /// Adds answers. Returns whether a task is to be started that sends them.
    fn add(&self, answers: Vec<(ItemId, A)>) -> bool {
        let mut waiting = self.waiting();
        answers.into_iter().for_each(|(item, answer)| waiting.push(item, answer));
        !mem::replace(&mut waiting.is_served, true)
    }

    /// Sends the answers of one round after the other, until none waits.
    async fn serve(self: Arc<Self>, send: fn(A)) {
        loop {
            let round = self.waiting().round();
            round.into_iter().for_each(send);
            if self.waiting().has_ended() {
                return;
            }
            // It goes on when the runtime has looked for new requests.
            yield_now().await;
        }
    }

    fn waiting(&self) -> MutexGuard<'_, WaitingAnswers<A>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<A> WaitingAnswers<A> {
    fn push(&mut self, item: ItemId, answer: A) {
        let queue = self.by_item.entry(item).or_default();
        if queue.is_empty() {
            self.items.push_back(item);
        }
        queue.push_back(answer);
    }

    /// The next answer of the next item.
    fn pop(&mut self) -> Option<A> {
        let item = self.items.pop_front()?;
        let queue = self.by_item.get_mut(&item)?;
        let answer = queue.pop_front();
        if queue.is_empty() {
            self.by_item.remove(&item);
        } else {
            self.items.push_back(item);
        }
        answer
    }

    /// The answers of a round.
    fn round(&mut self) -> Vec<A> {
        iter::from_fn(|| self.pop()).take(EACH_ROUND).collect()
    }

    /// Whether none waits, so that the task that sends them ends.
    fn has_ended(&mut self) -> bool {
        self.is_served = !self.items.is_empty();
        !self.is_served
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::runtime::{Builder, Runtime};
    use tokio::sync::oneshot;

    const CROWD: usize = 1_000;

    fn runtime() -> Runtime {
        Builder::new_current_thread().build().expect("a runtime")
    }

    fn item(id: i64) -> ItemId {
        ItemId::new(id).expect("positive")
    }

    fn ready<A>(runtime: &Runtime, id: i64, answer: A) -> ReadyAnswer<A> {
        ReadyAnswer { runtime: runtime.handle().clone(), item: item(id), answer }
    }

    #[test]
    fn answers_reach_the_tasks_of_their_runtimes() {
        let (writer, connections) = (runtime(), runtime());
        let (here, mut at_home) = oneshot::channel();
        let (senders, waiting): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        let answers = Answers::new(|sender: oneshot::Sender<()>| {
            sender.send(()).expect("it waits");
        });
        writer.block_on(async {
            answers.send([ready(&writer, 1, here)]);
            assert!(at_home.try_recv().is_ok(), "its own runtime needs no task");
            answers.send(senders.into_iter().map(|sender| ready(&connections, 1, sender)));
            let known = answers.runtimes.lock().expect("nobody panicked").len();
            assert_eq!(known, 1, "one list for one runtime");
        });
        let received = connections.block_on(futures::future::join_all(waiting));
        assert!(received.iter().all(Result::is_ok), "each has its answer");
    }

    /// An answer that comes after a thousand of another item is sent in one of the next rounds.
    #[test]
    fn a_crowd_does_not_hold_up_another_item() {
        type Told = Arc<Mutex<Vec<i64>>>;
        let told = Told::default();
        let answers = Answers::new(|(told, id): (Told, i64)| {
            told.lock().expect("nobody panicked").push(id);
        });
        let (writer, connections) = (runtime(), runtime());
        writer.block_on(async {
            for (id, count) in [(1, CROWD), (2, 1)] {
                let answer = || ready(&connections, id, (Arc::clone(&told), id));
                answers.send(iter::repeat_with(answer).take(count));
            }
        });
        connections.block_on(async {
            yield_now().await;
            let first = told.lock().expect("nobody panicked").len();
            assert!(first <= EACH_ROUND, "{first} were told in one round");
            for _ in 0..CROWD {
                yield_now().await;
            }
        });
        let told = told.lock().expect("nobody panicked");
        assert_eq!(told.len(), CROWD + 1, "each has its turn");
        let before = told.iter().position(|id| *id == 2).expect("it was told");
        assert!(before < EACH_ROUND, "{before} of the crowd were told before it");
    }
}
