//! The orders of one batch: until when each may be tried, which are decided, and who knows it already.
//!
//! A buyer is told as soon as the order is decided, whatever becomes of the others of the batch. No
//! try of an order begins after its deadline: then nothing of it is written, and that is its answer.

use std::ops::Range;

use tokio::time::Instant;

use crate::work::item_permit::ItemPermits;
use crate::write::protocol::{self, protocol};
use crate::write::{Answer, Arbiter, Fence, UNANSWERED, WRITTEN_AS};
use shop_domain::trace::SharedSpan;
use shop_domain::{ItemId, Outcome, Purchase, Unavailable};

/// The outcome of an order whose time was over before it was written.
pub(super) const UNWRITTEN: Outcome = Outcome::Unavailable(Unavailable::Contended);

/// The orders that a batch is to write.
#[derive(Clone, Copy, Debug)]
pub struct BatchOrders<'a> {
    /// The orders. The lines of one order stand behind each other, and are written all or none.
    pub purchases: &'a [Purchase],
    /// The instant of each after which it is not tried any more; `None` where no buyer waits.
    pub deadlines: &'a [Option<Instant>],
}

/// Takes answers, each with the place of its order in the batch. Each order is answered once.
pub type Tell<'a> = &'a mut (dyn FnMut(Vec<(usize, Answer)>) + Send);

/// One batch under way.
pub(super) struct Batch<'a> {
    arbiter: &'a Arbiter,
    pub(super) purchases: &'a [Purchase],
    deadlines: &'a [Option<Instant>],
    pub(super) fence: Option<Fence>,
    pub(super) answers: Vec<Option<Answer>>,
    /// Whether the answer of an order is told, and therefore final.
    is_told: Vec<bool>,
    tell: Tell<'a>,
    /// Whether its orders are of many items, so that orders which make it fail are left to the items' own batches.
    pub(super) is_shared: bool,
    /// Whether it is one order, of which nothing is left to other batches.
    pub(super) is_alone: bool,
    /// The permits of the items of one order with several lines.
    pub(super) permits: Option<&'a ItemPermits>,
    /// The item of such an order whose stock row, or the limit of the buyer for it, others have.
    pub(super) locked: Option<ItemId>,
    pub(super) span: SharedSpan,
}

impl<'a> Batch<'a> {
    /// Orders of one item.
    pub(super) fn new(
        arbiter: &'a Arbiter,
        BatchOrders { purchases, deadlines }: BatchOrders<'a>,
        fence: Option<Fence>,
        tell: Tell<'a>,
    ) -> Self {
        assert_eq!(purchases.len(), deadlines.len(), "each order of a batch has one deadline");
        let traces = purchases.iter().map(|purchase| &purchase.trace);
        let mut span = SharedSpan::begin("batch", traces);
        span.set("orders", purchases.len());
        let answers = vec![None; purchases.len()];
        let is_told = vec![false; purchases.len()];
        Self {
            arbiter,
            purchases,
            deadlines,
            fence,
            answers,
            is_told,
            tell,
            is_shared: false,
            is_alone: false,
            permits: None,
            locked: None,
            span,
        }
    }

    /// Orders of many items.
    pub(super) fn shared(arbiter: &'a Arbiter, orders: BatchOrders<'a>, tell: Tell<'a>) -> Self {
        Self { is_shared: true, ..Self::new(arbiter, orders, None, tell) }
    }

    /// One order with several lines.
    pub(super) fn alone(
        arbiter: &'a Arbiter,
        orders: BatchOrders<'a>,
        permits: &'a ItemPermits,
        tell: Tell<'a>,
    ) -> Self {
        let batch = Self::new(arbiter, orders, None, tell);
        Self { is_alone: true, permits: Some(permits), ..batch }
    }

