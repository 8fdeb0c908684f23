//! The side that waits for an order's answer. A batch claims the order when it takes it, or this side when it takes it back.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::runtime::Handle;
use tokio::time::Instant;

use super::batch_orders::UNWRITTEN;
use crate::threads::AtomicBool;
use crate::work::item_concurrency::TellWait;
use crate::write::{Answer, AnswerReceiver, AnswerSender, answer_channel, is_late};

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
    /// The two ends: the one that is answered, and the one that gets the answer. Whoever sets the
    /// third has the order: a batch, or the buyer's side that takes it back. To be called on the
    /// runtime of the task that waits.
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
