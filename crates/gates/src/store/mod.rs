//! The counters of the gates. They are loaded from the ledger, never the other way.

pub mod memory;
pub mod redis;

pub(crate) use ledger::store::{Homes, Unreachable, cache, mysql, single_flight};
