//! Checks a finished sale from outside: was anything oversold, lost, sold twice, or left unsold?
//!
//! The audit compares two independent records of one item's sale:
//!
//! * the **ledger**: what the database holds at the end, read with SQL of this crate's own
//!   ([`Reader`]);
//! * the **record of answers**: every single HTTP answer that a buyer received, written down by
//!   the client that sent the purchases ([`Answer`]).
//!
//! Neither is trusted alone. A ledger by itself may balance although an order that a buyer was
//! promised is missing; answers by themselves do not show what was written. [`judge`] matches the
//! two one by one, by order id, buyer and idempotency key, and so each order with its movements of
//! stock. Totals alone never decide: one lost and one invented order would cancel out.
//!
//! # What it proves
//!
//! | | invariant | from |
//! |---|---|---|
//! | I1 | total = available + offered + sold + held, and nothing below zero | ledger |
//! | I2 | no buyer has more than the limit | ledger |
//! | I3 | the stock movements add up to available + offered - total | ledger |
//! | I4 | no order without its movement, no movement without an order | ledger |
//! | I5 | each cancelled or expired order gave its units back once | ledger |
//! | I6 | the fencing tokens of accepted writes never fall | ledger |
//! | I7 | the counters in Redis equal the ledger | not judged: this crate reads no Redis |
//! | I8 | every accepted answer is in the ledger, as it was answered | both |
//! | I9 | every new order in the ledger was asked for | both |
//! | I10 | one idempotency key made at most one order | both |
//! | I11 | a definite refusal left no order behind | both |
//! | I12 | when demand exceeded the stock, everything was sold | both |
//! | I13 | each offered unit is one open offer to a buyer who waited, each accepted offer one order, and no buyer in the line was overtaken | ledger |
//! | I14 | no buyer has more of a group of items than the limit that they share | ledger |
//! | I16 | each "sold out" had a moment at which fewer units were left than were asked for | both, in time |
//! | I17 | an order never goes back: once seen paid, it is never seen pending | answers, in time |
//! | I18 | a buyer's list never loses an order that an earlier list or an answer showed | answers, in time |
//! | I19 | a replay never names another order | answers, in time |
//! | I20 | an order of several items is whole or absent | ledger |
//! | I21 | the places of a draw are the published shuffle, the line is in their order, and nobody buys past them | ledger |
//! | I22 | each order costs what its units cost | ledger |
//!
//! I16 to I19 are judged where the caller says how old a "sold out" may be ([`InTime`]). They use one
//! clock, the client's; what readers saw beside the load makes them sharper ([`History`]).
//!
//! Three decisions carry the proof:
//!
//! * **The stock is an input** ([`Evidence::stock`]), never computed from the units that are left:
//!   a lost update makes a computed stock agree with itself.
//! * **An unknown outcome is not a failure.** A time-out or a broken connection may have bought
//!   something or not ([`Outcome::Unknown`]). The ledger tells which, and one unknown purchase
//!   explains at most one order.
//! * **Nothing read is nothing proved.** A missing item, an empty record, or a run in which nobody
//!   was answered is an error ([`CannotJudge`]), not a clean audit.
//!
//! # Independence
//!
//! The service under test has an audit of its own (`seckill audit` and the admin's route), with I1
//! to I7. This crate shares no rule and no SQL with it, on purpose: an audit is worth something
//! only where it can disagree. The two also read different evidence. The service counts violations
//! inside the database, movement by movement, and reads its counters in Redis, its counts per buyer
//! and its table of fences; this crate reads plain rows of the four tables that outside tools may
//! rely on (see [`Reader`]), and judges in Rust.
//!
//! # Use
//!
//! ```
//! use ledger_audit::{Answer, Evidence, Ledger, Movement, Order, Outcome, Stock, judge};
//!
//! // One unit was on sale. Buyer 7 was told that the order "a" was made.
//! let answer = Answer {
//!     buyer: 7,
//!     key: Some("k1".to_owned()),
//!     status: 201,
//!     code: "sold".to_owned(),
//!     outcome: Outcome::Accepted,
//!     order_id: Some("a".to_owned()),
//!     order_quantity: Some(1),
//!     last: true,
//!     ..Answer::default()
//! };
//! let order = Order {
//!     id: "a".to_owned(),
//!     buyer: 7,
//!     quantity: 1,
//!     status: "pending".to_owned(),
//!     key: Some("k1".to_owned()),
//!     fence: None,
//! };
//! let sold = Movement { order: "a".to_owned(), reason: "sold".to_owned(), units: -1 };
//! let stock = Some(Stock { total: 1, available: 0 });
//! let orders = vec![order];
//! let movements = vec![sold];
//! let after = Ledger { item_exists: true, stock, orders, movements, ..Ledger::default() };
//! let answers = [answer];
//! let mut evidence = Evidence::of(1, &after, &answers);
//! assert!(judge(&evidence)?.is_clean());
//!
//! // The database forgets the order: I8 names it.
//! let forgotten = Ledger { orders: Vec::new(), ..after.clone() };
//! evidence.after = &forgotten;
//! assert!(judge(&evidence)?.broken().contains(&"I8"));
//! # Ok::<(), ledger_audit::CannotJudge>(())
//! ```
//!
//! Against a real database, [`Reader::ledger`] gives the ledger before the traffic and
//! [`Reader::settled_ledger`] the one after it.

mod audit;
mod declared;
mod evidence;
mod failure;
mod history;
mod ledger;
mod read;
mod record;
mod report;
mod rules;
#[cfg(test)]
mod tests;

pub use audit::{judge, judge_draw};
pub use declared::{Breaks, Expectation};
pub use evidence::{Evidence, InTime};
pub use failure::{CannotJudge, OrCannotJudge};
pub use history::{History, MISSING, SeenList, SeenOrder, SentRestock};
pub use ledger::{
    Draw, Fence, Group, Ledger, Line, Mispriced, Movement, Order, OrderLine, Place, Restock, Stock,
};
pub use read::{Database, QUIET_AFTER_UNKNOWN, Reader, writer_of};
pub use record::{Answer, Outcome, write_history};
pub use report::{EXAMPLES_MAX, FaultCounts, Faults, Finding, Judgement, State, UnknownOutcomes};
pub use rules::in_time::judge as judge_in_time;
pub use rules::purchase::{Purchase, purchases};
pub use rules::record::judge as judge_record;
pub use rules::waiting::faults_of_line;
