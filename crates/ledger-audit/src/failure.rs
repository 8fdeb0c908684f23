//! The one failure of an audit: it could not judge.

use std::fmt;

/// Nothing is known about the service, neither good nor bad; the text says why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotJudge(pub String);

impl fmt::Display for CannotJudge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CannotJudge {}
