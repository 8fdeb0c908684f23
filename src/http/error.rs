//! The one table from outcomes to status codes.

use time::OffsetDateTime;

use super::problem::{Problem, rfc3339};
use crate::domain::{Refusal, Unavailable};
use crate::order::{FindError, StepError};
use crate::store::mysql::items::EditError;

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = refusal.code();
        match refusal {
            Refusal::SoldOut => {
                Problem::new(409, code, "Sold out", "There are not enough units left.")
            }
            Refusal::LimitReached { limit } => {
                let detail = format!("You have bought the {limit} that one buyer may have.");
                Problem::new(409, code, "Limit reached", detail).with("orders", "/api/orders")
            }
            Refusal::QuantityOverLimit { limit } => {
                let detail = format!("One buyer may have {limit}.");
                Problem::new(422, code, "More than one buyer may have", detail)
            }
            Refusal::SaleNotStarted { starts_at } => {
                let starts_at = rfc3339(starts_at);
                let detail = format!("The sale starts at {starts_at}.");
                Problem::new(409, code, "Not yet", detail)
                    .with("starts_at", starts_at)
                    .with("server_time", rfc3339(OffsetDateTime::now_utc()))
            }
            Refusal::SaleEnded => Problem::new(409, code, "Over", "The sale is over."),
            Refusal::SalePaused => {
                Problem::new(409, code, "Paused", "The shop has paused this sale.").retry_after(5)
            }
            Refusal::TicketRequired => {
                let detail = "Stand in line for a ticket, and send it as Purchase-Ticket.";
                Problem::new(403, code, "Ticket needed", detail)
            }
            Refusal::TicketInvalid => {
                let detail = "It is no ticket of yours for this item; stand in line for one.";
                Problem::new(403, code, "Not a ticket", detail)
            }
            Refusal::TicketNotYetValid => {
                Problem::new(403, code, "Not your turn", "Your turn in line has not come.")
            }
            Refusal::TicketExpired => {
                let detail = "The ticket's time is over; stand in line for another.";
                Problem::new(403, code, "Ticket expired", detail)
            }
            Refusal::NoWaitingRoom => {
                let detail = "This item is bought without a ticket.";
                Problem::new(409, code, "No waiting room", detail)
            }
            Refusal::ItemNotFound => {
                Problem::new(404, code, "No such item", "There is no such item.")
            }
            Refusal::StrategyNotFound => {
                let detail = "There is no such strategy; see /api/strategies.";
                Problem::new(404, code, "No such strategy", detail)
            }
            Refusal::OptionsNotTaken => {
                Problem::new(400, code, "Not a parameter", "This strategy takes no parameters.")
            }
            Refusal::UnsafeStrategy => {
                let detail = "This strategy can oversell; it works on lab items only.";
                Problem::new(403, code, "Unsafe strategy", detail)
            }
            Refusal::AmountOverflow => Problem::new(
                422,
                code,
                "Amount too large",
                "The price of so many units is out of range.",
            ),
            Refusal::RequestInProgress => request_in_progress(),
            Refusal::KeyReused { order_id } => {
                let detail = "This Idempotency-Key belongs to an order for another quantity.";
                Problem::new(422, code, "Key already used", detail)
                    .with("order_id", order_id.to_string())
            }
        }
    }
}

impl From<Unavailable> for Problem {
    fn from(why: Unavailable) -> Self {
        let code = why.code();
        match why {
            Unavailable::Contended => {
                let detail = "Too many buyers at once; nothing changed.";
                Problem::new(503, code, "Contended", detail).retry_after(1)
            }
            Unavailable::Overloaded => {
                let detail = "Too many purchases are running; nothing changed.";
                Problem::new(503, code, "Overloaded", detail).retry_after(1)
            }
            Unavailable::StrategyUnavailable => {
                let detail = "The servers of this strategy are not configured here.";
                Problem::new(503, code, "Strategy unavailable", detail)
            }
            Unavailable::Dependency(dependency) | Unavailable::Faulty(dependency) => {
                Problem::dependency(dependency.name())
            }
            Unavailable::ReadOnly => Problem::read_only(),
        }
    }
}

/// The answer while an earlier purchase of the buyer runs. Where that may be the same request, its
/// outcome is unknown.
#[must_use]
pub fn request_in_progress() -> Problem {
    let detail = "Your purchase is still running; ask again in a moment.";
    Problem::new(409, "request_in_progress", "Still running", detail).retry_after(1)
}

/// The answer to an unknown outcome.
#[must_use]
pub fn outcome_unknown() -> Problem {
    let detail = "It may or may not have happened: ask again with the same Idempotency-Key.";
    Problem::new(504, "outcome_unknown", "Outcome unknown", detail).outcome_unknown().retry_after(1)
}

impl From<FindError> for Problem {
    fn from(error: FindError) -> Self {
        match error {
            FindError::Ledger(error) => Problem::database(&error),
            FindError::Queue(error) => {
                tracing::warn!(%error, "the queues could not be looked at");
                Problem::dependency("redis")
            }
        }
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        match error {
            StepError::NotFound => order_not_found(),
            StepError::Conflict(order) => {
                let detail = format!("The order is {}.", order.status.as_str());
                Problem::new(409, "order_state_conflict", "The order does not allow it", detail)
                    .with("order_status", order.status.as_str())
            }
            StepError::SoldOut => {
                Problem::new(409, "sold_out", "Sold out", "The hold ran out and the stock is sold.")
            }
            StepError::LimitReached => {
                let detail = "The hold ran out and you have bought the limit since.";
                Problem::new(409, "limit_reached", "Limit reached", detail)
            }
            StepError::Away => Problem::dependency("mysql"),
            // Doing the same step again tells, so it is safe to say so.
            StepError::Unavailable(_) => Problem::dependency_lost("mysql"),
            StepError::ReadOnly => Problem::read_only(),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::NotFound => Refusal::ItemNotFound.into(),
            EditError::RevisionChanged => {
                let detail = "The item was edited since you read it.";
                Problem::new(412, "precondition_failed", "Edited since", detail)
            }
            EditError::InvalidSchedule => invalid_schedule(),
            EditError::StockOutOfRange => {
                let detail = "That many units are sold or held, or the stock would be too large.";
                Problem::new(422, "stock_below_sold", "Not enough units left", detail)
            }
            EditError::Database(error) => Problem::database_change(&error),
        }
    }
}

/// No such order, or another's: the two are not told apart.
#[must_use]
pub fn order_not_found() -> Problem {
    Problem::new(404, "order_not_found", "No such order", "There is no such order.")
}

/// A schedule that cannot be.
#[must_use]
pub fn invalid_schedule() -> Problem {
    let detail = "starts_at and ends_at are RFC 3339 times with a zone, the start before the end, up to the year 9999.";
    Problem::new(422, "invalid_schedule", "Not a schedule", detail)
}
