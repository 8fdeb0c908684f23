//! The public logs of sales: from each log buyers get receipts, and anybody can check the sale.
//!
//! | step | where | when |
//! |---|---|---|
//! | a line of text says what happened: an order, units that came back, a refusal | [`queue`] | in the transaction in which it happens |
//! | all lines that wait become entries of the log, with one signed head behind them | [`append`] | a moment later, in one transaction for each item |
//! | log, heads and receipts are read | `rows::receipts` | at any time |
//!
//! A line is taken when it is committed, and is deleted in the transaction that appends its entry: so a line that commits
//! late is not missed, and none is appended twice. The row of the log is locked meanwhile, so that any instance may append.

pub mod append;
pub(crate) mod queue;

pub use append::Logs;
pub use queue::refused;
