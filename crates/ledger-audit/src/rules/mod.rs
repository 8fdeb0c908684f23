//! The invariants, a file for each kind of evidence.

pub(crate) mod attribution;
pub(crate) mod draw;
pub(crate) mod fences;
pub(crate) mod in_time;
pub(crate) mod ledger;
pub(crate) mod lines;
pub(crate) mod price;
pub(crate) mod purchase;
pub(crate) mod record;
pub(crate) mod undersold;
pub(crate) mod waiting;
