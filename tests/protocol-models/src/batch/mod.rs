//! Model of the batches of orders of many items, written by two instances into one ledger. It describes
//! `crates/ledger/src/write/group_commit`.
//!
//! A transaction takes its rows one by one, in one order: keys of the orders, limits of the buyers, then the
//! stock rows; a batch enters the stock stage of its instance before its first stock row. A row that
//! another transaction holds makes it wait. The answer to a COMMIT may be lost, and its transaction lives on in
//! the ledger until it is committed or rolled back.
//!
//! Two items with few units. Item 0 has several buyers for one unit: the poison. Item 1 has two units, and a second
//! order of the first buyer, who may have one. Some orders have a line of each item: all are written, or none.
//!
//! Assumes: a lock is kept until its transaction ends; a condition of a statement sees the rows as they
//! were committed last; an instance does not die (the fault matrix kills them).

#[cfg(feature = "checker")]
mod checked;
mod properties;
pub mod replay;
mod steps;
mod waits;

/// Instances.
const INSTANCES: usize = 2;
/// Items, and units of each.
const STOCK: [u8; 2] = [1, 2];
/// Tries of a batch.
const TRIES_MAX: u8 = 2;
/// Faults of each kind on one path.
const FAULTS: u8 = 1;
/// The lines of all orders: those of one order stand behind each other, sorted by item.
const LINES: [Line; 7] = [
    Line { order: 0, item: 0, buyer: 0, instance: 0 },
    Line { order: 1, item: 1, buyer: 0, instance: 0 },
    Line { order: 2, item: 0, buyer: 2, instance: 0 },
    Line { order: 2, item: 1, buyer: 2, instance: 0 },
    Line { order: 3, item: 1, buyer: 0, instance: 1 },
    Line { order: 4, item: 0, buyer: 1, instance: 1 },
    Line { order: 4, item: 1, buyer: 1, instance: 1 },
];

/// A planted mistake, or none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake {
    /// The second instance takes the stock rows before the limits.
    StockBeforeLimits,
    /// The second instance takes the stock rows in another order.
    StockInAnotherOrder,
    /// COMMIT follows although fewer stock rows were changed than the batch has items.
    AffectedRowsIgnored,
    /// An order that is refused has its whole batch refused.
    WholeBatchRefused,
    /// A lost COMMIT is recovered by a read that does not wait.
    RecoverWithoutWaiting,
    /// The orders of a lost COMMIT are written again, under new keys, without a look at the ledger.
    AgainWithoutKey,
    /// A batch is answered before its COMMIT.
    AnswerBeforeCommit,
    /// The look before a second try chooses lines and not orders, so that it drops the line that does not fit.
    LineDroppedAtRetry,
    /// The lines of an order go to the queues of their items after a batch was refused, each into a transaction of its
    /// own.
    LinesApart,
    /// An order that is written by itself waits for a stock row while it holds another one.
    WaitsWithRowsInHand,
}

/// The model.
#[derive(Clone, Debug)]
pub struct Batch {
    mistake: Option<Mistake>,
    /// The number of an order that is left out.
    missing: Option<u8>,
}

/// The model with all orders.
#[must_use]
pub fn five_orders(mistake: Option<Mistake>) -> Batch {
    Batch { mistake, missing: None }
}

/// The model without the second order of the first buyer for item 1: a tenth of the states, and no limit is reached.
#[must_use]
pub fn four_orders() -> Batch {
    Batch { mistake: None, missing: Some(3) }
}

/// A line of an order; most orders have one. The number of the order is its key as well.
#[derive(Clone, Copy, Debug)]
struct Line {
    order: u8,
    item: u8,
    buyer: u8,
    instance: usize,
}

/// A row, in the order in which transactions lock rows.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum RowLock {
    Key { item: u8, order: u8 },
    Limit { item: u8, buyer: u8 },
    Stock(u8),
}

/// The answer to a buyer.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Answer {
    Sold,
    /// 409: sold out, or the limit is reached.
    Refused,
    /// 503: not written.
    Unavailable,
}

/// Where a line is.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq)]
enum Place {
    /// In the shared queue of its instance.
    Shared,
    /// In the queue of its item: the item is suspect.
    Own,
    /// To be written by itself, with the other lines of its order.
    Single,
    Written,
    Answered(Answer),
}

/// Which queue cut a transaction's orders.
#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    Shared,
    Own,
    Single,
}

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    /// Waits for the rows' stage; looks at the ledger first if it objected before.
    Enters,
    /// Has locked this number of its rows.
    Locks(usize),
    /// COMMIT was sent.
    Commits,
    /// COMMIT was not answered; its rows are locked until it is decided.
    Unanswered,
    /// Decided in the ledger; the writer has not looked yet.
    Decided,
}

