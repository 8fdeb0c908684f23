//! The queues: the orders that wait for a batch, and the task that cuts and writes their batches.
//!
//! A queue has no timer. Its next batch is made of the orders that came while the last one wrote
//! its rows, up to a bound, and it writes its own rows while that one is committed, or as soon as it is full
//! (`pipeline.rs`): under load hundreds of orders share one commit. The batches are written by tasks of their own,
//! so an order in them is finished whether or not its buyer still waits. An idle queue has no task
//! and no connection.
//!
//! When the task that cuts batches breaks off, all orders of the queue are given back: the outcome of those that it has
//! cut is unknown, the others can be tried again. The next order starts another task.
//!
//! A *shared* queue is for many items; an item has a queue of its own while it is in quarantine.
//!
//! A batch claims an order when it takes it, or the side that waits for its answer ([`Asker`]) when it takes it back.

use std::collections::BTreeSet;
use std::mem;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout};

use super::GroupCommit;
use super::batch_orders::{BatchOrders, Tell, UNWRITTEN, lines_at, of_whole_orders};
use super::fair_queue::{CutBatch, FairQueue};
use super::pipeline::{BatchPipeline, PipelineSlot};
use super::pre_check::items_of;
use super::quarantine::{QUARANTINED_MAX, Quarantine};
use super::resources::BatchConnections;
use crate::threads::{AtomicBool, Mutex, MutexGuard};
use crate::work::item_concurrency::TellWait;
use crate::write::protocol::protocol;
use crate::write::{Answer, AnswerReceiver, AnswerSender, ReadyAnswer, answer_channel, is_late};
use shop_domain::{ItemId, Outcome, Purchase, Refusal, Span, Unavailable};

/// Orders of one batch.
pub const BATCH_MAX: usize = 256;
/// How long a queue waits for an order before its task ends.
const IDLE_MAX: Duration = Duration::from_millis(250);
/// Orders that are written by themselves at once, beside an idle shared queue.
const DIRECT_MAX: usize = 2;

/// One order in a queue.
pub(super) struct Waiting {
    /// Its lines: at least one.
    pub(super) lines: Vec<Purchase>,
    pub(super) asker: Asker,
    /// Ends when a batch takes the order.
    waiting: Span,
}

impl Waiting {
    /// An order that begins to wait.
    pub(super) fn new(lines: Vec<Purchase>, asker: Asker) -> Self {
        let waiting = lines[0].trace.span("batch wait");
        Self { lines, asker, waiting }
    }

    /// The order and its asker, when it waits no more.
    pub(super) fn taken(self) -> (Vec<Purchase>, Asker) {
        drop(self.waiting);
        (self.lines, self.asker)
    }

    /// The item in whose queue it waits.
    pub(super) fn item(&self) -> ItemId {
        self.lines[0].item.id
    }
}

/// The side that waits for the answer to an order.
pub(super) struct Asker {
    pub(super) answer: AnswerSender<Answer>,
    /// The runtime on which it waits.
    pub(super) runtime: Handle,
    /// The instant after which no try of the order may begin.
    pub(super) deadline: Option<Instant>,
    /// Is told which item the order waits for.
    pub(super) tell_wait: Option<TellWait>,
    /// Set by the task that takes it into a batch, or by the buyer's side that takes it back.
    claimed: Arc<AtomicBool>,
}

impl Asker {
    /// Makes the two ends of an answer, and the mark of the order: the task that sets this mark has the order, either
    /// for a batch, or to take it back for the buyer. To be called on the runtime of the task that waits.
    pub(super) fn new(
        deadline: Option<Instant>,
        tell_wait: Option<TellWait>,
    ) -> (Self, AnswerReceiver<Answer>, Arc<AtomicBool>) {
        let (answer, answered) = answer_channel();
        let claimed = Arc::new(AtomicBool::new(false));
        let own = Arc::clone(&claimed);
        let runtime = Handle::current();
        (Self { answer, runtime, deadline, tell_wait, claimed }, answered, own)
    }

    /// Takes the order into a batch, unless it was taken back or its time is over.
    pub(super) fn begins(&self) -> bool {
        !is_late(self.deadline) && claim(&self.claimed)
    }

