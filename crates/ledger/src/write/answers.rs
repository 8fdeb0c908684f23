//! The answers of a batch: each runtime whose connections wait for some of them is woken once.
//!
//! With `http.runtimes` a connection lives on a runtime of its own. To wake a task there from another
//! runtime takes a system call for each task. So the answers for one runtime go to one task there, and
//! that task wakes the connections' tasks on its own thread.

use tokio::runtime::{Handle, Id};

/// Sends the answers of one batch. Those for the runtime of the batch are sent at once, the others
/// by [`Answers::finish`]. `A` is an answer with the side that waits for it.
pub struct Answers<A> {
    here: Id,
    elsewhere: Vec<(Handle, Vec<A>)>,
    send: fn(A),
}

impl<A: Send + 'static> Answers<A> {
    /// Answers of a batch that was written on the current runtime; `send` sends one of them.
    #[must_use]
    pub fn of_batch(send: fn(A)) -> Self {
        Self { here: Handle::current().id(), elsewhere: Vec::new(), send }
    }

    /// Takes an answer for a task of `runtime`.
    pub fn add(&mut self, runtime: Handle, answer: A) {
        if runtime.id() == self.here {
            return (self.send)(answer);
        }
        let known = self.elsewhere.iter_mut().find(|(one, _)| one.id() == runtime.id());
        match known {
            Some((_, answers)) => answers.push(answer),
            None => self.elsewhere.push((runtime, vec![answer])),
        }
    }

    /// Sends the answers for other runtimes, with one task a runtime.
    pub fn finish(self) {
        for (runtime, answers) in self.elsewhere {
            runtime.spawn(async move { answers.into_iter().for_each(self.send) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[test]
    fn answers_reach_the_tasks_of_their_runtimes() {
        let build = || tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        let (writer, connections) = (build(), build());
        let (here, mut at_home) = oneshot::channel();
        let (senders, waiting): (Vec<_>, Vec<_>) = (0..3).map(|_| oneshot::channel()).unzip();
        writer.block_on(async {
            let mut answers = Answers::of_batch(|sender: oneshot::Sender<()>| {
                sender.send(()).expect("it waits");
            });
            answers.add(writer.handle().clone(), here);
            for sender in senders {
                answers.add(connections.handle().clone(), sender);
            }
            assert!(at_home.try_recv().is_ok(), "its own runtime needs no task");
            assert_eq!(answers.elsewhere.len(), 1, "one task for one runtime");
            answers.finish();
        });
        let received = connections.block_on(futures::future::join_all(waiting));
        assert!(received.iter().all(Result::is_ok), "each has its answer");
    }
}
