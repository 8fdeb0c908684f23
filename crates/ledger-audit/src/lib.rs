//! Audits a sale.

mod audit;
mod failure;
mod ledger;
mod read;
mod record;
mod report;
mod rules;
#[cfg(test)]
mod tests;

pub use audit::{Evidence, judge};
pub use failure::CannotJudge;
pub use ledger::{Fence, Ledger, Movements, Order, Stock};
pub use read::{Database, QUIET_AFTER_UNKNOWN, Reader};
pub use record::{Answer, Outcome, write_history};
pub use report::{EXAMPLES_MAX, Faults, Finding, Judgement, State, UnknownOutcomes};
pub use rules::purchase::{Purchase, purchases};
