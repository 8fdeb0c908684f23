//! Which outcome of the inner layers is which type of problem.

use time::OffsetDateTime;

use super::{Problem, ProblemType, rfc3339};
use crate::account::hashing::HashingError;
use crate::account::{ChangePasswordError, SignInError, SignUpError};
use crate::catalog::{CreateError, EditError, GroupForItemError, StrategyError};
use crate::event::EndpointError;
use crate::export::ExportError;
use crate::identity::IdentityError;
use crate::order::{FindError, StepError};
use crate::payment::{MessageError, PayError, TakeError};
use shop_domain::{LedgerError, Refusal, Unavailable};

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::SoldOut { .. } => ProblemType::SoldOut.into(),
            Refusal::LimitReached { limit } => ProblemType::LimitReached
                .detail(format!("You have bought the {limit} units that one buyer may have."))
                .member("orders", "/api/orders"),
            Refusal::GroupLimitReached { limit } => ProblemType::GroupLimitReached
                .detail(format!(
                    "You have bought the {limit} units of these items together that one buyer may have."
                ))
                .member("orders", "/api/orders"),
            Refusal::NoWaitingList => ProblemType::NoWaitingList.into(),
            Refusal::UnitsLeft => ProblemType::UnitsLeft.into(),
            Refusal::WaitingListFull => ProblemType::WaitingListFull.into(),
            Refusal::NoOffer => ProblemType::NoOffer.into(),
            Refusal::QuantityOverLimit { limit } => ProblemType::QuantityOverLimit
                .detail(format!("Buy fewer units: one buyer may have {limit}.")),
            Refusal::SaleNotStarted { starts_at } => {
                let starts_at = rfc3339(starts_at);
                ProblemType::SaleNotStarted
                    .detail(format!("The sale starts at {starts_at}; try again then."))
                    .member("starts_at", starts_at)
                    .member("server_time", rfc3339(OffsetDateTime::now_utc()))
            }
            Refusal::SaleEnded => ProblemType::SaleEnded.into(),
            Refusal::SalePaused => ProblemType::SalePaused.into(),
            Refusal::TicketRequired => ProblemType::TicketRequired.into(),
            Refusal::TicketInvalid => ProblemType::TicketInvalid.into(),
            Refusal::TicketNotYetValid => ProblemType::TicketNotYetValid.into(),
            Refusal::TicketExpired => ProblemType::TicketExpired.into(),
            Refusal::NoWaitingRoom => ProblemType::NoWaitingRoom.into(),
            Refusal::ItemNotFound => ProblemType::ItemNotFound.into(),
            Refusal::StrategyNotFound => ProblemType::StrategyNotFound.into(),
            Refusal::OptionsNotTaken => ProblemType::InvalidQueryParameter
                .detail("Leave the query out: this strategy takes no parameters."),
            Refusal::OptionsForLabItems => ProblemType::InvalidOptions
                .detail("Leave out wait and scope: they work on lab items only."),
            Refusal::UnsafeStrategy => ProblemType::UnsafeStrategy.into(),
            Refusal::AmountOverflow => ProblemType::AmountOverflow.into(),
            Refusal::RequestInProgress => ProblemType::RequestInProgress.into(),
            Refusal::KeyReused { order_id } => {
                ProblemType::IdempotencyKeyReused.problem().member("order_id", order_id.to_string())
            }
        }
    }
}