    /// Lets the buyer's side take back an order that a batch has left over, until the next batch
    /// takes it; `None` when its time is over.
    pub(super) fn left_over(self) -> Option<Self> {
        self.claimed.store(false, Ordering::Release);
        // Only now: a buyer's side that finds its time over from here on takes the order back, and one
        // that found it over before still waits for this answer.
        if is_late(self.deadline) {
            self.give_up();
            return None;
        }
        Some(self)
    }

    /// Answers an order for which no batch began in time. The buyer's side may know it already.
    pub(super) fn give_up(self) {
        self.answer(Ok(UNWRITTEN));
    }

    /// Answers an order that no batch has written.
    pub(super) fn answer(self, answer: Answer) {
        self.answer.give(answer);
    }
}

/// Claims an order; `false` when it was claimed before.
pub(super) fn claim(claimed: &AtomicBool) -> bool {
    !claimed.swap(true, Ordering::AcqRel)
}

/// The orders of one queue, and the tasks and writers at work on them.
struct State {
    waiting: FairQueue<Waiting>,
    /// Whether the task that cuts batches runs.
    is_served: bool,
    /// Batches that are being written.
    batches: usize,
    /// Orders that are being written by themselves.
    directs: usize,
}

pub(super) struct BatchQueue {
    /// `None` for a shared queue.
    item: Option<(ItemId, Quarantine)>,
    connections: BatchConnections,
    pipeline: BatchPipeline,
    state: Mutex<State>,
    arrived: Notify,
    /// Notified when a full batch waits.
    filled: Notify,
}

/// The work of the task that cuts the batches of a queue. When it is dropped before its end, the queue begins anew.
struct Service {
    queue: Arc<BatchQueue>,
    /// Whether nobody waited, and the next order starts another task.
    has_ended: bool,
}

impl Drop for Service {
    fn drop(&mut self) {
        if self.has_ended {
            return;
        }
        let mut state = self.queue.state();
        state.is_served = false;
        let waiting = mem::replace(&mut state.waiting, nobody());
        // Their buyers are woken without the lock.
        drop(state);
        drop(waiting);
    }
}

impl Service {
    /// Cuts batches and has them written, until no order has come for a while.
    async fn run(mut self, group: GroupCommit) {
        let queue = Arc::clone(&self.queue);
        while queue.has_order().await {
            // Orders that come while the slot is awaited are in this batch.
            let slot = queue.pipeline.enter_when(queue.is_filled()).await;
            if let Some(until) = queue.quarantine().and_then(Quarantine::take_pause) {
                tokio::time::sleep_until(until).await;
            }
            let batch = queue.cut(&group);
            if batch.is_empty() {
                continue;
            }
            queue.state().batches += 1;
            let written = Arc::clone(&queue).write(group.clone(), slot, batch);
            group.parts.tasks.spawn(written);
        }
        self.has_ended = true;
    }
}

/// The waiting orders of a queue in which nobody waits.
fn nobody() -> FairQueue<Waiting> {
    FairQueue::new(|one| one.lines.len())
}

/// The right to write an order by itself, beside an idle queue.
pub(super) struct Direct(Arc<BatchQueue>);

impl Drop for Direct {
    fn drop(&mut self) {
        self.0.state().directs -= 1;
    }
}

impl BatchQueue {
    /// A queue for many items, written on `connections`.
    pub(super) fn shared(connections: BatchConnections) -> Self {
        Self::new(None, connections, BatchPipeline::with_overtaking())
    }

    /// A queue for one item, written on `connections`.
    pub(super) fn of_item(
        item: ItemId,
        quarantine: Quarantine,
        connections: BatchConnections,
    ) -> Self {
        Self::new(Some((item, quarantine)), connections, BatchPipeline::default())
    }

    fn new(
        item: Option<(ItemId, Quarantine)>,
        connections: BatchConnections,
        pipeline: BatchPipeline,
    ) -> Self {
        let state = State { waiting: nobody(), is_served: false, batches: 0, directs: 0 };
        let arrived = Notify::new();
        let filled = Notify::new();
        Self { item, connections, pipeline, state: Mutex::new(state), arrived, filled }
    }

