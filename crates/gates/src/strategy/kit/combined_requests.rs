//! The requests of a batch of [`super::combined_sale`]: what each asks for, and how they are answered.

use leaselock::combine::Operation;
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use crate::arbiter::Answers;
use crate::domain::{Outcome, Purchase, Span};

/// One request's part of a batch.
pub(super) struct Wanted {
    purchase: Purchase,
    /// Gets the answer when the batch has ended, also after the deadline of the request.
    answer: oneshot::Sender<Outcome>,
    /// The runtime on which the request waits.
    runtime: Handle,
    /// Ends when the batch begins.
    _waiting: Span,
}

/// A request of a batch that has begun.
pub(super) struct Begun {
    runtime: Handle,
    answer: oneshot::Sender<Outcome>,
    /// Dropped after the answer is sent: this wakes the request.
    _operation: Operation<Wanted, ()>,
}

impl Wanted {
    /// A request, and the end that gets its answer. To be called on the runtime of the task that waits.
    pub(super) fn new(purchase: Purchase, waiting: Span) -> (Self, oneshot::Receiver<Outcome>) {
        let (answer, answered) = oneshot::channel();
        (Self { purchase, answer, runtime: Handle::current(), _waiting: waiting }, answered)
    }
}

/// Takes the purchases of a batch.
pub(super) fn begin(operations: Vec<Operation<Wanted, ()>>) -> (Vec<Purchase>, Vec<Begun>) {
    let begun = operations.into_iter().filter_map(|mut operation| {
        let Wanted { purchase, answer, runtime, .. } = operation.take_input()?;
        Some((purchase, Begun { runtime, answer, _operation: operation }))
    });
    begun.unzip()
}

/// Sends the outcomes, one for each request in the same order; each runtime is woken once.
pub(super) fn answer(begun: Vec<Begun>, outcomes: impl IntoIterator<Item = Outcome>) {
    let mut answers = Answers::of_batch(|(begun, outcome): (Begun, Outcome)| {
        // A request that was cancelled has no receiver any more.
        let _ = begun.answer.send(outcome);
    });
    for (begun, outcome) in begun.into_iter().zip(outcomes) {
        answers.add(begun.runtime.clone(), (begun, outcome));
    }
    answers.finish();
}