/// A transaction and its writer.
#[derive(Clone, Debug, Hash, PartialEq, Eq, PartialOrd, Ord)]
struct Transaction {
    instance: usize,
    kind: Kind,
    /// Its lines by their places.
    lines: Vec<usize>,
    /// Lines of the batch that were passed over.
    passed_over: Vec<usize>,
    tries: u8,
    objected: bool,
    step: Step,
    /// Whether it is in a stage of the shared pipeline.
    in_rows: bool,
    in_stock: bool,
    is_overtaken: bool,
    /// The item whose stock row it found held: it gave all rows back, and locks this stock row first.
    awaited: Option<u8>,
    /// Whether the writer has gone on without the ledger's decision.
    is_abandoned: bool,
}

/// A state of everything.
#[derive(Clone, Debug, Hash, PartialEq, Eq)]
pub struct State {
    places: [Place; LINES.len()],
    /// How often a line is in the ledger.
    rows: [u8; LINES.len()],
    stock: [i8; STOCK.len()],
    transactions: Vec<Transaction>,
    suspects: [[bool; STOCK.len()]; INSTANCES],
    /// Lines that are tried again without their key.
    keyless: [bool; LINES.len()],
    /// Answers that were lost, and times that were over.
    faults: [u8; 2],
}

/// One step. The last two are faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `queue.rs`, `fair_queue.rs`: the next batch of an instance, with this number of orders.
    Cut(usize, usize),
    /// A batch of one suspect item.
    CutOwn(usize, u8),
    /// `write/mod.rs`, and `write_alone` for several lines: an order by itself, named by its first line.
    WriteSingly(usize),
    /// `batch.rs`, `pre_check.rs`: a batch enters its stage; after an objection it looks first.
    Enter(usize),
    /// `sql.rs`: the next row, and after the last one COMMIT.
    Advance(usize),
    /// `pipeline.rs`: a batch that waits for a row lets the batches behind it pass.
    Overtake(usize),
    /// The ledger commits and answers.
    Commit(usize),
    /// The ledger decides a COMMIT whose answer was lost.
    Decide(usize, bool),
    /// `batch.rs`, `recover_lost_commit`: one statement for all orders, which waits for their rows.
    Recover(usize),
    /// The answer to COMMIT is lost.
    LoseAnswer(usize),
    /// An order's time is over before a batch of its item begins.
    TimeOver(usize),
}

/// The stock row of no item goes below 0, and each order in the ledger has taken its unit.
pub const STOCK_HOLDS: &str = "stock never below 0, and each order has its unit";
/// What was acknowledged is in the ledger.
pub const ACKNOWLEDGED_EXISTS: &str = "an acknowledged order exists";
/// What was refused, or answered 503, is not in the ledger.
pub const REFUSED_IS_NOT_THERE: &str = "a refused order is not in the ledger";
/// No order is in the ledger twice, and no buyer has more than one unit.
pub const ONCE: &str = "no order twice, no buyer over the limit";
/// No circle of transactions that wait for each other.
pub const NO_DEADLOCK: &str = "no deadlock";
/// Of each order all lines are in the ledger, or none.
pub const WHOLE: &str = "an order is whole or absent";
/// An order that is written by itself holds no stock row while it waits for another one.
pub const WAITS_ALONE: &str = "who waits for one item holds nothing of another";
/// Every path ends with an answer to every order.
pub const ALL_ANSWERED: &str = "every order is answered";
/// Whoever is refused wanted an item that is sold out, or has reached a limit.
pub const NO_GOOD_ORDER_LOST: &str = "a refused order costs no good one";

impl Batch {
    /// The state in which all orders wait.
    fn first_state(&self) -> State {
        let places = LINES.map(|line| match self.missing {
            // As if its time had been over at once.
            Some(missing) if missing == line.order => Place::Answered(Answer::Unavailable),
            _ => Place::Shared,
        });
        State {
            places,
            rows: [0; LINES.len()],
            stock: STOCK.map(u8::cast_signed),
            transactions: Vec::new(),
            suspects: [[false; STOCK.len()]; INSTANCES],
            keyless: [false; LINES.len()],
            faults: [0; 2],
        }
    }
}

/// The places of the lines of the order that a line is of.
fn lines_of(line: usize) -> impl Iterator<Item = usize> {
    (0..LINES.len()).filter(move |other| LINES[*other].order == LINES[line].order)
}
