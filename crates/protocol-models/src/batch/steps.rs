//! The steps of the batches' model, and what its properties ask of a state.

use super::waits::rows_of;
use super::{
    Action, Answer, FAULTS, Kind, Mistake, ORDERS, Order, Place, RowLock, STOCK, State, Step,
    TRIES_MAX, Transaction,
};

/// Batches of an instance that are overtaken at once.
const OVERTAKEN_MAX: usize = 1;

impl State {
    /// Takes the step, if it is possible now.
    pub(super) fn step(&mut self, mistake: Option<Mistake>, action: Action) -> bool {
        let fault = match action {
            Action::LoseAnswer(_) => Some(0),
            Action::TimeOver(_) => Some(1),
            _ => None,
        };
        if let Some(kind) = fault {
            if self.faults[kind] == FAULTS {
                return false;
            }
            self.faults[kind] += 1;
        }
        match action {
            Action::Cut(instance, size) => self.cut(instance, size),
            Action::CutOwn(instance, item) => self.cut_own(instance, item),
            Action::WriteSingly(order) => {
                let is_possible = self.places[order] == Place::Single;
                is_possible && self.begin(ORDERS[order].instance, Kind::Single, vec![order])
            }
            Action::Enter(one) => self.enter(one),
            Action::Advance(one) => self.advance(mistake, one),
            Action::Overtake(one) => self.overtake(mistake, one),
            Action::Commit(one) => {
                let is_possible = self.transactions[one].step == Step::Commits;
                is_possible && {
                    self.write_rows(one);
                    self.committed(one)
                }
            }
            Action::LoseAnswer(one) => self.lose_answer(mistake, one),
            Action::Decide(one, is_committed) => self.decide(one, is_committed),
            Action::Recover(one) => self.recover(mistake, one),
            Action::TimeOver(order) => {
                let waits = self.places[order] == Place::Own;
                self.places[order] = Place::Answered(Answer::Unavailable);
                waits
            }
        }
    }

    /// Orders of suspect items stay apart.
    fn cut(&mut self, instance: usize, size: usize) -> bool {
        let is_next = |order: &usize| {
            ORDERS[*order].instance == instance
                && self.places[*order] == Place::Shared
                && !self.is_suspect(*order)
        };
        let waiting: Vec<usize> = (0..ORDERS.len()).filter(is_next).take(size).collect();
        // The batch takes the slot first, and whatever has come by then is in it.
        waiting.len() == size
            && !self.transactions.iter().any(|one| one.instance == instance && one.in_rows)
            && self.begin(instance, Kind::Shared, waiting)
    }

    fn cut_own(&mut self, instance: usize, item: u8) -> bool {
        let is_own = |order: &usize| {
            let place = self.places[*order];
            let is_apart =
                place == Place::Own || (place == Place::Shared && self.is_suspect(*order));
            ORDERS[*order].instance == instance && ORDERS[*order].item == item && is_apart
        };
        let waiting: Vec<usize> = (0..ORDERS.len()).filter(is_own).collect();
        let is_busy = self.transactions.iter().any(|one| {
            let is_of_item = one.orders.first().is_some_and(|&order| ORDERS[order].item == item);
            one.instance == instance && one.kind == Kind::Own && !one.is_abandoned && is_of_item
        });
        !waiting.is_empty() && !is_busy && self.begin(instance, Kind::Own, waiting)
    }

    fn begin(&mut self, instance: usize, kind: Kind, orders: Vec<usize>) -> bool {
        for &order in &orders {
            self.places[order] = Place::Written;
        }
        self.transactions.push(Transaction {
            instance,
            kind,
            orders,
            passed_over: Vec::new(),
            tries: 0,
            objected: false,
            step: Step::Locks(0),
            in_rows: kind == Kind::Shared,
            in_stock: false,
            is_overtaken: false,
            is_abandoned: false,
        });
        true
    }

    /// Enters again after an objection, alone in the pipeline, and looks first.
    fn enter(&mut self, one: usize) -> bool {
        let is_shared = self.transactions[one].kind == Kind::Shared;
        if self.transactions[one].step != Step::Enters || self.waits_for(None, one).is_some() {
            return false;
        }
        (self.transactions[one].in_rows, self.transactions[one].in_stock) = (is_shared, is_shared);
        let candidates = std::mem::take(&mut self.transactions[one].orders);
        let (mut chosen, mut passed_over) = (Vec::new(), Vec::new());
        for order in candidates {
            let Order { item, buyer, .. } = ORDERS[order];
            let of = |orders: &[usize], is_same: fn(&Order, &Order) -> bool| {
                orders.iter().filter(|&&other| is_same(&ORDERS[other], &ORDERS[order])).count()
            };
            let left = usize::try_from(self.stock[usize::from(item)]).unwrap_or_default();
            if self.has_key_of(order) {
                self.places[order] = Place::Answered(Answer::Sold);
            } else if self.bought(item, buyer) > 0 || left == 0 {
                self.places[order] = Place::Answered(Answer::Refused);
                self.suspect(self.transactions[one].instance, item);
            } else if of(&chosen, |a, b| (a.item, a.buyer) == (b.item, b.buyer)) == 0
                && of(&chosen, |a, b| a.item == b.item) < left
            {
                chosen.push(order);
            } else {
                passed_over.push(order);
            }
        }
        let is_over = chosen.is_empty();
        (self.transactions[one].orders, self.transactions[one].passed_over) = (chosen, passed_over);
        if is_over {
            self.leave_over(one);
        } else {
            self.transactions[one].step = Step::Locks(0);
        }
        true
    }

