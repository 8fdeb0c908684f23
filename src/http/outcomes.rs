//! Which outcome of the use cases is which type of problem.

use crate::account::AccountError;
use crate::catalog::{CreateError, EditError, StrategyError};
use crate::http::problems;
use crate::order::{OrderError, StepError};
use crate::purchase::waiting_room::Denied;
use crate::waiting_list::{JoinError, JoinRefusal};
use ledger::erasure::EraseError;
use web::problem::Problem;

/// Makes problems of the errors of use cases. Of each error it lists the cases that are a type of
/// problem and say no more, then those that wrap another error, then all others.
macro_rules! problems {
    ($($error:ident {
        $($case:ident => $kind:ident),*; from $($wrapped:ident),*; $($other:pat => $problem:expr,)*
    })*) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                match error {
                    $($error::$case => problems::$kind.problem(),)*
                    $($error::$wrapped(wrapped) => wrapped.into(),)*
                    $($other => $problem,)*
                }
            }
        })*
    };
}

problems! {
    Denied {
        NoWaitingRoom => NO_WAITING_ROOM; from Refused, Unavailable;
        Denied::Unanswered => Self::dependency_lost("redis"),
        Denied::NoProof(challenge) => problems::CHALLENGE_FAILED
            .detail("Send the answer to the challenge as `altcha`. Each can be used once.")
            .member("challenge", serde_json::to_value(challenge).unwrap_or_default()),
    }
    JoinError {
        ; from Ledger;
        JoinError::Refused(refusal) => of_join(refusal),
    }
    OrderError {
        ; from Ledger;
        OrderError::Step(error) => of_step(error),
        OrderError::Queue(error) => {
            tracing::warn!(%error, "read of the Redis order queues failed");
            Self::dependency("redis")
        },
    }
    CreateError {
        TooManyProducts => TOO_MANY_PRODUCTS, TooManyLimitGroups => TOO_MANY_LIMIT_GROUPS,
        ArbiterRequired => ARBITER_REQUIRED, NoSuchGroup => LIMIT_GROUP_NOT_FOUND,
        NoSuchProduct => PRODUCT_NOT_FOUND; from Ledger;
        CreateError::Strategy(error) => of_strategy(error),
        CreateError::KeyReused => problems::IDEMPOTENCY_KEY_REUSED
            .detail("This key belongs to a request with another body; use a new key."),
    }
    AccountError {
        PasswordsOff => PASSWORDS_OFF, InvalidUsername => INVALID_USERNAME,
        InvalidPassword => INVALID_PASSWORD, CommonPassword => COMMON_PASSWORD,
        UsernameTaken => USERNAME_TAKEN, NoAccount => ACCOUNT_NOT_FOUND,
        WrongCredentials => INVALID_CREDENTIALS, HashingFailed => INTERNAL; from Ledger;
        AccountError::TooManyAttempts { retry_after_seconds } =>
            problems::TOO_MANY_ATTEMPTS.problem().retry_after(retry_after_seconds),
        AccountError::HashingBusy => problems::OVERLOADED
            .detail("Too many sign-ins wait; try again in a moment."),
        AccountError::QueueAway => Self::dependency("redis"),
        AccountError::Erase(error) => of_erasure(error),
    }
}

/// The problem of a step of an order that was refused or failed. Another buyer's order is answered like none. A repeated
/// step answers as the first one did, so a retry of one with an unknown outcome is safe.
pub fn of_step(error: StepError) -> Problem {
    match error {
        StepError::NotFound => problems::ORDER_NOT_FOUND.problem(),
        StepError::Locked(_) => problems::CONTENDED.problem(),
        StepError::HoldOver => problems::HOLD_OVER.problem(),
        StepError::NotExtendable => problems::HOLD_NOT_EXTENDABLE.problem(),
        StepError::NotReturnable => problems::ORDER_NOT_RETURNABLE.problem(),
        StepError::Conflict(order) => problems::ORDER_STATE_CONFLICT
            .detail(format!("The order is {}, which rules this step out.", order.status.as_str()))
            .member("order_status", order.status.as_str()),
        StepError::SoldOut => problems::SOLD_OUT
            .detail("The hold of this order expired and its units are sold; place a new order."),
        StepError::LimitReached => problems::LIMIT_REACHED.detail(
            "The hold of this order expired, and you have bought the limit with other orders.",
        ),
        StepError::Unavailable(_) => Problem::dependency_lost("mysql"),
        StepError::Ledger(error) => error.into(),
    }
}

/// The problem of a change of an item that was refused or failed.
pub fn of_edit(error: EditError) -> Problem {
    match error {
        EditError::NotFound => problems::ITEM_NOT_FOUND.problem(),
        EditError::RevisionChanged => problems::PRECONDITION_FAILED.problem(),
        EditError::InvalidSchedule => problems::INVALID_SCHEDULE.problem(),
        EditError::OfferRequired => problems::INVALID_DRAW.problem(),
        EditError::CurrencyFixed => problems::CURRENCY_FIXED.problem(),
        EditError::NoSuchGroup => problems::LIMIT_GROUP_NOT_FOUND.problem(),
        EditError::NoSuchProduct => problems::PRODUCT_NOT_FOUND.problem(),
        EditError::StockOutOfRange => problems::STOCK_BELOW_SOLD.problem(),
        EditError::Strategy(error) => of_strategy(error),
        EditError::Ledger(error) => error.into(),
    }
}

/// The problem of a strategy that an item cannot have.
pub fn of_strategy(error: StrategyError) -> Problem {
    match error {
        StrategyError::Unknown => problems::UNKNOWN_STRATEGY.problem(),
        StrategyError::Unsafe => problems::UNSAFE_STRATEGY.problem(),
    }
}

/// The problem of an account that was not deleted.
pub fn of_erasure(error: EraseError) -> Problem {
    match error {
        EraseError::OrdersOpen => problems::ORDERS_OPEN.problem(),
        EraseError::Operator => problems::OPERATOR_ACCOUNT.problem(),
        EraseError::PasswordChanged => problems::INVALID_CREDENTIALS.problem(),
        EraseError::Ledger(error) => error.into(),
    }
}

/// The problem of a buyer who cannot join a waiting list.
fn of_join(refusal: JoinRefusal) -> Problem {
    match refusal {
        JoinRefusal::NoWaitingList => problems::NO_WAITING_LIST.problem(),
        JoinRefusal::UnitsLeft => problems::UNITS_LEFT.problem(),
        JoinRefusal::Full => problems::WAITING_LIST_FULL.problem(),
        JoinRefusal::AccountDeleted => problems::INVALID_TOKEN.problem(),
        JoinRefusal::Purchase(refusal) => refusal.into(),
    }
}
