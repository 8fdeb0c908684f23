//! Which outcome of the inner layers is which type of problem.

use time::OffsetDateTime;

use super::{Problem, ProblemType, rfc3339};
use crate::account::hashing::HashingError;
use crate::account::{ChangePasswordError, DeleteAccountError, SignInError, SignUpError};
use crate::catalog::{
    CreateError, EditError, GroupError, ProductError, StrategyError, Unreachable,
};
use crate::draw::{EntryError, EntryRefusal};
use crate::event::EndpointError;
use crate::export::ExportError;
use crate::identity::IdentityError;
use crate::order::{FindError, StepError};
use crate::payment::{MessageError, PayError, TakeError};
use crate::purchase::waiting_room::Denied;
use crate::waiting_list::{JoinError, JoinRefusal};
use ledger::erasure::EraseError;
use shop_domain::{LedgerError, Refusal, Unavailable};

/// The detail for a call that got no connection to the ledger although its server answers.
const NO_CONNECTION: &str =
    "All connections to the database are in use and nothing changed; try again.";

/// Makes problems of the errors of use cases. Of each error it lists the cases that are a type of
/// problem and say no more, then those that wrap another error, then all others.
macro_rules! problems {
    ($($error:ident {
        $($case:ident => $kind:ident),*; from $($wrapped:ident),*; $($other:pat => $problem:expr,)*
    })*) => {
        $(impl From<$error> for Problem {
            fn from(error: $error) -> Self {
                match error {
                    $($error::$case => ProblemType::$kind.into(),)*
                    $($error::$wrapped(wrapped) => wrapped.into(),)*
                    $($other => $problem,)*
                }
            }
        })*
    };
}