    /// The quarantine of the item that this queue belongs to.
    pub(super) fn quarantine(&self) -> Option<&Quarantine> {
        self.item.as_ref().map(|(_, quarantine)| quarantine)
    }

    /// Lets an order be written by itself: when the queue is for many items, nobody waits in it, no
    /// batch is being written, and hardly an order by itself either.
    pub(super) fn direct(self: &Arc<Self>) -> Option<Direct> {
        let mut state = self.state();
        let is_idle = state.batches == 0 && state.waiting.is_empty();
        let free = self.item.is_none() && is_idle && state.directs < DIRECT_MAX;
        free.then(|| {
            state.directs += 1;
            Direct(Arc::clone(self))
        })
    }

    /// Queues an order.
    ///
    /// # Errors
    /// The order, when the queue is full.
    pub(super) fn push(self: &Arc<Self>, group: &GroupCommit, one: Waiting) -> Result<(), Waiting> {
        let item = one.item();
        let mut state = self.state();
        state.waiting.push(item, one)?;
        let is_served = mem::replace(&mut state.is_served, true);
        let is_full = state.waiting.fills(BATCH_MAX);
        drop(state);
        if !is_served {
            let service = Service { queue: Arc::clone(self), has_ended: false };
            group.parts.tasks.spawn(service.run(group.clone()));
        }
        self.arrived.notify_one();
        if is_full {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for an order, for a while; `false` when the task is to end.
    async fn has_order(&self) -> bool {
        loop {
            if !self.state().waiting.is_empty() {
                return true;
            }
            let has_come = timeout(IDLE_MAX, self.arrived.notified()).await.is_ok();
            let mut state = self.state();
            if !has_come && state.waiting.is_empty() {
                state.is_served = false;
                return false;
            }
        }
    }

    /// Waits until a full batch waits.
    async fn is_filled(&self) {
        while !self.state().waiting.fills(BATCH_MAX) {
            self.filled.notified().await;
        }
    }

    /// Cuts the next batch, without orders of items in quarantine: these go to the queues of their items.
    fn cut(&self, group: &GroupCommit) -> Vec<Waiting> {
        let mut apart = Vec::new();
        let CutBatch { mut batch, dropped, .. } = {
            let mut state = self.state();
            if self.item.is_none() && group.has_quarantined() {
                let is_quarantined = |item: &ItemId| group.is_quarantined(*item);
                let items: Vec<ItemId> = state.waiting.items().filter(is_quarantined).collect();
                apart.extend(items.into_iter().flat_map(|item| state.waiting.remove(item)));
            }
            state.waiting.cut(BATCH_MAX, |one| one.asker.begins())
        };
        dropped.into_iter().for_each(|one| one.asker.give_up());
        apart.into_iter().for_each(|one| group.write_apart(one));
        if self.item.is_none() && group.has_quarantined() {
            // Orders of which another line is of an item in quarantine.
            let is_apart = |one: &mut Waiting| group.has_quarantined_line(&one.lines);
            batch.extract_if(.., is_apart).for_each(|one| group.spawn_alone(one));
        }
        batch
    }

    /// Writes a batch and answers its orders, each as soon as it is decided.
    async fn write(
        self: Arc<Self>,
        group: GroupCommit,
        mut slot: PipelineSlot,
        batch: Vec<Waiting>,
    ) {
        let begun = Instant::now();
        let mut purchases = Vec::new();
        let mut deadlines = Vec::new();
        // At the first line of each order.
        let mut askers: Vec<Option<Asker>> = Vec::new();
        for (lines, asker) in batch.into_iter().map(Waiting::taken) {
            deadlines.resize(deadlines.len() + lines.len(), asker.deadline);
            askers.push(Some(asker));
            purchases.extend(lines);
            askers.resize_with(purchases.len(), || None);
        }
        let items = items_of(&purchases);
        group.observe(purchases.len(), items.len());
        if self.item.is_none() {
            raise_when_overtaken(&group, &mut slot, &purchases, items);
        }
        let mut has_objected = false;
        let mut tell = |answers: Vec<(usize, Answer)>| {
            // First this: whoever comes next must know which items to leave alone.
            has_objected |= self.note_objections(&group, &purchases, &answers);
            let whole = of_whole_orders(&purchases, answers).into_iter();
            group.parts.answers.wake(whole.filter_map(|(index, answer)| {
                let Asker { answer: sender, runtime, .. } = askers[index].take()?;
                sender.give(answer);
                let item = purchases[index].item.id;
                Some(ReadyAnswer { runtime, item, sender })
            }));
        };
        let orders = BatchOrders { purchases: &purchases, deadlines: &deadlines };
        // A panic fails its own batch, whose results are then read from the ledger, not the queue.
        let written = AssertUnwindSafe(self.written(&group, slot, orders, &mut tell));
        let written = written.catch_unwind().await;
        self.state().batches -= 1;
        if written.is_err() {
            return;
        }
        if let Some((item, _)) = self.item.as_ref().filter(|_| !group.parts.shared.is_empty()) {
            group.quarantine(*item, |one| one.batch_ended(begun, Instant::now(), has_objected));
        }
        write_left_over(&group, &purchases, askers);
    }

    async fn written(
        &self,
        group: &GroupCommit,
        slot: PipelineSlot,
        orders: BatchOrders<'_>,
        tell: Tell<'_>,
    ) {
        let writer = group.writer_of(self.connections.clone(), self.pipeline.clone());
        match self.item {
            None => writer.write_shared(slot, orders, tell).await,
            Some(_) => writer.write_at(slot, orders, None, tell).await,
        }
    }

    /// Raises the quarantine of items whose orders are refused: their next ones would have the next
    /// shared batch rolled back. Returns whether any answer is other than "sold".
    fn note_objections(
        &self,
        group: &GroupCommit,
        purchases: &[Purchase],
        answers: &[(usize, Answer)],
    ) -> bool {
        let has_objected =
            answers.iter().any(|(_, answer)| !matches!(answer, Ok(Outcome::Sold(_))));
        let is_failure =
            |answer: &Answer| matches!(answer, Ok(Outcome::Unavailable(Unavailable::Faulty(_))));
        if let Some(quarantine) = self.quarantine()
            && answers.iter().all(|(_, answer)| is_failure(answer))
        {
            quarantine.pause(Instant::now());
        }
        let is_refused =
            |answer: &Answer| matches!(answer, Ok(Outcome::Refused(_) | Outcome::Replayed(_)));
        if self.item.is_none() {
            let refused = answers.iter().filter(|(_, answer)| is_refused(answer));
            let item_of = |(index, answer): &(usize, Answer)| match answer {
                Ok(Outcome::Refused(Refusal::OfLine { item, .. })) => *item,
                _ => purchases[*index].item.id,
            };
            for item in refused.map(item_of).collect::<BTreeSet<_>>() {
                if group.quarantined() < QUARANTINED_MAX {
                    group.quarantine(item, |one| one.raise(Instant::now()));
                }
            }
        }
        has_objected
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Raises the quarantine of a shared batch's items when another batch overtakes it.
fn raise_when_overtaken(
    group: &GroupCommit,
    slot: &mut PipelineSlot,
    purchases: &[Purchase],
    items: Vec<ItemId>,
) {
    let group = group.clone();
    let orders = tracing::enabled!(target: "ledger::protocol", tracing::Level::TRACE)
        .then(|| purchases.to_vec());
    slot.when_overtaken(move || {
        let now = Instant::now();
        protocol!("overtaken", orders.iter().flatten());
        items.iter().for_each(|item| group.quarantine(*item, |one| one.raise_until_clean(now)));
    });
}

/// Sends the orders that a batch has not decided to the queues of their items; those in `askers` wait for an answer.
fn write_left_over(group: &GroupCommit, purchases: &[Purchase], askers: Vec<Option<Asker>>) {
    for (index, asker) in askers.into_iter().enumerate() {
        let Some(asker) = asker else { continue };
        let lines = purchases[lines_at(purchases, index)].to_vec();
        let now = Instant::now();
        for line in &lines {
            group.quarantine(line.item.id, |one| one.raise_until_clean(now));
        }
        if let Some(asker) = asker.left_over() {
            group.write_apart(Waiting::new(lines, asker));
        }
    }
}
