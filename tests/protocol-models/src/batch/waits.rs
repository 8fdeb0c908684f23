//! The rows that a transaction locks, and the transaction that it waits for.

use smallvec::SmallVec;

use super::{Kind, LINES, Line, Mistake, RowLock, State, Step, Transaction};

impl State {
    /// The transaction that this one waits for.
    pub(super) fn waits_for(&self, mistake: Option<Mistake>, one: usize) -> Option<usize> {
        let me = &self.transactions[one];
        let others = || (0..self.transactions.len()).filter(|other| *other != one);
        let in_stage = |is_in: fn(&Transaction) -> bool| {
            let mut same =
                others().filter(|other| self.transactions[*other].instance == me.instance);
            same.find(|other| is_in(&self.transactions[*other]))
        };
        match me.step {
            Step::Enters if me.kind == Kind::Shared => in_stage(|one| one.in_rows || one.in_stock),
            Step::Locks(locked) => {
                let row = *rows_of(mistake, me, &self.keyless).get(locked)?;
                if me.needs_stage(row) {
                    return in_stage(|one| one.in_stock);
                }
                let waits = mistake == Some(Mistake::WaitsWithRowsInHand)
                    || !self.has_stock_in_hand(mistake, one);
                self.holder(mistake, one).filter(|_| waits)
            }
            _ => None,
        }
    }

    /// The transaction that holds the row which this one needs next.
    pub(super) fn holder(&self, mistake: Option<Mistake>, one: usize) -> Option<usize> {
        let mut others = (0..self.transactions.len()).filter(|other| *other != one);
        others.find(|other| self.holds_next(mistake, *other, one))
    }

    /// Whether an order that is written by itself has locked a stock row, and needs another one.
    pub(super) fn has_stock_in_hand(&self, mistake: Option<Mistake>, one: usize) -> bool {
        let me = &self.transactions[one];
        let Step::Locks(locked) = me.step else { return false };
        let rows = rows_of(mistake, me, &self.keyless);
        let is_stock = |row: Option<&RowLock>| matches!(row, Some(RowLock::Stock(_)));
        let has_one = locked.checked_sub(1).is_some_and(|last| is_stock(rows.get(last)));
        me.kind == Kind::Single && has_one && is_stock(rows.get(locked))
    }

    /// Whether `holder` holds the row that `one` needs next.
    pub(super) fn holds_next(&self, mistake: Option<Mistake>, holder: usize, one: usize) -> bool {
        let Step::Locks(locked) = self.transactions[one].step else { return false };
        let holder = &self.transactions[holder];
        let held = rows_of(mistake, holder, &self.keyless);
        let count = match holder.step {
            Step::Locks(count) => count,
            Step::Commits | Step::Unanswered => held.len(),
            Step::Enters | Step::Decided => 0,
        };
        let rows = rows_of(mistake, &self.transactions[one], &self.keyless);
        rows.get(locked).is_some_and(|row| held[..count].contains(row))
    }

    /// Whether transactions wait for each other in a circle.
    pub(super) fn has_deadlock(&self, mistake: Option<Mistake>) -> bool {
        (0..self.transactions.len()).any(|first| {
            let mut at = first;
            for _ in 0..self.transactions.len() {
                match self.waits_for(mistake, at) {
                    Some(next) => at = next,
                    None => return false,
                }
            }
            true
        })
    }
}

impl Transaction {
    /// Whether it has to enter the stock stage before it takes this row.
    pub(super) fn needs_stage(&self, row: RowLock) -> bool {
        let is_stock = matches!(row, RowLock::Stock(_));
        self.kind == Kind::Shared && is_stock && !self.in_stock && !self.is_overtaken
    }
}

/// The rows of a transaction. They are asked for in every state, so they stand on the stack.
pub(super) type Rows = SmallVec<[RowLock; 3 * LINES.len()]>;

/// The rows of a transaction in the order in which it locks them.
pub(super) fn rows_of(
    mistake: Option<Mistake>,
    transaction: &Transaction,
    keyless: &[bool; LINES.len()],
) -> Rows {
    let mut rows = Rows::new();
    for &line in &transaction.lines {
        let Line { item, buyer, order, .. } = LINES[line];
        if !keyless[line] {
            rows.push(RowLock::Key { item, order });
        }
        rows.extend([RowLock::Limit { item, buyer }, RowLock::Stock(item)]);
    }
    rows.sort_unstable();
    rows.dedup();
    let is_stock = |row: &RowLock| matches!(row, RowLock::Stock(_));
    if let Some(awaited) = transaction.awaited {
        rows.sort_by_key(|row| (is_stock(row), is_stock(row) && *row != RowLock::Stock(awaited)));
    }
    match mistake.filter(|_| transaction.instance == 1) {
        Some(Mistake::StockBeforeLimits) => rows.sort_by_key(|row| !is_stock(row)),
        Some(Mistake::StockInAnotherOrder) => {
            let first = rows.iter().position(is_stock).unwrap_or_default();
            rows[first..].reverse();
        }
        _ => {}
    }
    rows
}
