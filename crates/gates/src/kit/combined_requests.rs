//! The requests of a batch of [`super::combined_sale`]: what each asks for, and how they are answered.

use leaselock::combine::Operation;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::Instant;

use ledger::write::{Answers, ReadyAnswer};
use shop_domain::{ItemId, Outcome, Purchase, Span};

/// The outcome of a request that has begun.
pub(super) type EndedRequest = (StartedRequest, Outcome);

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
    item: ItemId,
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
        let item = purchase.item.id;
        Some((purchase, StartedRequest { deadline, item, runtime, answer, _operation: operation }))
    })
}

/// Sends an outcome. A request that was cancelled has no receiver any more.
pub(super) fn send((begun, outcome): EndedRequest) {
    let _ = begun.answer.send(outcome);
}

/// Has outcomes sent by `answers`.
pub(super) fn answer(
    answers: &Answers<EndedRequest>,
    decided: impl IntoIterator<Item = EndedRequest>,
) {
    answers.send(decided.into_iter().map(|(begun, outcome)| {
        let runtime = begun.runtime.clone();
        ReadyAnswer { runtime, item: begun.item, answer: (begun, outcome) }
    }));
}

/// Has the outcome sent to all requests.
pub(super) fn answer_all(
    answers: &Answers<EndedRequest>,
    begun: Vec<StartedRequest>,
    outcome: &Outcome,
) {
    answer(answers, begun.into_iter().map(|one| (one, outcome.clone())));
}
