//! What several strategies have in common.

pub mod ledger_view;
pub mod options;
pub mod redis_gate;
