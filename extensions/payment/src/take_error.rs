//! Why a message of the provider is not taken, and how that is answered.

use crate::message::MessageError;
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
    /// The message is forged, too old, or cannot be read.
    #[error(transparent)]
    Message(#[from] MessageError),
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
    #[must_use]
    pub fn counts(self) -> bool {
        matches!(self, Self::Busy | Self::Message(MessageError::Forged))
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Off => problems::PAYMENTS_OFF.problem(),
            TakeError::Message(MessageError::Forged) => problems::INVALID_SIGNATURE.problem(),
            TakeError::Message(MessageError::Unreadable) => problems::INVALID_MESSAGE.problem(),
            TakeError::Message(MessageError::TooLong { field, length, most }) => {
                problems::INVALID_MESSAGE.detail(too_long(field, length, most))
            }
            TakeError::Busy => problems::OVERLOADED
                .detail("Too many long messages are verified; send it again in a moment."),
            TakeError::Limited => problems::RATE_LIMITED.problem(),
            TakeError::Ledger(error) => error.into(),
        }
    }
}
