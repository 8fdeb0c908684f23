//! The requests of a batch of [`super::combined_sale`]: what each asks for, and how they are answered.

use leaselock::combine::Operation;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use ledger::write::Answers;
use shop_domain::{Outcome, Purchase, Span};

/// One request's part of a batch.
pub(super) struct SaleRequest {
    purchase: Purchase,
    /// No try of the order begins after it.
    deadline: Instant,
    /// Gets the answer when the order is decided, also after the deadline of the request.
    answer: oneshot::Sender<Outcome>,
    /// The runtime on which the request waits.
    runtime: Handle,
    /// Ends when the batch begins.
    _waiting: Span,
}

/// A request of a batch that has begun.
pub(super) struct StartedRequest {
    /// No try of the order begins after it.
    pub deadline: Instant,
    runtime: Handle,
    answer: oneshot::Sender<Outcome>,
    /// Dropped after the answer is sent: this wakes the request.
    _operation: Operation<SaleRequest, ()>,
}

impl SaleRequest {
    /// A request, and the end that gets its answer. To be called on the runtime of the task that waits.
    pub(super) fn new(
        purchase: Purchase,
        deadline: Instant,
        waiting: Span,
    ) -> (Self, oneshot::Receiver<Outcome>) {
        let (answer, answered) = oneshot::channel();
        let runtime = Handle::current();
        (Self { purchase, deadline, answer, runtime, _waiting: waiting }, answered)
    }
}

/// Takes the purchases of a batch.
pub(super) fn begin(
    operations: Vec<Operation<SaleRequest, ()>>,
) -> impl Iterator<Item = (Purchase, StartedRequest)> {
    operations.into_iter().filter_map(|mut operation| {
        let SaleRequest { purchase, deadline, answer, runtime, .. } = operation.take_input()?;
        Some((purchase, StartedRequest { deadline, runtime, answer, _operation: operation }))
    })
}

/// Sends outcomes; each runtime is woken once.
pub(super) fn answer(decided: impl IntoIterator<Item = (StartedRequest, Outcome)>) {
    let mut answers = Answers::of_batch(|(begun, outcome): (StartedRequest, Outcome)| {
        // A request that was cancelled has no receiver any more.
        let _ = begun.answer.send(outcome);
    });
    for (begun, outcome) in decided {
        answers.add(begun.runtime.clone(), (begun, outcome));
    }
    answers.finish();
}

/// Sends the outcome of all requests.
pub(super) fn answer_all(begun: Vec<StartedRequest>, outcome: &Outcome) {
    answer(begun.into_iter().map(|one| (one, outcome.clone())));
}
