//! The answers of a batch: each runtime whose connections wait for some of them is woken once.
//!
//! With `http.runtimes` a connection lives on a runtime of its own. To wake a task there from another
//! runtime takes a system call for each task. So the answers for one runtime go to one task there, and
//! that task wakes the connections' tasks on its own thread.

use tokio::runtime::{Handle, Id};
use tokio::sync::oneshot;

use crate::arbiter::Answer;

/// Sends the answers of one batch. Those for the runtime of the batch are sent at once, the others
/// by [`Answers::finish`].
pub(super) struct Answers {
    here: Id,
    elsewhere: Vec<(Handle, Vec<Addressed>)>,
}

/// An answer and the side that waits for it.
type Addressed = (oneshot::Sender<Answer>, Answer);

/// Takes one answer, for a task of the runtime that it was made on.
pub(super) struct AnswerSender {
    sender: oneshot::Sender<Answer>,
    runtime: Handle,
}

impl AnswerSender {
    /// The two ends. To be called by the task that waits for the answer, or by another one of its
    /// runtime.
    pub(super) fn channel() -> (Self, oneshot::Receiver<Answer>) {
        let (sender, receiver) = oneshot::channel();
        (Self { sender, runtime: Handle::current() }, receiver)
    }

    /// Sends an answer that is none of many.
    pub(super) fn send(self, answer: Answer) {
        send((self.sender, answer));
    }
}

impl Answers {
    /// Answers of a batch that was written on the current runtime.
    pub(super) fn of_batch() -> Self {
        Self { here: Handle::current().id(), elsewhere: Vec::new() }
    }

    /// Takes an answer.
    pub(super) fn add(&mut self, to: AnswerSender, answer: Answer) {
        let AnswerSender { sender, runtime } = to;
        if runtime.id() == self.here {
            return send((sender, answer));
        }
        let known = self.elsewhere.iter_mut().find(|(one, _)| one.id() == runtime.id());
        match known {
            Some((_, answers)) => answers.push((sender, answer)),
            None => self.elsewhere.push((runtime, vec![(sender, answer)])),
        }
    }

    /// Sends the answers for other runtimes, with one task a runtime.
    pub(super) fn finish(self) {
        for (runtime, answers) in self.elsewhere {
            runtime.spawn(async move { answers.into_iter().for_each(send) });
        }
    }
}

/// The receiver may be dropped: a retry with the key reads the result from the ledger.
fn send((sender, answer): Addressed) {
    let _ = sender.send(answer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::{Outcome, Unavailable};

    #[test]
    fn answers_reach_the_tasks_of_their_runtimes() {
        let build = || tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (writer, connections) = (build(), build());
        let (here, mut at_home) = writer.block_on(async { AnswerSender::channel() });
        let ends: Vec<_> =
            connections.block_on(async { (0..3).map(|_| AnswerSender::channel()).collect() });
        let (senders, waiting): (Vec<_>, Vec<_>) = ends.into_iter().unzip();
        let answer = || Ok(Outcome::Unavailable(Unavailable::Contended));
        let waited = writer.block_on(async {
            let mut answers = Answers::of_batch();
            answers.add(here, answer());
            senders.into_iter().for_each(|sender| answers.add(sender, answer()));
            assert!(at_home.try_recv().is_ok(), "its own runtime needs no task");
            assert_eq!(answers.elsewhere.len(), 1, "one task for one runtime");
            answers.finish();
            waiting
        });
        let received = connections.block_on(futures::future::join_all(waited));
        assert!(received.iter().all(Result::is_ok), "each has its answer");
    }
}