problems! {
    Refusal {
        NoOffer => NoOffer, SaleEnded => SaleEnded,
        SalePaused => SalePaused, TicketRequired => TicketRequired,
        TicketInvalid => TicketInvalid, TicketNotYetValid => TicketNotYetValid,
        TicketExpired => TicketExpired,
        ItemNotFound => ItemNotFound, StrategyNotFound => StrategyNotFound,
        UnsafeStrategy => UnsafeStrategy, AmountOverflow => AmountOverflow,
        RequestInProgress => RequestInProgress, OtherCurrency => OtherCurrency,
        DrawOnly => DrawOnly; from;
        Refusal::OfLine { item, refusal } => Self::from(*refusal).member("item_id", item.get()),
        Refusal::SoldOut { .. } => ProblemType::SoldOut.into(),
        Refusal::LimitReached { limit } => ProblemType::LimitReached
            .detail(format!("You have bought the {limit} units that one buyer may have."))
            .member("orders", "/api/orders"),
        Refusal::GroupLimitReached { limit } => ProblemType::GroupLimitReached
            .detail(format!("You have bought the {limit} units of these items together that one buyer may have."))
            .member("orders", "/api/orders"),
        Refusal::UnpaidLimitReached { limit } => ProblemType::UnpaidLimitReached
            .detail(format!("You have let {limit} holds of this item expire unpaid. When it is sold out, join its waiting list.")),
        Refusal::QuantityOverLimit { limit } => ProblemType::QuantityOverLimit
            .detail(format!("Buy fewer units: one buyer may have {limit}.")),
        Refusal::SaleNotStarted { starts_at } => not_started(starts_at),
        Refusal::OptionsNotTaken => ProblemType::InvalidQueryParameter
            .detail("Leave the query out: this strategy takes no parameters."),
        Refusal::OptionsForLabItems => ProblemType::InvalidOptions
            .detail("Leave out wait and scope: they work on lab items only."),
        Refusal::KeyReused { order_id } =>
            ProblemType::IdempotencyKeyReused.problem().member("order_id", order_id.to_string()),
    }
    Unavailable {
        Contended => Contended, StrategyUnavailable => StrategyUnavailable; from;
        Unavailable::Overloaded => ProblemType::Overloaded
            .detail("Too many purchases are running and nothing changed; try again."),
        Unavailable::Dependency(server) | Unavailable::Faulty(server) =>
            Self::dependency(server.name()),
        Unavailable::ReadOnly => Self::read_only(),
    }
    LedgerError {
        Contended => Contended; from;
        LedgerError::Overloaded => ProblemType::Overloaded.detail(NO_CONNECTION),
        LedgerError::Unavailable => Self::dependency("mysql"),
        LedgerError::ReadOnly => Self::read_only(),
        LedgerError::OutcomeUnknown => Self::dependency_lost("mysql"),
    }
    Unreachable {
        ; from;
        _ => Self::dependency("mysql"),
    }
    Denied {
        NoWaitingRoom => NoWaitingRoom; from Refused, Unavailable;
        Denied::NoProof(challenge) => ProblemType::ChallengeFailed
            .detail("Send the answer to the challenge as `altcha`. Each can be used once.")
            .member("challenge", serde_json::to_value(challenge).unwrap_or_default()),
    }
    JoinRefusal {
        NoWaitingList => NoWaitingList, UnitsLeft => UnitsLeft, Full => WaitingListFull,
        AccountDeleted => InvalidToken; from Purchase;
    }
    JoinError {
        ; from Refused, Ledger;
    }
    EntryRefusal {
        NoDraw => NoDraw, EntriesClosed => EntriesClosed, Full => DrawFull,
        PartyNotFound => PartyNotFound, PartyFull => PartyFull,
        AccountDeleted => InvalidToken; from Purchase;
    }
    EntryError {
        ; from Refused, Ledger;
    }
    FindError {
        ; from Ledger;
        FindError::Queue(error) => {
            tracing::warn!(%error, "read of the Redis order queues failed");
            Self::dependency("redis")
        },
    }
    // Another buyer's order is answered like none. A repeated step answers as the first one did, so a
    // retry of one with an unknown outcome is safe.
    StepError {
        NotFound => OrderNotFound, Contended => Contended, HoldOver => HoldOver,
        NotExtendable => HoldNotExtendable, NotReturnable => OrderNotReturnable; from;
        StepError::Conflict(order) => ProblemType::OrderStateConflict
            .detail(format!("The order is {}, which rules this step out.", order.status.as_str()))
            .member("order_status", order.status.as_str()),
        StepError::SoldOut => ProblemType::SoldOut
            .detail("The hold of this order expired and its units are sold; place a new order."),
        StepError::LimitReached => ProblemType::LimitReached
            .detail("The hold of this order expired, and you have bought the limit with other orders."),
        StepError::Overloaded => ProblemType::Overloaded.detail(NO_CONNECTION),
        StepError::Away => Self::dependency("mysql"),
        StepError::Unavailable(_) => Self::dependency_lost("mysql"),
        StepError::Locked(_) => ProblemType::Contended.into(),
        StepError::ReadOnly => Self::read_only(),
    }
    PayError {
        ; from Step, Find;
    }
    TakeError {
        Off => PaymentsOff; from Ledger;
        TakeError::Message(MessageError::Forged) => ProblemType::InvalidSignature.into(),
        TakeError::Message(MessageError::Unreadable) => ProblemType::InvalidMessage.into(),
        TakeError::Busy => ProblemType::Overloaded
            .detail("Too many long messages are verified; send it again in a moment."),
    }
    EditError {
        NotFound => ItemNotFound, RevisionChanged => PreconditionFailed,
        InvalidSchedule => InvalidSchedule, CurrencyFixed => CurrencyFixed, NoSuchGroup => LimitGroupNotFound,
        NoSuchProduct => ProductNotFound, StockOutOfRange => StockBelowSold; from Strategy, Ledger;
    }
    CreateError {
        ArbiterRequired => ArbiterRequired, NoSuchGroup => LimitGroupNotFound,
        NoSuchProduct => ProductNotFound; from Strategy, Ledger;
    }
    GroupError {
        TooMany => TooManyLimitGroups; from Ledger;
    }
    ProductError {
        TooMany => TooManyProducts; from Ledger;
    }
    StrategyError {
        Unknown => UnknownStrategy, Unsafe => UnsafeStrategy; from;
    }
    EndpointError {
        Off => EventsOff, NotFound => EndpointNotFound, TooMany => TooManyEndpoints,
        RangeOutOfLog => RangeOutOfLog; from Ledger;
        EndpointError::InvalidTarget(why) => ProblemType::InvalidTarget.detail(why),
        EndpointError::InvalidFilter(why) => ProblemType::InvalidFilter.detail(why),
    }
    ExportError {
        ; from Ledger;
        ExportError::Busy => ProblemType::Overloaded
            .detail("Too many exports are running; try again when one has ended."),
        ExportError::Unequal(_) | ExportError::TooLong | ExportError::NoReader =>
            ProblemType::Internal.into(),
    }
    HashingError {
        Failed => Internal; from;
        HashingError::Busy => ProblemType::Overloaded
            .detail("Too many sign-ins wait; try again in a moment."),
    }
    SignUpError {
        PasswordsOff => PasswordsOff, InvalidUsername => InvalidUsername,
        InvalidPassword => InvalidPassword, CommonPassword => CommonPassword,
        UsernameTaken => UsernameTaken; from Hashing, Ledger;
    }
    SignInError {
        PasswordsOff => PasswordsOff, WrongCredentials => InvalidCredentials; from Hashing, Ledger;
        SignInError::TooManyAttempts { retry_after_seconds } =>
            ProblemType::TooManyAttempts.problem().retry_after(retry_after_seconds),
    }
    ChangePasswordError {
        NoAccount => AccountNotFound, InvalidPassword => InvalidPassword,
        CommonPassword => CommonPassword; from SignIn;
    }
    DeleteAccountError {
        NoAccount => AccountNotFound; from SignIn, Erase;
    }
    EraseError {
        OrdersOpen => OrdersOpen, Operator => OperatorAccount,
        PasswordChanged => InvalidCredentials; from Ledger;
    }
    IdentityError {
        Off => IdentityOff, NotStarted => SignInNotStarted, Refused => IdentityRefused,
        Expired => TokenExpired; from Ledger;
        IdentityError::Unavailable => Self::dependency("the identity provider"),
    }
}

