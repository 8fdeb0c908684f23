//! The one failure of an audit: it could not judge.

use std::fmt;

/// Nothing is known about the sale, neither good nor bad. The text says why, for people.
///
/// It is an error of its own, because an audit that could read nothing must never pass for a clean
/// one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CannotJudge(pub String);

impl fmt::Display for CannotJudge {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for CannotJudge {}

impl CannotJudge {
    /// Nothing is known, for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

/// Turns another error into [`CannotJudge`].
pub trait OrCannotJudge<T> {
    /// The value; an error becomes the text "what: error".
    ///
    /// # Errors
    /// When there was an error.
    fn or_cannot_judge(self, what: impl fmt::Display) -> Result<T, CannotJudge>;
}

impl<T, E: fmt::Display> OrCannotJudge<T> for Result<T, E> {
    fn or_cannot_judge(self, what: impl fmt::Display) -> Result<T, CannotJudge> {
        self.map_err(|error| CannotJudge(format!("{what}: {error}")))
    }
}
