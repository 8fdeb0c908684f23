//! The steps of the batches' model.

use super::waits::rows_of;
use super::{
    Action, Answer, FAULTS, Kind, LINES, Line, Mistake, Place, RowLock, State, Step, TRIES_MAX,
    Transaction, lines_of,
};

/// Batches of an instance that are overtaken at once.
const OVERTAKEN_MAX: usize = 1;
/// Batches of an instance that are in the rows' stage at once.
const ROWS_MAX: usize = 2;

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
            Action::WriteSingly(line) => self.write_singly(mistake, line),
            Action::Enter(one) => self.enter(mistake, one),
            Action::Advance(one) => self.advance(mistake, one),
            Action::Overtake(one) => self.overtake(mistake, one),
            Action::Commit(one) => {
                let is_possible = self.transactions[one].step == Step::Commits;
                is_possible && {
                    self.write_rows(one);
                    self.committed(mistake, one)
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
        let is_next = |line: &usize| {
            LINES[*line].instance == instance
                && self.places[*line] == Place::Shared
                && !lines_of(*line).any(|line| self.is_suspect(line))
        };
        let waiting: Vec<usize> = (0..LINES.len()).filter(is_next).collect();
        let mut orders: Vec<u8> = waiting.iter().map(|line| LINES[*line].order).collect();
        orders.dedup();
        let Some(last) = orders.get(size - 1) else { return false };
        let waiting = waiting.into_iter().filter(|line| LINES[*line].order <= *last).collect();
        // The batch takes the slot first, and whatever has come by then is in it.
        self.may_enter_rows(instance) && self.begin(instance, Kind::Shared, waiting)
    }

    /// Whether a further batch may enter the rows' stage. One that is exclusive is in both stages.
    pub(super) fn may_enter_rows(&self, instance: usize) -> bool {
        let is_in_rows = |one: &&Transaction| one.instance == instance && one.in_rows;
        let mut in_rows = self.transactions.iter().filter(is_in_rows);
        !in_rows.clone().any(|one| one.in_stock) && in_rows.nth(ROWS_MAX - 1).is_none()
    }

    /// An order whose turn it is, or one with several lines of which one is suspect.
    fn write_singly(&mut self, mistake: Option<Mistake>, line: usize) -> bool {
        let lines: Vec<usize> = match mistake {
            Some(Mistake::LinesApart) => vec![line],
            _ => lines_of(line).collect(),
        };
        let is_apart = lines.len() > 1 && lines.iter().any(|line| self.is_suspect(*line));
        let is_next = match self.places[line] {
            Place::Single => true,
            Place::Shared => is_apart,
            _ => false,
        };
        is_next && lines[0] == line && self.begin(LINES[line].instance, Kind::Single, lines)
    }

    fn cut_own(&mut self, instance: usize, item: u8) -> bool {
        let is_own = |line: &usize| {
            let place = self.places[*line];
            let is_alone = lines_of(*line).count() == 1;
            let is_apart = place == Place::Own
                || (place == Place::Shared && is_alone && self.is_suspect(*line));
            LINES[*line].instance == instance && LINES[*line].item == item && is_apart
        };
        let waiting: Vec<usize> = (0..LINES.len()).filter(is_own).collect();
        let is_busy = self.transactions.iter().any(|one| {
            let is_of_item = one.lines.first().is_some_and(|&line| LINES[line].item == item);
            one.instance == instance && one.kind == Kind::Own && !one.is_abandoned && is_of_item
        });
        !waiting.is_empty() && !is_busy && self.begin(instance, Kind::Own, waiting)
    }

    pub(super) fn begin(&mut self, instance: usize, kind: Kind, lines: Vec<usize>) -> bool {
        for &line in &lines {
            self.places[line] = Place::Written;
        }
        self.transactions.push(Transaction {
            instance,
            kind,
            lines,
            passed_over: Vec::new(),
            tries: 0,
            objected: false,
            step: Step::Locks(0),
            in_rows: kind == Kind::Shared,
            in_stock: false,
            is_overtaken: false,
            awaited: None,
            is_abandoned: false,
        });
        true
    }

    /// Enters again after an objection, alone in the pipeline, and looks first.
    pub(super) fn enter(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let is_shared = self.transactions[one].kind == Kind::Shared;
        if self.transactions[one].step != Step::Enters || self.waits_for(None, one).is_some() {
            return false;
        }
        self.transactions[one].in_rows = is_shared;
        self.transactions[one].in_stock = is_shared;
        let candidates = std::mem::take(&mut self.transactions[one].lines);
        let mut chosen = Vec::new();
        let mut passed_over = Vec::new();
        let is_same = |a: &usize, b: &usize| {
            mistake != Some(Mistake::LineDroppedAtRetry) && LINES[*a].order == LINES[*b].order
        };
        for order in candidates.chunk_by(is_same) {
            let is_refused = |line: &&usize| {
                let Line { item, buyer, .. } = LINES[**line];
                self.bought(item, buyer) > 0 || self.stock[usize::from(item)] <= 0
            };
            if self.rows[order[0]] > 0 {
                order.iter().for_each(|line| self.places[*line] = Place::Answered(Answer::Sold));
            } else if let Some(refused) = order.iter().find(is_refused) {
                self.suspect(self.transactions[one].instance, LINES[*refused].item);
                order.iter().for_each(|line| self.places[*line] = Place::Answered(Answer::Refused));
            } else if order.iter().all(|line| self.fits(*line, &chosen)) {
                chosen.extend(order);
            } else {
                passed_over.extend(order);
            }
        }
        let is_over = chosen.is_empty();
        self.transactions[one].lines = chosen;
        self.transactions[one].passed_over = passed_over;
        if is_over {
            self.leave_over(mistake, one);
        } else {
            self.transactions[one].step = Step::Locks(0);
        }
        true
    }

    /// Whether a line fits beside those that are chosen.
    fn fits(&self, line: usize, chosen: &[usize]) -> bool {
        let Line { item, buyer, .. } = LINES[line];
        let of_buyer = |other: &usize| (LINES[*other].item, LINES[*other].buyer) == (item, buyer);
        !chosen.iter().any(of_buyer) && units(chosen, item) < self.stock[usize::from(item)]
    }

    pub(super) fn advance(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &self.transactions[one];
        let Step::Locks(locked) = transaction.step else { return false };
        let rows = rows_of(mistake, transaction, &self.keyless);
        let Some(&row) = rows.get(locked) else {
            self.transactions[one].step = Step::Commits;
            self.transactions[one].awaited = None;
            if mistake == Some(Mistake::AnswerBeforeCommit) {
                self.answer(one, Answer::Sold);
            }
            return true;
        };
        if self.waits_for(mistake, one).is_some() {
            return false;
        }
        let is_held = self.has_stock_in_hand(mistake, one) && self.holder(mistake, one).is_some();
        let transaction = &mut self.transactions[one];
        if let RowLock::Stock(item) = row
            && is_held
        {
            transaction.awaited = Some(item);
            transaction.step = Step::Locks(0);
            return true;
        }
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
    pub(super) fn objects(
        &self,
        mistake: Option<Mistake>,
        one: usize,
        row: RowLock,
    ) -> Option<Answer> {
        let lines = &self.transactions[one].lines;
        let (refused, answer) = match row {
            RowLock::Key { item, order } => {
                let is_line =
                    |line: &usize| (LINES[*line].item, LINES[*line].order) == (item, order);
                let is_sold = (0..LINES.len()).filter(is_line).any(|line| self.rows[line] > 0);
                (is_sold, Answer::Sold)
            }
            RowLock::Limit { item, buyer } => {
                let of_buyer =
                    |line: &&usize| (LINES[**line].item, LINES[**line].buyer) == (item, buyer);
                let own = lines.iter().filter(of_buyer).count();
                (self.bought(item, buyer) + own > 1, Answer::Refused)
            }
            RowLock::Stock(item) => {
                let is_few = self.stock[usize::from(item)] < units(lines, item);
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
        transaction.retreat();
        if transaction.tries == TRIES_MAX || transaction.is_overtaken {
            self.leave_over(mistake, one);
        }
    }

    /// Ends a transaction whose orders are undecided: each goes to its item's queue, then by itself. One with several
    /// lines has no item's queue.
    pub(super) fn leave_over(&mut self, mistake: Option<Mistake>, one: usize) {
        let ended = self.transactions.remove(one);
        for &line in ended.lines.iter().chain(&ended.passed_over) {
            self.leave_one(mistake, ended.kind, line);
        }
    }

    fn leave_one(&mut self, mistake: Option<Mistake>, kind: Kind, line: usize) {
        let has_queue = lines_of(line).count() == 1 || mistake == Some(Mistake::LinesApart);
        let is_shared = kind == Kind::Shared;
        self.places[line] = if is_shared && has_queue { Place::Own } else { Place::Single };
        if is_shared {
            self.suspect(LINES[line].instance, LINES[line].item);
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
        for line in transaction.lines.clone() {
            self.suspect(instance, LINES[line].item);
        }
        let transaction = &mut self.transactions[one];
        transaction.in_rows = false;
        transaction.in_stock = false;
        transaction.is_overtaken = true;
        true
    }

    fn write_rows(&mut self, one: usize) {
        let lines = self.transactions[one].lines.clone();
        for item in [0, 1] {
            let units = units(&lines, item);
            let left = &mut self.stock[usize::from(item)];
            // The condition of the statement: a row with too few is not changed.
            *left -= if *left >= units { units } else { 0 };
        }
        lines.into_iter().for_each(|line| self.rows[line] += 1);
    }

    /// COMMIT was answered; orders that were passed over are decided next.
    fn committed(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        self.answer(one, Answer::Sold);
        let transaction = &mut self.transactions[one];
        transaction.lines = std::mem::take(&mut transaction.passed_over);
        if transaction.kind == Kind::Own && !transaction.lines.is_empty() {
            transaction.objected = true;
            transaction.step = Step::Enters;
        } else {
            self.leave_over(mistake, one);
        }
        true
    }

    pub(super) fn lose_answer(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &mut self.transactions[one];
        if transaction.step != Step::Commits {
            return false;
        }
        transaction.step = Step::Unanswered;
        transaction.in_rows = false;
        transaction.in_stock = false;
        if mistake == Some(Mistake::AgainWithoutKey) {
            transaction.is_abandoned = true;
            let kind = transaction.kind;
            let lines = transaction.lines.clone();
            for line in lines {
                self.keyless[line] = true;
                self.leave_one(mistake, kind, line);
            }
        }
        true
    }

    pub(super) fn decide(&mut self, one: usize, is_committed: bool) -> bool {
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

    pub(super) fn recover(&mut self, mistake: Option<Mistake>, one: usize) -> bool {
        let transaction = &mut self.transactions[one];
        let waits = mistake != Some(Mistake::RecoverWithoutWaiting);
        match transaction.step {
            Step::Decided => {}
            Step::Unanswered if !waits && !transaction.is_abandoned => {}
            _ => return false,
        }
        transaction.is_abandoned = true;
        let kind = transaction.kind;
        let lines = transaction.lines.clone();
        let passed_over = std::mem::take(&mut transaction.passed_over);
        if transaction.step == Step::Decided {
            self.transactions.remove(one);
        }
        for line in lines.into_iter().chain(passed_over) {
            if self.rows[line] > 0 {
                self.places[line] = Place::Answered(Answer::Sold);
            } else {
                self.leave_one(mistake, kind, line);
            }
        }
        true
    }

    fn answer(&mut self, one: usize, answer: Answer) {
        for line in self.transactions[one].lines.clone() {
            self.places[line] = Place::Answered(answer);
        }
    }

    fn is_suspect(&self, line: usize) -> bool {
        let Line { item, instance, .. } = LINES[line];
        self.suspects[instance][usize::from(item)]
    }

    fn suspect(&mut self, instance: usize, item: u8) {
        self.suspects[instance][usize::from(item)] = true;
    }
}

fn units(lines: &[usize], item: u8) -> i8 {
    let count = lines.iter().filter(|&&line| LINES[line].item == item).count();
    i8::try_from(count).unwrap_or(i8::MAX)
}

impl Transaction {
    /// The transaction was rolled back, and has all its orders before it again.
    pub(super) fn retreat(&mut self) {
        let passed_over = std::mem::take(&mut self.passed_over);
        self.lines.extend(passed_over);
        self.lines.sort_unstable();
        self.tries += 1;
        self.objected = true;
        self.in_rows = false;
        self.in_stock = false;
        self.step = Step::Enters;
    }
}
