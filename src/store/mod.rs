//! All SQL that neither writes an order nor takes stock, all Redis commands of the gates, and the
//! counters that a process keeps for itself; breakers for when a server does not answer.
//!
//! The ledger in MySQL is the truth; what Redis holds is loaded from it, never the other way.

pub mod breaker;
pub mod memory;
pub mod mysql;
pub mod redis;
