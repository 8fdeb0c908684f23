//! Which outcome of the shop's domain is which type of problem.

use std::collections::HashMap;
use std::sync::LazyLock;

use shop_domain::{LedgerError, Refusal, Unavailable, Unreachable};
use time::OffsetDateTime;

use crate::problem::{Problem, ProblemType, rfc3339};
use crate::problems;

/// The detail for a call that got no connection to the ledger although its server answers.
const NO_CONNECTION: &str =
    "All connections to the database are in use and nothing changed; try again.";

/// The shared types of problem by their code.
static BY_CODE: LazyLock<HashMap<&str, &'static ProblemType>> =
    LazyLock::new(|| problems::ALL.iter().map(|kind| (kind.code(), *kind)).collect());

/// The type of a code; a test sees to it that each code of an outcome has one.
fn type_of(code: &str) -> &'static ProblemType {
    BY_CODE.get(code).copied().unwrap_or(&problems::INTERNAL)
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let kind = type_of(refusal.code());
        match refusal {
            Refusal::OfLine { item, refusal } => Self::from(*refusal).member("item_id", item.get()),
            Refusal::LimitReached { limit } => kind
                .detail(format!("You have bought the {limit} units that one buyer may have."))
                .member("orders", "/api/orders"),
            Refusal::GroupLimitReached { limit } => kind
                .detail(format!("You have bought the {limit} units of these items together that one buyer may have."))
                .member("orders", "/api/orders"),
            Refusal::UnpaidLimitReached { limit } => kind.detail(format!(
                "You have let {limit} holds of this item expire unpaid. When it is sold out, join its waiting list."
            )),
            Refusal::QuantityOverLimit { limit } => {
                kind.detail(format!("Buy fewer units: one buyer may have {limit}."))
            }
            Refusal::SaleNotStarted { starts_at } => {
                let starts_at = rfc3339(starts_at);
                kind.detail(format!("The sale starts at {starts_at}; try again then."))
                    .member("starts_at", starts_at)
                    .member("server_time", rfc3339(OffsetDateTime::now_utc()))
            }
            Refusal::OptionsNotTaken => {
                kind.detail("Leave the query out: this strategy takes no parameters.")
            }
            Refusal::OptionsForLabItems => {
                kind.detail("Leave out wait and scope: they work on lab items only.")
            }
            Refusal::KeyReused { order_id } => {
                kind.problem().member("order_id", order_id.to_string())
            }
            _ => kind.problem(),
        }
    }
}

impl From<Unavailable> for Problem {
    fn from(why: Unavailable) -> Self {
        match why {
            Unavailable::Overloaded => problems::OVERLOADED
                .detail("Too many purchases are running and nothing changed; try again."),
            Unavailable::Dependency(server) | Unavailable::Faulty(server) => {
                Self::dependency(server.as_str())
            }
            Unavailable::ReadOnly => Self::read_only(),
            Unavailable::Contended | Unavailable::StrategyUnavailable => {
                type_of(why.code()).problem()
            }
        }
    }
}

impl From<LedgerError> for Problem {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Contended => problems::CONTENDED.problem(),
            LedgerError::Overloaded => problems::OVERLOADED.detail(NO_CONNECTION),
            LedgerError::Unavailable => Self::dependency("mysql"),
            LedgerError::ReadOnly => Self::read_only(),
            // A mistake of ours: the log says which column.
            LedgerError::DoesNotFit => problems::INTERNAL.problem(),
            LedgerError::OutcomeUnknown => Self::dependency_lost("mysql"),
        }
    }
}

impl From<Unreachable> for Problem {
    fn from(_: Unreachable) -> Self {
        Self::dependency("mysql")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shop_domain::ItemId;
    use shop_domain::outcome::Dependency;

    #[test]
    fn a_problem_has_the_code_of_its_outcome() {
        for code in Refusal::CODES {
            assert_eq!(type_of(code).code(), *code);
        }
        let of_line = Refusal::SaleEnded.of_line(ItemId::new(1).expect("positive"));
        assert_eq!(Problem::from(of_line).code(), "sale_ended");
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
