//! A statement, a transaction, their errors and their time limits: the ground on which everything else of the ledger
//! stands.

mod database;
mod error;
pub mod limits;
mod new_id;
mod shown;
pub mod statement;
mod transaction;

pub use database::{Database, Destination};
pub(crate) use error::out_of_range;
pub use error::{Fault, all_in_use, contended, is_unconfirmed, unconfirmed};
pub use limits::{answered, within};
pub(crate) use new_id::is_taken_id;
pub use new_id::with_new_id;
pub(crate) use transaction::transact_within;
pub use transaction::{
    LedgerTransaction, Rollback, WorkError, begin, begin_on, confirmed, transact,
};