    fn advance(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &self.transactions[one];
        let Step::Locks(locked) = transaction.step else { return false };
        let rows = rows_of(mistake, transaction, &self.keyless);
        let Some(&row) = rows.get(locked) else {
            self.transactions[one].step = Step::Commits;
            if mistake == Some(Mistake::AnswerBeforeCommit) {
                self.answer(one, Answer::Sold);
            }
            return true;
        };
        if self.waits_for(mistake, one).is_some() {
            return false;
        }
        let transaction = &mut self.transactions[one];
        if transaction.needs_stage(row) {
            transaction.in_stock = true;
            transaction.in_rows = false;
            return true;
        }
        let refused = self.objects(mistake, one, row);
        match refused {
            None => self.transactions[one].step = Step::Locks(locked + 1),
            Some(answer) => self.roll_back(mistake, one, answer),
        }
        true
    }

    /// Whether a row refuses the transaction, and the answer to an order that is alone in it.
    fn objects(&self, mistake: Option<Mistake>, one: usize, row: RowLock) -> Option<Answer> {
        let orders = &self.transactions[one].orders;
        let is_sold = |key| (0..ORDERS.len()).any(|o| ORDERS[o].key == key && self.rows[o] > 0);
        let of_buyer = |&&order: &&usize, item, buyer| {
            (ORDERS[order].item, ORDERS[order].buyer) == (item, buyer)
        };
        let (refused, answer) = match row {
            RowLock::Key(key) => (is_sold(key), Answer::Sold),
            RowLock::Limit { item, buyer } => {
                let own = orders.iter().filter(|order| of_buyer(order, item, buyer)).count();
                (self.bought(item, buyer) + own > 1, Answer::Refused)
            }
            RowLock::Stock(item) => {
                let is_few = self.stock[usize::from(item)] < units(orders, item);
                (is_few && mistake != Some(Mistake::AffectedRowsIgnored), Answer::Refused)
            }
        };
        refused.then_some(answer)
    }

    /// Rolled back: two tries, then the orders go apart.
    fn roll_back(&mut self, mistake: Option<Mistake>, one: usize, answer: Answer) {
        let transaction = &mut self.transactions[one];
        let is_whole_refused = mistake == Some(Mistake::WholeBatchRefused);
        if transaction.kind == Kind::Single || is_whole_refused {
            self.answer(one, answer);
            self.transactions.remove(one);
            return;
        }
        let passed_over = std::mem::take(&mut transaction.passed_over);
        transaction.orders.extend(passed_over);
        transaction.orders.sort_unstable();
        transaction.tries += 1;
        transaction.objected = true;
        (transaction.in_rows, transaction.in_stock) = (false, false);
        transaction.step = Step::Enters;
        if transaction.tries == TRIES_MAX || transaction.is_overtaken {
            self.leave_over(one);
        }
    }

    /// Ends a transaction whose orders are undecided: each goes to its item's queue, then by itself.
    fn leave_over(&mut self, one: usize) {
        let ended = self.transactions.remove(one);
        for &order in ended.orders.iter().chain(&ended.passed_over) {
            self.leave_one(ended.kind, order);
        }
    }

    fn leave_one(&mut self, kind: Kind, order: usize) {
        self.places[order] = if kind == Kind::Shared { Place::Own } else { Place::Single };
        if kind == Kind::Shared {
            self.suspect(ORDERS[order].instance, ORDERS[order].item);
        }
    }

    fn overtake(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &self.transactions[one];
        let instance = transaction.instance;
        let is_same = |other: &&Transaction| other.instance == instance && other.is_overtaken;
        let Some(holder) = self.waits_for(mistake, one) else { return false };
        let is_in_stage = transaction.in_rows || transaction.in_stock;
        let waits_for_row =
            matches!(transaction.step, Step::Locks(_)) && self.holds_next(mistake, holder, one);
        if !is_in_stage
            || !waits_for_row
            || self.transactions.iter().filter(is_same).count() == OVERTAKEN_MAX
        {
            return false;
        }
        for order in transaction.orders.clone() {
            self.suspect(instance, ORDERS[order].item);
        }
        let transaction = &mut self.transactions[one];
        (transaction.in_rows, transaction.in_stock) = (false, false);
        transaction.is_overtaken = true;
        true
    }

