//! All SQL that neither writes an order nor takes stock, and all Redis commands of the gates.
//!
//! The ledger in MySQL is the truth; what Redis holds is loaded from it, never the other way.

pub mod mysql;
pub mod redis;
