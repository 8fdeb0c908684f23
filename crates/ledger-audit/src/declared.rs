//! What a strategy declares about itself, and what a sale of it is expected to show.

use serde::{Deserialize, Serialize};

/// The number of instances of the service with which the gate alone, with the arbiter off,
/// oversells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Breaks {
    /// Never: any number of instances sells no unit twice.
    #[default]
    Never,
    /// One instance oversells.
    Alone,
    /// Two instances oversell; one does not.
    WithTwoInstances,
}

/// What a sale should show.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Expectation {
    /// Every round is clean.
    Clean,
    /// At least one round oversells.
    Caught,
}

impl Breaks {
    /// The expected verdict with the arbiter on or off, on a number of instances: the arbiter makes every
    /// strategy safe.
    #[must_use]
    pub fn expectation(self, arbiter_on: bool, instances: usize) -> Expectation {
        match self {
            Self::Alone if !arbiter_on => Expectation::Caught,
            Self::WithTwoInstances if !arbiter_on && instances > 1 => Expectation::Caught,
            _ => Expectation::Clean,
        }
    }

    /// For a table.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Never => "safe",
            Self::Alone => "breaks alone",
            Self::WithTwoInstances => "breaks with two instances",
        }
    }
}
