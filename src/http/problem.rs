//! Errors as RFC 9457 problem details: one shape, one table from outcomes to status codes.
//!
//! A [`Problem`] travels in the response's extensions; the outermost layer writes the body, since
//! only there the request's id is known. Errors that axum makes by itself get the same shape there.

use std::borrow::Cow;

use axum::http::header::{CONNECTION, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use serde_json::{Map, Value};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use utoipa::ToSchema;

use crate::domain::{Refusal, Unavailable};
use crate::order::{FindError, StepError};
use crate::store::mysql::items::EditError;
use crate::store::mysql::nothing_was_sent;

/// An error on its way to the client.
#[derive(Clone, Debug)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    title: &'static str,
    detail: Cow<'static, str>,
    unknown: bool,
    retry_after_seconds: Option<u32>,
    more: Map<String, Value>,
    headers: Vec<(HeaderName, HeaderValue)>,
    close: bool,
}

/// The body of an error.
#[derive(Serialize, ToSchema)]
pub struct ProblemBody<'a> {
    /// Names the kind of problem; `/docs` explains it.
    #[schema(example = "/problems/sold_out")]
    #[schema(value_type = String)]
    r#type: TypeOf,
    /// The kind of problem in words.
    title: &'static str,
    /// The status code again.
    status: u16,
    /// What went wrong this time.
    detail: &'a str,
    /// The kind of problem for programs.
    #[schema(example = "sold_out")]
    code: &'static str,
    /// Whether anything may have changed: `none`, or `unknown` (ask again with the same key).
    outcome: &'static str,
    /// Whether the same request may succeed later.
    retryable: bool,
    /// Quote this when you ask for help.
    request_id: &'a str,
    /// What this kind of problem adds.
    #[serde(flatten)]
    #[schema(ignore)]
    more: &'a Map<String, Value>,
}

/// The address of a code's explanation.
struct TypeOf(&'static str);

impl Serialize for TypeOf {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("/problems/{}", self.0))
    }
}

