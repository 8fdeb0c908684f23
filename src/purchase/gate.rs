//! Step 4: the strategy decides, and its outcome is published, also when the buyer waits no more.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::runtime::Handle;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tokio_util::task::task_tracker::TaskTrackerToken;
use tracing::Instrument;

use super::admit::PurchasePermit;
use super::earlier;
use super::find::Gate;
use super::requests::WaitingClient;
use super::{Lines, OrderRequest, PurchaseParts, Purchases};
use gates::{Options, Strategy, WaitingBuyer};
use ledger::TellWait;
use shop_domain::{Doubt, Item, Outcome, Purchase, Quantity, Refusal};

impl Purchases {
    /// Runs the strategy and waits for its outcome until the deadline. It is finished also when nobody waits
    /// any more.
    pub(super) async fn pass_gate(
        &self,
        order: &OrderRequest,
        items: &[Arc<Item>],
        gate: Gate<'_>,
        permits: Lines<PurchasePermit>,
        started: Instant,
    ) -> Outcome {
        let mut span = order.trace.span("gate");
        span.set("strategy", gate.card.name);
        let purchases = self.purchases(order, items, gate.card.name, &span.trace());
        let parts = Arc::clone(&self.parts);
        let strategy = Arc::clone(gate.strategy);
        let options = order.options();
        let buyer = WaitingBuyer::new(started + self.parts.gate_wait);
        let of_gate = buyer.clone();
        let card = gate.card;
        let clients: Lines<WaitingClient> =
            permits.iter().filter_map(PurchasePermit::client).collect();
        let tell_wait = PurchasePermit::tell_wait(&permits);
        let work = async move {
            // Boxed: it is rarely awaited, and would make every purchase's future larger.
            let hidden = if earlier::may_be_queued(&purchases, card) {
                Box::pin(earlier::find(&parts, &purchases, card)).await
            } else {
                None
            };
            let outcome = match hidden {
                Some(outcome) => outcome,
                None => parts.run(&*strategy, purchases, options, &of_gate, tell_wait).await,
            };
            // Also when the buyer waits no more: the breakers count the outcome.
            permits.into_iter().for_each(|permit| permit.ended(&outcome));
            span.set("outcome", outcome.as_str());
            outcome
        };
        let work = Finishing::new(work.instrument(order.trace.log_span()), &self.parts.tasks);
        let outcome = match tokio::time::timeout_at(started + self.parts.deadline, work).await {
            Ok(Some(outcome)) => outcome,
            cut => match buyer.outcome() {
                Some(known) => {
                    clients.iter().for_each(WaitingClient::end_request);
                    known.clone()
                }
                // A panic in a strategy: whether its write went through is for the ledger to say.
                None if cut.is_ok() => Outcome::Unknown(Doubt::BrokenOff),
                None => Outcome::Unknown(Doubt::StillRunning),
            },
        };
        clients.into_iter().for_each(WaitingClient::answered);
        order.of_line(outcome, items[0].id)
    }
}

impl PurchaseParts {
    /// Runs the strategy, then publishes the outcome. Group commit writes an order with several lines.
    async fn run(
        &self,
        strategy: &dyn Strategy,
        purchases: Lines<Purchase>,
        options: Options,
        waiting: &WaitingBuyer,
        tell_wait: Option<TellWait>,
    ) -> Outcome {
        let buyer = purchases[0].buyer;
        let asked: Lines<(Arc<Item>, Quantity)> =
            purchases.iter().map(|line| (Arc::clone(&line.item), line.quantity)).collect();
        let outcome = match purchases.into_inner() {
            Ok([purchase]) => {
                let decided = strategy.purchase(purchase, options, waiting).await;
                decided.unwrap_or_else(|ended| ended)
            }
            // Boxed: as above.
            Err(lines) => {
                let lines = lines.into_vec();
                let deadline = Some(waiting.deadline);
                let written = self.group_commit.write_order(lines, deadline, tell_wait);
                Box::pin(written).await.of_line(asked[0].0.id)
            }
        };
        for (item, quantity) in &asked {
            self.waiting_room.purchase_ended(item, buyer, &outcome);
            if let Outcome::Refused(refusal) = &outcome {
                self.refused(refusal, item, *quantity);
            }
        }
        if let Outcome::Sold(order) | Outcome::Queued(order) = &outcome {
            self.hub.order_changed(order);
        }
        outcome
    }

    /// Remembers that an item is sold out, if its line was refused.
    fn refused(&self, refusal: &Refusal, item: &Item, quantity: Quantity) {
        // Asking for several units may fail while a single one is left.
        if let Some(Refusal::SoldOut { asked_at }) = refusal.of_item(item.id)
            && quantity == Quantity::ONE
        {
            self.sold_out.learn(item.id, *asked_at);
        }
    }
}

/// Work that the task that waits for it does itself. When that task waits no more, the rest is done by a
/// task of its own. So nearly every purchase needs one task: its connection's. With a second one, each
/// purchase would wait twice more for its turn among the tasks of its runtime.
struct Finishing<T: Send + 'static> {
    /// `None` when it has ended.
    work: Option<BoxFuture<'static, T>>,
    tasks: TaskTracker,
    /// A stop waits for the work, whoever does it.
    _token: TaskTrackerToken,
}

impl<T: Send + 'static> Finishing<T> {
    /// Work that `tasks` tracks.
    fn new(work: impl Future<Output = T> + Send + 'static, tasks: &TaskTracker) -> Self {
        Self { work: Some(work.boxed()), tasks: tasks.clone(), _token: tasks.token() }
    }
}

/// Its output is `None` when the work panicked.
impl<T: Send + 'static> Future for Finishing<T> {
    type Output = Option<T>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
        let Some(work) = &mut self.work else { return Poll::Ready(None) };
        let output = match catch_unwind(AssertUnwindSafe(|| work.poll_unpin(context))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Some(output),
            Err(_) => None,
        };
        self.work = None;
        Poll::Ready(output)
    }
}

impl<T: Send + 'static> Drop for Finishing<T> {
    fn drop(&mut self) {
        // Without a runtime the process ends.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work.map(drop), &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn work_is_finished_when_nobody_waits_any_more() {
        let tasks = TaskTracker::new();
        tasks.close();
        let (go, gone) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let work = async move {
            gone.await.expect("it goes on");
            done.send(()).expect("the receiver is there");
        };
        let mut waiting = Finishing::new(work, &tasks);
        assert_eq!((&mut waiting).now_or_never(), None);
        drop(waiting);
        assert!(tasks.wait().now_or_never().is_none(), "a stop waits for it");
        go.send(()).expect("the work waits");
        is_done.await.expect("the work is done");
        tasks.wait().await;
    }

    #[tokio::test]
    async fn work_that_ends_needs_no_task_and_a_panic_stays_inside() {
        let tasks = TaskTracker::new();
        assert_eq!(Finishing::new(async { 1 }, &tasks).await, Some(1));
        let broken: Finishing<()> = Finishing::new(async { panic!("of the work") }, &tasks);
        assert_eq!(broken.await, None);
        assert!(tasks.is_empty());
    }
}