    /// Says that its transactions begin.
    pub(super) fn begins(&self) {
        let kind = match (self.is_shared, self.is_alone) {
            (true, _) => "shared",
            (_, true) => "alone",
            _ => "own",
        };
        protocol!("begin", self.purchases, kind = kind);
    }

    /// Says that it looks at the ledger.
    pub(super) fn looks(&self) {
        let all = self.purchases.iter().zip(&self.answers);
        let undecided = all.filter(|(_, answer)| answer.is_none()).map(|(purchase, _)| purchase);
        protocol!("looks", undecided);
    }

    /// Says what a look at the ledger has decided.
    pub(super) fn looked(&self, chosen: &[usize]) {
        let answered = |kinds: &'static [&'static str]| {
            let all = self.purchases.iter().zip(&self.answers);
            let is_it = move |answer: &Answer| kinds.contains(&protocol::kind(answer));
            let those = all.filter(move |(_, answer)| answer.as_ref().is_some_and(is_it));
            protocol::names(those.map(|(purchase, _)| purchase))
        };
        let chosen = chosen.iter().map(|index| &self.purchases[*index]);
        let refused = answered(&["refused", "replayed"]);
        protocol!("looked", chosen, refused = refused, found = answered(&["sold"]));
    }

    /// Answers orders that are written.
    pub(super) fn sold(&mut self, written: &[usize]) {
        let token = self.fence.map(|fence| fence.token);
        for &index in written {
            let order = self.purchases[index].order(WRITTEN_AS, token);
            self.answers[index] = Some(Ok(Outcome::Sold(order)));
        }
    }

    /// Answers all orders that are undecided.
    pub(super) fn answer_rest(&mut self, answer: &Answer) {
        for undecided in self.answers.iter_mut().filter(|answer| answer.is_none()) {
            *undecided = Some(answer.clone());
        }
    }

    /// Makes those answers unknown that came from a server which is not the ledger's any more.
    pub(super) fn doubt_answers(&mut self) {
        let given = self.answers.iter_mut().zip(&self.is_told).filter(|(_, is_told)| !**is_told);
        given.filter(|(answer, _)| answer.is_some()).for_each(|(answer, _)| {
            *answer = Some(Ok(UNANSWERED));
        });
    }

    /// Answers the undecided orders whose time is over, and tells them at once. To be called between
    /// two tries: nothing of an undecided order is written then.
    pub(super) fn give_up_late(&mut self) {
        // One moment for all: the lines of an order have one deadline.
        let now = Instant::now();
        let is_over = |index: &usize| {
            let is_late = self.deadlines[*index].is_some_and(|deadline| now >= deadline);
            self.answers[*index].is_none() && is_late
        };
        let late: Vec<usize> = (0..self.purchases.len()).filter(is_over).collect();
        for &index in &late {
            self.answers[index] = Some(Ok(UNWRITTEN));
        }
        self.tell_of(late);
    }

    /// The earliest deadline of an undecided order.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let orders = self.deadlines.iter().zip(&self.answers);
        orders.filter(|(_, answer)| answer.is_none()).filter_map(|(deadline, _)| *deadline).min()
    }

    /// Tells all answers that are not told yet.
    pub(super) fn tell_decided(&mut self) {
        let is_new = |index: &usize| self.answers[*index].is_some() && !self.is_told[*index];
        let decided = (0..self.purchases.len()).filter(is_new).collect();
        self.tell_of(decided);
    }

    /// The orders that are undecided; the first one has the earliest deadline.
    pub(super) fn undecided(&self) -> Vec<(usize, Option<Instant>)> {
        let is_undecided = |(index, _): &(usize, Option<Instant>)| self.answers[*index].is_none();
        let orders = self.deadlines.iter().copied().enumerate();
        let mut undecided: Vec<_> = orders.filter(is_undecided).collect();
        undecided.sort_by_key(|(_, deadline)| (deadline.is_none(), *deadline));
        undecided
    }

    fn tell_of(&mut self, decided: Vec<usize>) {
        if decided.is_empty() {
            return;
        }
        let told = decided.into_iter().filter_map(|index| {
            self.is_told[index] = true;
            // What is left says that the order is decided, and is read no more.
            let answer = self.answers[index].replace(Ok(UNWRITTEN))?;
            protocol!("told", [&self.purchases[index]], answer = protocol::kind(&answer));
            self.arbiter.count_refusal(&self.purchases[index], &answer);
            Some((index, answer))
        });
        let told = told.collect();
        (self.tell)(told);
    }
}

