//! Building blocks that several strategies share.

pub mod combined_sale;
pub mod compare_and_set;
pub mod guarded_sale;
pub mod item_mutexes;
pub mod item_turns;
pub mod locks;
pub mod memory_gate;
pub mod options;
pub mod sale_locks;
pub mod steps;
pub mod textbook;