impl Problem {
    /// An error with a code of the catalogue.
    #[must_use]
    pub fn new(
        status: u16,
        code: &'static str,
        title: &'static str,
        detail: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            status: StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR),
            code,
            title,
            detail: detail.into(),
            unknown: false,
            retry_after_seconds: None,
            more: Map::new(),
            headers: Vec::new(),
            close: false,
        }
    }

    /// Says when to try again.
    #[must_use]
    pub fn retry_after(mut self, seconds: u32) -> Self {
        self.retry_after_seconds = Some(seconds);
        self
    }

    /// Says that something may have changed.
    #[must_use]
    pub fn outcome_unknown(mut self) -> Self {
        self.unknown = true;
        self
    }

    /// Adds a member of its own kind.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.more.insert(name.to_owned(), value.into());
        self
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.push((name, value));
        self
    }

    /// Closes the connection after the answer: its body was not read to the end.
    #[must_use]
    pub fn close(mut self) -> Self {
        self.close = true;
        self
    }

    /// The code.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.code
    }

    /// The body for the request `request_id`.
    #[must_use]
    pub fn body(&self, request_id: &str) -> Vec<u8> {
        let body = ProblemBody {
            r#type: TypeOf(self.code),
            title: self.title,
            status: self.status.as_u16(),
            detail: &self.detail,
            code: self.code,
            outcome: if self.unknown { "unknown" } else { "none" },
            retryable: self.is_retryable(),
            request_id,
            more: &self.more,
        };
        // Strings and numbers: nothing that could not be written.
        serde_json::to_vec(&body).unwrap_or_default()
    }

    fn is_retryable(&self) -> bool {
        self.unknown || self.retry_after_seconds.is_some()
    }

    /// Whatever went wrong inside.
    #[must_use]
    pub fn internal() -> Self {
        Self::new(500, "internal", "Something went wrong", "The service failed; it has been noted.")
    }

    /// A server that is needed does not answer; nothing changed.
    #[must_use]
    pub fn dependency(name: &str) -> Self {
        let detail = format!("{name} does not answer; nothing changed.");
        Self::new(503, "dependency_unavailable", "A server does not answer", detail).retry_after(1)
    }

    /// The database failed in a read: log it once, here, and answer.
    #[must_use]
    pub fn database(error: &sqlx::Error) -> Self {
        tracing::warn!(%error, "the ledger could not be read");
        Self::dependency("mysql")
    }

    /// The database failed in a change: the same, and it may have been made unless nothing was sent.
    #[must_use]
    pub fn database_change(error: &sqlx::Error) -> Self {
        let problem = Self::database(error);
        if nothing_was_sent(error) { problem } else { problem.outcome_unknown() }
    }

    /// There is nothing there.
    #[must_use]
    pub fn not_found() -> Self {
        Self::new(404, "not_found", "Not found", "There is nothing at this address.")
    }

    /// An error that axum or a layer made by itself.
    #[must_use]
    pub fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            404 => Self::not_found(),
            405 => {
                Self::new(405, "method_not_allowed", "Method not allowed", "See the Allow header.")
            }
            408 => {
                Self::new(408, "request_timeout", "Too slow", "The request did not arrive in time.")
            }
            413 => Self::new(
                413,
                "payload_too_large",
                "Body too large",
                "The body is above the limit.",
            )
            .close(),
            415 => Self::new(415, "unsupported_media_type", "Not JSON", "Send application/json."),
            code @ 400..=499 => {
                Self::new(code, "bad_request", "Bad request", "The request was not understood.")
            }
            503 => Self::new(503, "overloaded", "Busy", "Try again in a moment.").retry_after(1),
            _ => Self::internal(),
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = self.status.into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after_seconds {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        headers.extend(self.headers.iter().cloned());
        if self.close {
            headers.insert(CONNECTION, HeaderValue::from_static("close"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

/// A time as it stands in answers.
#[must_use]
pub fn rfc3339(instant: OffsetDateTime) -> String {
    instant.format(&Rfc3339).unwrap_or_default()
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Self {
        let code = refusal.code();
        match refusal {
            Refusal::SoldOut => {
                Self::new(409, code, "Sold out", "There are not enough units left.")
            }
            Refusal::LimitReached { limit } => {
                let detail = format!("You have bought the {limit} that one buyer may have.");
                Self::new(409, code, "Limit reached", detail).with("orders", "/api/orders")
            }
            Refusal::QuantityOverLimit { limit } => {
                let detail = format!("One buyer may have {limit}.");
                Self::new(422, code, "More than one buyer may have", detail)
            }
            Refusal::SaleNotStarted { starts_at } => {
                let starts_at = rfc3339(starts_at);
                let detail = format!("The sale starts at {starts_at}.");
                Self::new(409, code, "Not yet", detail)
                    .with("starts_at", starts_at)
                    .with("server_time", rfc3339(OffsetDateTime::now_utc()))
            }
            Refusal::SaleEnded => Self::new(409, code, "Over", "The sale is over."),
            Refusal::SalePaused => {
                Self::new(409, code, "Paused", "The shop has paused this sale.").retry_after(5)
            }
            Refusal::TicketRequired => {
                let detail = "Stand in line for a ticket, and send it as Purchase-Ticket.";
                Self::new(403, code, "Ticket needed", detail)
            }
            Refusal::TicketInvalid => {
                let detail = "It is no ticket of yours for this item; stand in line for one.";
                Self::new(403, code, "Not a ticket", detail)
            }
            Refusal::TicketNotYetValid => {
                Self::new(403, code, "Not your turn", "Your turn in line has not come.")
            }
            Refusal::TicketExpired => {
                let detail = "The ticket's time is over; stand in line for another.";
                Self::new(403, code, "Ticket expired", detail)
            }
            Refusal::NoWaitingRoom => {
                let detail = "This item is bought without a ticket.";
                Self::new(409, code, "No waiting room", detail)
            }
            Refusal::ItemNotFound => Self::new(404, code, "No such item", "There is no such item."),
            Refusal::StrategyNotFound => {
                let detail = "There is no such strategy; see /api/strategies.";
                Self::new(404, code, "No such strategy", detail)
            }
            Refusal::OptionsNotTaken => {
                Self::new(400, code, "Not a parameter", "This strategy takes no parameters.")
            }
            Refusal::UnsafeStrategy => {
                let detail = "This strategy can oversell; it works on lab items only.";
                Self::new(403, code, "Unsafe strategy", detail)
            }
            Refusal::AmountOverflow => Self::new(
                422,
                code,
                "Amount too large",
                "The price of so many units is out of range.",
            ),
            Refusal::RequestInProgress => {
                let detail = "Your purchase is still running; ask again in a moment.";
                Self::new(409, code, "Still running", detail).retry_after(1)
            }
            Refusal::KeyReused { order_id } => {
                let detail = "This Idempotency-Key belongs to an order for another quantity.";
                Self::new(422, code, "Key already used", detail)
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
                Self::new(503, code, "Contended", detail).retry_after(1)
            }
            Unavailable::Overloaded => {
                let detail = "Too many purchases are running; nothing changed.";
                Self::new(503, code, "Overloaded", detail).retry_after(1)
            }
            Unavailable::StrategyUnavailable => {
                let detail = "The servers of this strategy are not configured here.";
                Self::new(503, code, "Strategy unavailable", detail)
            }
            Unavailable::Dependency(dependency) => Self::dependency(dependency.name()),
        }
    }
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
            FindError::Ledger(error) => Self::database(&error),
            FindError::Queue(error) => {
                tracing::warn!(%error, "the queues could not be looked at");
                Self::dependency("redis")
            }
        }
    }
}

impl From<StepError> for Problem {
    fn from(error: StepError) -> Self {
        match error {
            StepError::NotFound => order_not_found(),
            StepError::Conflict(order) => {
                let detail = format!("The order is {}.", order.status.word());
                Self::new(409, "order_state_conflict", "The order does not allow it", detail)
                    .with("order_status", order.status.word())
            }
            StepError::SoldOut => {
                Self::new(409, "sold_out", "Sold out", "The hold ran out and the stock is sold.")
            }
            StepError::LimitReached => {
                let detail = "The hold ran out and you have bought the limit since.";
                Self::new(409, "limit_reached", "Limit reached", detail)
            }
            StepError::Away => Self::dependency("mysql"),
            // Doing the same step again tells, so it is safe to say so.
            StepError::Unavailable(_) => Self::dependency("mysql").outcome_unknown(),
        }
    }
}

impl From<EditError> for Problem {
    fn from(error: EditError) -> Self {
        match error {
            EditError::NotFound => Refusal::ItemNotFound.into(),
            EditError::RevisionChanged => {
                let detail = "The item was edited since you read it.";
                Self::new(412, "precondition_failed", "Edited since", detail)
            }
            EditError::InvalidSchedule => invalid_schedule(),
            EditError::StockOutOfRange => {
                let detail = "That many units are sold or held, or the stock would be too large.";
                Self::new(422, "stock_below_sold", "Not enough units left", detail)
            }
            EditError::Database(error) => Self::database_change(&error),
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