impl From<Unavailable> for Problem {
    fn from(why: Unavailable) -> Self {
        match why {
            Unavailable::Contended => ProblemType::Contended.into(),
            Unavailable::Overloaded => ProblemType::Overloaded
                .detail("Too many purchases are running and nothing changed; try again."),
            Unavailable::StrategyUnavailable => ProblemType::StrategyUnavailable.into(),
            Unavailable::Dependency(dependency) | Unavailable::Faulty(dependency) => {
                Self::dependency(dependency.name())
            }
            Unavailable::ReadOnly => Self::read_only(),
            Unavailable::Moving => ProblemType::ItemMoving.into(),
        }
    }
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Ledger(error) => error.into(),
            FindError::Queue(error) => {
                tracing::warn!(%error, "read of the Redis order queues failed");
                Self::dependency("redis")
            }
        }
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        match error {
            // Another buyer's order is answered like none.
            StepError::NotFound => ProblemType::OrderNotFound.into(),
            StepError::Conflict(order) => ProblemType::OrderStateConflict
                .detail(format!(
                    "The order is {}, which rules this step out.",
                    order.status.as_str()
                ))
                .member("order_status", order.status.as_str()),
            StepError::SoldOut => ProblemType::SoldOut.detail(
                "The hold of this order expired and its units are sold; place a new order.",
            ),
            StepError::LimitReached => ProblemType::LimitReached.detail(
                "The hold of this order expired, and you have bought the limit with other orders.",
            ),
            StepError::Away => Self::dependency("mysql"),
            // A repeated step answers as the first one did, so a retry is safe.
            StepError::Unavailable(_) => Self::dependency_lost("mysql"),
            StepError::ReadOnly => Self::read_only(),
            StepError::Contended => ProblemType::Contended.into(),
            StepError::Moving => ProblemType::ItemMoving.into(),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::NotFound => ProblemType::ItemNotFound.into(),
            EditError::RevisionChanged => ProblemType::PreconditionFailed.into(),
            EditError::InvalidSchedule => ProblemType::InvalidSchedule.into(),
            EditError::Group(error) => error.into(),
            EditError::StockOutOfRange => ProblemType::StockBelowSold.into(),
            EditError::Strategy(error) => error.into(),
            EditError::Ledger(error) => error.into(),
        }
    }
}

impl From<CreateError> for Problem {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Group(error) => error.into(),
            CreateError::NoSuchShard => ProblemType::ShardNotFound.into(),
            CreateError::ArbiterRequired => ProblemType::ArbiterRequired.into(),
            CreateError::Strategy(error) => error.into(),
            CreateError::Ledger(error) => error.into(),
        }
    }
}

impl From<GroupForItemError> for Problem {
    fn from(error: GroupForItemError) -> Self {
        match error {
            GroupForItemError::NotFound => ProblemType::LimitGroupNotFound.into(),
            GroupForItemError::Elsewhere => ProblemType::LimitGroupElsewhere.into(),
            GroupForItemError::Ledger(error) => error.into(),
        }
    }
}

impl From<StrategyError> for Problem {
    fn from(error: StrategyError) -> Self {
        match error {
            StrategyError::Unknown => ProblemType::UnknownStrategy.into(),
            StrategyError::Unsafe => ProblemType::UnsafeStrategy.into(),
        }
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Unavailable => Self::dependency("mysql"),
            LedgerError::ReadOnly => Self::read_only(),
            LedgerError::Contended => ProblemType::Contended.into(),
            LedgerError::Moving => ProblemType::ItemMoving.into(),
            LedgerError::OutcomeUnknown => Self::dependency_lost("mysql"),
        }
    }
}

impl From<EndpointError> for Problem {
    fn from(error: EndpointError) -> Self {
        match error {
            EndpointError::Off => ProblemType::EventsOff.into(),
            EndpointError::NotFound => ProblemType::EndpointNotFound.into(),
            EndpointError::TooMany => ProblemType::TooManyEndpoints.into(),
            EndpointError::InvalidTarget(why) => ProblemType::InvalidTarget.detail(why),
            EndpointError::RangeOutOfLog => ProblemType::RangeOutOfLog.into(),
            EndpointError::Ledger(error) => error.into(),
        }
    }
}

impl From<PayError> for Problem {
    fn from(error: PayError) -> Self {
        match error {
            PayError::Step(error) => error.into(),
            PayError::Find(error) => error.into(),
        }
    }
}

impl From<TakeError> for Problem {
    fn from(error: TakeError) -> Self {
        match error {
            TakeError::Off => ProblemType::PaymentsOff.into(),
            TakeError::Message(MessageError::Forged) => ProblemType::InvalidSignature.into(),
            TakeError::Message(MessageError::Unreadable) => ProblemType::InvalidMessage.into(),
            TakeError::Busy => ProblemType::Overloaded
                .detail("Too many long messages are verified; send it again in a moment."),
            TakeError::Ledger(error) => error.into(),
        }
    }
}

impl From<HashingError> for Problem {
    fn from(error: HashingError) -> Self {
        match error {
            HashingError::Busy => {
                ProblemType::Overloaded.detail("Too many sign-ins wait; try again in a moment.")
            }
            HashingError::Failed => ProblemType::Internal.into(),
        }
    }
}

