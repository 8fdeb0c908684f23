//! How the program ends.

pub use ledger_audit::{CannotJudge, OrCannotJudge};

/// Nothing broken was found.
pub const EXIT_CLEAN: u8 = 0;
/// An invariant is broken (or the expected oversell was not caught).
pub const EXIT_BROKEN: u8 = 1;
/// The audit could not read or send anything to judge by.
pub const EXIT_COULD_NOT_JUDGE: u8 = 2;
