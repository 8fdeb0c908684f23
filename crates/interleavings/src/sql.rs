//! The ledger's errors, of a ledger that has none.

/// The connections.
#[derive(Clone, Debug)]
pub(crate) struct Database;

/// The sort of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    Transient,
}

/// An error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NoError;

impl Fault {
    pub(crate) fn of(_error: &NoError) -> Self {
        Self::Transient
    }
}