impl From<SignUpError> for Problem {
    fn from(error: SignUpError) -> Self {
        match error {
            SignUpError::PasswordsOff => ProblemType::PasswordsOff.into(),
            SignUpError::InvalidUsername => ProblemType::InvalidUsername.into(),
            SignUpError::InvalidPassword => ProblemType::InvalidPassword.into(),
            SignUpError::CommonPassword => ProblemType::CommonPassword.into(),
            SignUpError::UsernameTaken => ProblemType::UsernameTaken.into(),
            SignUpError::Hashing(error) => error.into(),
            SignUpError::Ledger(error) => error.into(),
        }
    }
}

impl From<SignInError> for Problem {
    fn from(error: SignInError) -> Self {
        match error {
            SignInError::PasswordsOff => ProblemType::PasswordsOff.into(),
            SignInError::WrongCredentials => ProblemType::InvalidCredentials.into(),
            SignInError::TooManyAttempts { retry_after_seconds } => {
                ProblemType::TooManyAttempts.problem().retry_after(retry_after_seconds)
            }
            SignInError::Hashing(error) => error.into(),
            SignInError::Ledger(error) => error.into(),
        }
    }
}

impl From<IdentityError> for Problem {
    fn from(error: IdentityError) -> Self {
        match error {
            IdentityError::Off => ProblemType::IdentityOff.into(),
            IdentityError::NotStarted => ProblemType::SignInNotStarted.into(),
            IdentityError::Refused => ProblemType::IdentityRefused.into(),
            IdentityError::Expired => ProblemType::TokenExpired.into(),
            IdentityError::Unavailable => Self::dependency("the identity provider"),
            IdentityError::Ledger(error) => error.into(),
        }
    }
}

impl From<ExportError> for Problem {
    fn from(error: ExportError) -> Self {
        match error {
            ExportError::Busy => ProblemType::Overloaded
                .detail("Too many exports are running; try again when one has ended."),
            ExportError::Ledger(error) => error.into(),
            ExportError::Unequal(_) | ExportError::TooLong | ExportError::NoReader => {
                ProblemType::Internal.into()
            }
        }
    }
}

impl From<ChangePasswordError> for Problem {
    fn from(error: ChangePasswordError) -> Self {
        match error {
            ChangePasswordError::NoAccount => ProblemType::AccountNotFound.into(),
            ChangePasswordError::SignIn(error) => error.into(),
            ChangePasswordError::InvalidPassword => ProblemType::InvalidPassword.into(),
            ChangePasswordError::CommonPassword => ProblemType::CommonPassword.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::outcome::Dependency;

    #[test]
    fn a_problem_has_the_code_of_its_outcome() {
        let refusals = [
            Refusal::SoldOut { asked_at: None },
            Refusal::LimitReached { limit: 1 },
            Refusal::GroupLimitReached { limit: 1 },
            Refusal::QuantityOverLimit { limit: 1 },
            Refusal::NoWaitingList,
            Refusal::UnitsLeft,
            Refusal::WaitingListFull,
            Refusal::NoOffer,
            Refusal::SaleNotStarted { starts_at: OffsetDateTime::UNIX_EPOCH },
            Refusal::SaleEnded,
            Refusal::SalePaused,
            Refusal::TicketRequired,
            Refusal::TicketInvalid,
            Refusal::TicketNotYetValid,
            Refusal::TicketExpired,
            Refusal::NoWaitingRoom,
            Refusal::ItemNotFound,
            Refusal::StrategyNotFound,
            Refusal::OptionsNotTaken,
            Refusal::UnsafeStrategy,
            Refusal::AmountOverflow,
            Refusal::RequestInProgress,
        ];
        for refusal in refusals {
            assert_eq!(refusal.code(), Problem::from(refusal.clone()).code());
        }
        let reasons = [
            Unavailable::Contended,
            Unavailable::Overloaded,
            Unavailable::StrategyUnavailable,
            Unavailable::Dependency(Dependency::Redis),
            Unavailable::Faulty(Dependency::Etcd),
            Unavailable::ReadOnly,
            Unavailable::Moving,
        ];
        for why in reasons {
            assert_eq!(why.code(), Problem::from(why.clone()).code());
        }
    }
}
