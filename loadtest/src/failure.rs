//! The one failure of this program: it could not judge.

use std::fmt;

/// Nothing is known about the service, neither good nor bad; the text says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotJudge(pub String);

/// Nothing broken was found.
pub const EXIT_CLEAN: u8 = 0;
/// An invariant is broken (or the expected oversell was not caught).
pub const EXIT_BROKEN: u8 = 1;
/// The audit could not read or send anything to judge by.
pub const EXIT_COULD_NOT_JUDGE: u8 = 2;

impl fmt::Display for CannotJudge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CannotJudge {}
