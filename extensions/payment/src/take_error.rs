//! Why a message of the provider is not taken, and how that is answered.

use crate::problems;
use shop_domain::LedgerError;
use web::problem::Problem;
use web::too_long;

/// The reason why a message of the provider is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TakeError {
    /// No provider sends messages.
    #[error("the provider sends no messages")]
    Off,
    /// The signature is not the provider's, or the time stamp is too far away.
    #[error("the message is forged or too old")]
    Forged,
    /// A genuine message that lacks what it has to say.
    #[error("the message cannot be read")]
    Unreadable,
    /// A genuine message with a value that is longer than its column.
    #[error("{field} has {length} characters")]
    TooLong {
        /// The field or the header.
        field: &'static str,
        length: usize,
        /// The longest that is taken.
        most: usize,
    },
    /// Other messages are verified; this one was not.
    #[error("too many long messages are verified at once")]
    Busy,
    /// Its sender's address has reached its limit while it waited.
    #[error("too many forged messages of one address")]
    Limited,
    /// The ledger.
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

impl TakeError {
    /// Whether the message counts against the limit of its sender's address: it has cost a
    /// verification, and is not known to be genuine.
    pub fn counts(self) -> bool {
        matches!(self, Self::Busy | Self::Forged)
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Off => problems::PAYMENTS_OFF.problem(),
            TakeError::Forged => problems::INVALID_SIGNATURE.problem(),
            TakeError::Unreadable => problems::INVALID_MESSAGE.problem(),
            TakeError::TooLong { field, length, most } => {
                problems::INVALID_MESSAGE.detail(too_long(field, length, most))
            }
            TakeError::Busy => problems::OVERLOADED
                .detail("Too many long messages are verified; send it again in a moment."),
            TakeError::Limited => problems::RATE_LIMITED.problem(),
            TakeError::Ledger(error) => error.into(),
        }
    }
}
