//! What several strategies have in common.

pub mod built;
pub mod card;
pub mod combined;
pub mod compare_and_set;
pub mod item_mutexes;
pub mod ledger_view;
pub mod lock_body;
pub mod locks;
pub mod memory_gate;
pub mod options;
pub mod redis_gate;
mod taking;
pub mod textbook;