/// The places of the lines of the order that the purchase at `index` is a line of.
pub(super) fn lines_at(purchases: &[Purchase], index: usize) -> Range<usize> {
    match purchases[index].line_count {
        None => index..index + 1,
        Some(count) => {
            let first = index - usize::from(purchases[index].order_id.line_number());
            first..first + usize::from(count)
        }
    }
}

/// The places of all orders, each with its lines.
pub(super) fn orders_of(purchases: &[Purchase]) -> impl Iterator<Item = Range<usize>> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let lines = (next < purchases.len()).then(|| lines_at(purchases, next))?;
        next = lines.end;
        Some(lines)
    })
}

/// Puts the answers of the lines together, so that each order has one: that of its first line, with the
/// further lines if it is sold. The lines of an order are answered together.
pub(super) fn of_whole_orders(
    purchases: &[Purchase],
    answers: Vec<(usize, Answer)>,
) -> Vec<(usize, Answer)> {
    if purchases.iter().all(|one| one.line_count.is_none()) {
        return answers;
    }
    let mut whole: Vec<(usize, Answer)> = Vec::with_capacity(answers.len());
    for (index, answer) in answers {
        if lines_at(purchases, index).start == index {
            whole.push((index, answer));
        } else if let Some((_, Ok(Outcome::Sold(order)))) = whole.last_mut()
            && let Ok(Outcome::Sold(line)) = answer
            // Not the whole order again, which an earlier try has written.
            && usize::from(line.id.line_number()) == order.further.len() + 1
        {
            order.further.push(line);
        }
    }
    whole
}

/// Cuts a batch into pieces whose lengths are powers of two, largest first: a handful of statement
/// shapes, so that each is prepared once and used for ever.
pub(super) fn powers_of_two<T>(mut rest: &[T]) -> impl Iterator<Item = &[T]> {
    std::iter::from_fn(move || {
        let length = 1 << rest.len().checked_ilog2()?;
        let (piece, tail) = rest.split_at(length);
        rest = tail;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::write::tests::{arbiter, item, purchase};

    #[tokio::test]
    async fn a_batch_waits_until_the_first_deadline_of_an_undecided_order() {
        let now = Instant::now();
        let after = |seconds: u64| Some(now + Duration::from_secs(seconds));
        let purchases = [1, 2, 3].map(|buyer| purchase(&item(1), buyer, 1));
        let deadlines = [after(60), after(30), None];
        let orders = BatchOrders { purchases: &purchases, deadlines: &deadlines };
        let arbiter = arbiter();
        let mut tell = |_: Vec<(usize, Answer)>| {};
        let mut batch = Batch::new(&arbiter, orders, None, &mut tell);
        for (first, deadline) in [(1, after(30)), (0, after(60)), (2, None)] {
            assert_eq!(batch.deadline(), deadline);
            assert_eq!(batch.undecided().first(), Some(&(first, deadline)));
            batch.sold(&[first]);
        }
    }

    #[test]
    fn pieces_are_powers_of_two_and_miss_nothing() {
        for length in 0..600 {
            let all: Vec<usize> = (0..length).collect();
            let pieces: Vec<&[usize]> = powers_of_two(&all).collect();
            assert!(pieces.iter().all(|piece| piece.len().is_power_of_two()));
            assert_eq!(pieces.concat(), all);
        }
    }
}