fn not_started(starts_at: OffsetDateTime) -> Problem {
    let starts_at = rfc3339(starts_at);
    ProblemType::SaleNotStarted
        .detail(format!("The sale starts at {starts_at}; try again then."))
        .member("starts_at", starts_at)
        .member("server_time", rfc3339(OffsetDateTime::now_utc()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::ItemId;
    use shop_domain::outcome::Dependency;

    #[test]
    fn a_problem_has_the_code_of_its_outcome() {
        let refusals = [
            Refusal::SoldOut { asked_at: None },
            Refusal::LimitReached { limit: 1 },
            Refusal::GroupLimitReached { limit: 1 },
            Refusal::UnpaidLimitReached { limit: 1 },
            Refusal::QuantityOverLimit { limit: 1 },
            Refusal::NoOffer,
            Refusal::SaleNotStarted { starts_at: OffsetDateTime::UNIX_EPOCH },
            Refusal::SaleEnded,
            Refusal::SalePaused,
            Refusal::TicketRequired,
            Refusal::TicketInvalid,
            Refusal::TicketNotYetValid,
            Refusal::TicketExpired,
            Refusal::ItemNotFound,
            Refusal::StrategyNotFound,
            Refusal::OptionsNotTaken,
            Refusal::UnsafeStrategy,
            Refusal::AmountOverflow,
            Refusal::RequestInProgress,
            Refusal::OtherCurrency,
            Refusal::SaleEnded.of_line(ItemId::new(1).expect("positive")),
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
        ];
        for why in reasons {
            assert_eq!(why.code(), Problem::from(why.clone()).code());
        }
    }
}