    fn write_rows(&mut self, one: usize) {
        let orders = self.transactions[one].orders.clone();
        for item in [0, 1] {
            let units = units(&orders, item);
            let left = &mut self.stock[usize::from(item)];
            // The condition of the statement: a row with too few is not changed.
            *left -= if *left >= units { units } else { 0 };
        }
        orders.into_iter().for_each(|order| self.rows[order] += 1);
    }

    /// COMMIT was answered; orders that were passed over are decided next.
    fn committed(&mut self, one: usize) -> bool {
        self.answer(one, Answer::Sold);
        let transaction = &mut self.transactions[one];
        transaction.orders = std::mem::take(&mut transaction.passed_over);
        if transaction.kind == Kind::Own && !transaction.orders.is_empty() {
            transaction.objected = true;
            transaction.step = Step::Enters;
        } else {
            self.leave_over(one);
        }
        true
    }

    fn lose_answer(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &mut self.transactions[one];
        if transaction.step != Step::Commits {
            return false;
        }
        transaction.step = Step::Unanswered;
        (transaction.in_rows, transaction.in_stock) = (false, false);
        if mistake == Some(Mistake::AgainWithoutKey) {
            transaction.is_abandoned = true;
            let left = (transaction.kind, transaction.orders.clone());
            for order in left.1 {
                self.keyless[order] = true;
                self.leave_one(left.0, order);
            }
        }
        true
    }

    fn decide(&mut self, one: usize, is_committed: bool) -> bool {
        if self.transactions[one].step != Step::Unanswered {
            return false;
        }
        if is_committed {
            self.write_rows(one);
        }
        self.transactions[one].step = Step::Decided;
        if self.transactions[one].is_abandoned {
            self.transactions.remove(one);
        }
        true
    }

    fn recover(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &mut self.transactions[one];
        let waits = mistake != Some(Mistake::RecoverWithoutWaiting);
        match transaction.step {
            Step::Decided => {}
            Step::Unanswered if !waits && !transaction.is_abandoned => {}
            _ => return false,
        }
        transaction.is_abandoned = true;
        let (kind, orders) = (transaction.kind, transaction.orders.clone());
        let passed_over = std::mem::take(&mut transaction.passed_over);
        if transaction.step == Step::Decided {
            self.transactions.remove(one);
        }
        for order in orders.into_iter().chain(passed_over) {
            if self.rows[order] > 0 {
                self.places[order] = Place::Answered(Answer::Sold);
            } else {
                self.leave_one(kind, order);
            }
        }
        true
    }

    fn answer(&mut self, one: usize, answer: Answer) {
        for order in self.transactions[one].orders.clone() {
            self.places[order] = Place::Answered(answer);
        }
    }

    pub(super) fn answered(&self, is: fn(Answer) -> bool) -> impl Iterator<Item = usize> {
        let places = self.places.iter().enumerate();
        places.filter_map(move |(order, place)| match place {
            Place::Answered(answer) if is(*answer) => Some(order),
            _ => None,
        })
    }

    pub(super) fn has_key_of(&self, order: usize) -> bool {
        let same = |other: usize| ORDERS[other].key == ORDERS[order].key && self.rows[other] > 0;
        (0..ORDERS.len()).any(same)
    }

    pub(super) fn stock_holds(&self) -> bool {
        [0, 1].into_iter().all(|item| {
            let left = self.stock[usize::from(item)];
            let of_item = |order: &usize| ORDERS[*order].item == item;
            let sold: u8 = (0..ORDERS.len()).filter(of_item).map(|order| self.rows[order]).sum();
            left >= 0 && left.cast_unsigned() + sold == STOCK[usize::from(item)]
        })
    }

    pub(super) fn each_once(&self) -> bool {
        (0..ORDERS.len()).all(|order| {
            let Order { item, buyer, key, .. } = ORDERS[order];
            let of_key = |other: &usize| ORDERS[*other].key == key;
            let rows: u8 = (0..ORDERS.len()).filter(of_key).map(|other| self.rows[other]).sum();
            rows <= 1 && self.bought(item, buyer) <= 1
        })
    }

    pub(super) fn sells_all(&self) -> bool {
        let is_open =
            |place: &Place| !matches!(place, Place::Answered(Answer::Sold | Answer::Refused));
        self.places.iter().any(is_open) || self.stock.iter().all(|left| *left <= 0)
    }

    fn bought(&self, item: u8, buyer: u8) -> usize {
        let is_same = |order: &usize| (ORDERS[*order].item, ORDERS[*order].buyer) == (item, buyer);
        (0..ORDERS.len()).filter(is_same).map(|order| usize::from(self.rows[order])).sum()
    }

    fn is_suspect(&self, order: usize) -> bool {
        let Order { item, instance, .. } = ORDERS[order];
        self.suspects[instance][usize::from(item)]
    }

    fn suspect(&mut self, instance: usize, item: u8) {
        self.suspects[instance][usize::from(item)] = true;
    }
}

fn units(orders: &[usize], item: u8) -> i8 {
    let count = orders.iter().filter(|&&order| ORDERS[order].item == item).count();
    i8::try_from(count).unwrap_or(i8::MAX)
}
