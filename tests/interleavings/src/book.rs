//! A ledger in memory, with the semantics of the model of the batches (`tests/protocol-models`): a transaction keeps
//! the locks of its rows until it ends, a condition sees what was committed last, and all changes are made at COMMIT.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use shop_domain::{ItemId, Order, OrderId, OrderStatus, Purchase, UserId};

use crate::events::log;
use crate::explore::reach;
use crate::sql::Process;

/// A row that transactions lock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Row {
    /// The key of a request: item, buyer and key.
    Key(i64, i64, String),
    /// The units of a buyer: item and buyer.
    Limit(i64, i64),
    Stock(i64),
}

impl Row {
    /// The key of a purchase.
    pub(crate) fn key(one: &Purchase) -> Self {
        Self::Key(one.item.id.get(), one.buyer.get(), one.key.as_str().to_owned())
    }

    /// The units of its buyer.
    pub(crate) fn limit(one: &Purchase) -> Self {
        Self::Limit(one.item.id.get(), one.buyer.get())
    }
}

/// What a transaction changes at its COMMIT.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Order(Row, Order),
    Units(Row, i64),
}

/// The book.
#[derive(Debug, Default)]
pub(crate) struct Book(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    orders: BTreeMap<OrderId, Order>,
    keys: BTreeMap<Row, OrderId>,
    /// Units that buyers have, and units of stock that are taken.
    units: BTreeMap<Row, i64>,
    /// The stock at the beginning.
    stock: BTreeMap<i64, i64>,
    locks: BTreeMap<Row, usize>,
    /// The row that a transaction waits for.
    waits: BTreeMap<usize, Row>,
    /// The instances whose connections have them.
    transactions: Vec<Process>,
    rolled_back: BTreeSet<usize>,
    /// A rule that was broken. A panic would be taken for a fault of the batch.
    broken: Option<String>,
    /// Whether the ledger takes no order, as without one of its tables.
    takes_none: bool,
    /// The buyer whose orders the ledger refuses with an error.
    refused: Option<UserId>,
}

impl State {
    /// Lets go the rows of a transaction, which changes nothing from now on.
    fn roll_back(&mut self, transaction: usize) {
        self.locks.retain(|_, owner| *owner != transaction);
        self.waits.remove(&transaction);
        self.rolled_back.insert(transaction);
    }
}

impl Book {
    pub(crate) fn new(stock: impl IntoIterator<Item = (ItemId, i64)>) -> Self {
        let stock = stock.into_iter().map(|(item, units)| (item.get(), units)).collect();
        Self(Mutex::new(State { stock, ..State::default() }))
    }

    /// Begins a transaction.
    pub(crate) fn begin(&self, by: &Process) -> usize {
        let mut state = self.state();
        state.transactions.push(by.clone());
        state.transactions.len() - 1
    }

    /// Has a transaction go on without its instance.
    pub(crate) fn goes_on(&self, transaction: usize) {
        self.state().transactions[transaction] = Process::default();
    }

    /// Locks a row for a transaction, unless another one has it whose instance lives.
    pub(crate) fn try_lock(&self, transaction: usize, row: &Row) -> bool {
        let mut state = self.state();
        if let Some(&owner) = state.locks.get(row)
            && state.transactions[owner].is_dead()
        {
            // The server finds that its connection has ended.
            state.roll_back(owner);
        }
        let owner = *state.locks.entry(row.clone()).or_insert(transaction);
        if owner == transaction {
            state.waits.remove(&transaction);
        }
        owner == transaction
    }

    /// Takes note that a transaction waits for a row.
    pub(crate) fn waits(&self, transaction: usize, row: &Row) {
        let mut state = self.state();
        state.waits.insert(transaction, row.clone());
        let mut next = row;
        let mut seen = BTreeSet::new();
        while let Some(owner) = state.locks.get(next).filter(|owner| seen.insert(**owner)) {
            if *owner == transaction {
                state.broken =
                    Some(format!("a circle of transactions that wait: {:?}", state.waits));
                return;
            }
            let Some(row) = state.waits.get(owner) else { return };
            next = row;
        }
    }

    /// Units that are counted in a row, and would be with the changes of a transaction.
    pub(crate) fn units(&self, row: &Row, changes: &[Change]) -> i64 {
        let own = changes.iter().filter_map(|change| match change {
            Change::Units(of, units) if of == row => Some(*units),
            _ => None,
        });
        self.state().units.get(row).copied().unwrap_or_default() + own.sum::<i64>()
    }

    /// Units left of an item, with the changes of a transaction; `None` when there is no such item.
    pub(crate) fn available(&self, item: i64, changes: &[Change]) -> Option<i64> {
        let stock = self.state().stock.get(&item).copied()?;
        Some(stock - self.units(&Row::Stock(item), changes))
    }

    /// Whether a key or an id is taken.
    pub(crate) fn is_taken(&self, key: &Row, id: OrderId) -> bool {
        let state = self.state();
        state.keys.contains_key(key) || state.orders.contains_key(&id)
    }

    /// Ends a transaction.
    pub(crate) fn end(&self, transaction: usize, changes: Vec<Change>) {
        let mut state = self.state();
        let is_rolled_back = state.rolled_back.contains(&transaction);
        for change in changes.into_iter().filter(|_| !is_rolled_back) {
            match change {
                Change::Order(key, order) => {
                    log(&format!("ledger has {} {}", order.id, order.status.as_str()));
                    state.keys.insert(key, order.id);
                    state.orders.insert(order.id, order);
                }
                Change::Units(row, units) => *state.units.entry(row).or_default() += units,
            }
        }
        state.roll_back(transaction);
    }

    /// The order of a key.
    pub(crate) fn of_key(&self, key: &Row) -> Option<Order> {
        let state = self.state();
        state.keys.get(key).and_then(|id| state.orders.get(id)).cloned()
    }

    pub(crate) fn order(&self, id: OrderId) -> Option<Order> {
        self.state().orders.get(&id).cloned()
    }

    /// Units of an item that are sold.
    pub(crate) fn sold(&self, item: ItemId) -> i64 {
        let state = self.state();
        let of_item = state.orders.values().filter(|one| one.item_id == item);
        of_item.filter(|one| is_sold(one)).map(|one| one.quantity.signed()).sum()
    }

    /// Has the ledger take no order, or take orders again.
    pub(crate) fn take_none(&self, takes_none: bool) {
        log(if takes_none { "ledger takes none" } else { "ledger takes orders again" });
        reach("the ledger takes none", u64::from(takes_none));
        self.state().takes_none = takes_none;
    }

    /// Has the ledger refuse the orders of a buyer with an error.
    pub(crate) fn refuse(&self, buyer: UserId) {
        self.state().refused = Some(buyer);
    }

    /// Whether the ledger answers the order of a buyer with an error.
    pub(crate) fn has_error_for(&self, buyer: UserId) -> bool {
        let state = self.state();
        state.takes_none || state.refused == Some(buyer)
    }

    pub(crate) fn note_broken(&self, rule: String) {
        self.state().broken.get_or_insert(rule);
    }

    pub(crate) fn broken(&self) -> Option<String> {
        self.state().broken.clone()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether an order has taken its units.
pub(crate) fn is_sold(order: &Order) -> bool {
    order.status != OrderStatus::Rejected
}
