//! The table of the failures that all routes share: of requests, of servers, and the refusals of the shop's domain; and
//! which outcome of the domain is which of them.

use std::collections::HashMap;
use std::sync::LazyLock;

use axum::http::StatusCode;
use shop_domain::{LedgerError, Refusal, Unavailable};
use time::OffsetDateTime;

use crate::problem::{Problem, ProblemType, rfc3339};

crate::problem_types! {
    HOST_MISSING: 400 "host_missing", "Send a Host header with the name of this service.";
    BAD_REQUEST: 400 "bad_request", "Compare the request with the description at /docs.";
    INVALID_PATH_PARAMETER: 400 "invalid_path_parameter",
        "Send an item id as a whole number from 1, and an order id as a UUID with hyphens.";
    INVALID_QUERY_PARAMETER: 400 "invalid_query_parameter",
        "Send only the query parameters that /docs lists for this operation, each at most once.";
    INVALID_IDEMPOTENCY_KEY: 400 "idempotency_key_invalid",
        "Send one Idempotency-Key of 1 to 64 printable ASCII characters without spaces.";
    INVALID_BUYER_REFERENCE: 400 "buyer_reference_invalid",
        "Send the shop's reference of the buyer, 1 to 255 printable ASCII characters without spaces, as Buyer-Reference.";
    MALFORMED_JSON: 400 "malformed_json", "Send a complete JSON object.";
    UNAUTHENTICATED: 401 "unauthenticated", "Sign in, or send a token as Authorization: Bearer.";
    INVALID_TOKEN: 401 "invalid_token", "Sign in again to get a valid token.";
    TOKEN_EXPIRED: 401 "token_expired", "Sign in again to get a new token.";
    CROSS_SITE_REQUEST: 403 "cross_site_request",
        "Send this request from a page of this site; a proxy in front must pass Host on.";
    FORBIDDEN: 403 "forbidden", "Sign in as an operator.";
    UNSAFE_STRATEGY: 403 "unsafe_strategy", "This strategy can oversell; it works on lab items only.";
    TICKET_REQUIRED: 403 "ticket_required",
        "Get a ticket with POST /api/items/{id}/ticket, and send it as Purchase-Ticket.";
    TICKET_INVALID: 403 "ticket_invalid", "Get a ticket of your own for this item with POST /api/items/{id}/ticket.";
    TICKET_NOT_YET_VALID: 403 "ticket_not_yet_valid",
        "Call POST /api/items/{id}/ticket again until it answers with a ticket.";
    TICKET_EXPIRED: 403 "ticket_expired", "Get a new ticket with POST /api/items/{id}/ticket.";
    NOT_FOUND: 404 "not_found", "Check the address; /docs lists every operation.";
    ITEM_NOT_FOUND: 404 "item_not_found", "Check the item id; GET /api/items lists the sales.";
    STRATEGY_NOT_FOUND: 404 "strategy_not_found", "Choose a strategy that GET /api/strategies lists.";
    ORDER_NOT_FOUND: 404 "order_not_found", "Check the order id; GET /api/orders lists your orders.";
    METHOD_NOT_ALLOWED: 405 "method_not_allowed", "Use a method that the Allow header lists.";
    NOT_ACCEPTABLE: 406 "not_acceptable", "Accept a media type that /docs names for this operation, or */*.";
    REQUEST_TIMEOUT: 408 "request_timeout", "Send the whole request body in time.";
    SOLD_OUT: 409 "sold_out", "Fewer units are left than you want; try again if unpaid orders expire.";
    LIMIT_REACHED: 409 "limit_reached", "You have bought as many units as one buyer may have.";
    GROUP_LIMIT_REACHED: 409 "group_limit_reached",
        "You have bought as many units of these items together as one buyer may have.";
    UNPAID_LIMIT_REACHED: 409 "unpaid_limit_reached",
        "Your holds of this item expired unpaid; when it is sold out, join its waiting list.";
    IDENTITY_OFF: 409 "identity_off", "Set identity.issuer and identity.client_id, and start the service again.";
    NO_WAITING_LIST: 409 "no_waiting_list", "Try again when unpaid orders expire: nobody can wait for this item.";
    UNITS_LEFT: 409 "units_left", "Buy the item now: units are left.";
    WAITING_LIST_FULL: 409 "waiting_list_full", "Try again later: the waiting list has reached its limit.";
    NO_OFFER: 409 "no_offer",
        "GET /api/items/{id}/waiting tells your place; an offer that was not accepted in time is over.";
    DRAW_ONLY: 409 "draw_only",
        "Enter the draw with POST /api/items/{id}/entry; the units are offered in the order of the places.";
    OTHER_CURRENCY: 409 "other_currency",
        "Order the items of each currency by themselves; item_id names the first item with another currency.";
    ITEMS_APART: 409 "items_apart",
        "Order the item by itself; item_id names the first one that is in another shard than the first line.";
    SALE_NOT_STARTED: 409 "sale_not_started", "Try again when the sale has started.";
    SALE_ENDED: 409 "sale_ended", "Choose another sale; GET /api/items lists them.";
    SALE_PAUSED: 409 "sale_paused", "The operator has paused this sale; try again later.", retry 5;
    NO_WAITING_ROOM: 409 "no_waiting_room", "Buy this item without a ticket.";
    REQUEST_IN_PROGRESS: 409 "request_in_progress",
        "An earlier purchase of yours is still running; send the request again in a moment.", retry 1;
    PAYLOAD_TOO_LARGE: 413 "payload_too_large", "Send a smaller body.";
    UNSUPPORTED_ENCODING: 415 "unsupported_encoding", "Send the body without a Content-Encoding.";
    UNSUPPORTED_MEDIA_TYPE: 415 "unsupported_media_type", "Send the body as application/json.";
    MISDIRECTED_REQUEST: 421 "misdirected_request",
        "Use a host name of this service; the setting http.hosts lists them.";
    INVALID_TYPE: 422 "invalid_type", "Send each field with the type that /docs names.";
    UNKNOWN_FIELD: 422 "unknown_field", "Send only the fields that /docs names.";
    DUPLICATE_FIELD: 422 "duplicate_field", "Send each field once.";
    MISSING_FIELD: 422 "missing_field", "Send every required field.";
    OUT_OF_RANGE: 422 "out_of_range", "Send a number in the range that /docs names.";
    QUANTITY_OVER_LIMIT: 422 "quantity_over_limit", "Buy fewer units.";
    AMOUNT_OVERFLOW: 422 "amount_overflow", "Buy fewer units: their price together is out of range.";
    IDEMPOTENCY_KEY_REUSED: 422 "idempotency_key_reused",
        "This key belongs to an order for another quantity or with other lines, or to a request with another body; use a new key.";
    INVALID_OPTIONS: 422 "invalid_options", "Send only options that this strategy takes.";
    RATE_LIMITED: 429 "rate_limited", "Send fewer requests.", retry 5;
    INTERNAL: 500 "internal", "Give the request_id to the operator, who finds it in the log.";
    OVERLOADED: 503 "overloaded", "Try again in a moment.", retry 1;
    CONTENDED: 503 "contended", "Too many buyers want this item at once and nothing changed; try again.", retry 1;
    STRATEGY_UNAVAILABLE: 503 "strategy_unavailable", "Choose a strategy that GET /api/strategies calls available.";
    DEPENDENCY_UNAVAILABLE: 503 "dependency_unavailable",
        "A server that this service needs does not answer; try again.", retry 1;
    OUTCOME_UNKNOWN: 504 "outcome_unknown",
        "It may or may not have happened; send the request again with the same Idempotency-Key.", retry 1;
    STOCK_OUT_OF_RANGE: 422 "stock_out_of_range", "Send a stock in the range that /docs names.";
    QUANTITY_OUT_OF_RANGE: 422 "quantity_out_of_range", "Send a quantity in the range that /docs names.";
    UNKNOWN_STRATEGY: 422 "unknown_strategy", "Choose a strategy that GET /api/strategies lists.";
    INVALID_SCHEDULE: 422 "invalid_schedule",
        "Send starts_at and ends_at as RFC 3339 times with a zone, the start before the end, up to the year 9999.";
    INVALID_DRAW: 422 "invalid_draw",
        "Send mode draw with draw_closes_at between starts_at and ends_at, the arbiter on, offer_seconds of at least 1, and draw_party_max of 1 to 4.";
}

/// The detail for a call that got no connection to the ledger although its server answers.
const NO_CONNECTION: &str =
    "All connections to the database are in use and nothing changed; try again.";

/// The shared types of problem by their code.
static BY_CODE: LazyLock<HashMap<&str, &'static ProblemType>> =
    LazyLock::new(|| ALL.iter().map(|kind| (kind.code(), *kind)).collect());

/// The type of a code; a test sees to it that each code of an outcome has one.
fn type_of(code: &str) -> &'static ProblemType {
    BY_CODE.get(code).copied().unwrap_or(&INTERNAL)
}

impl Problem {
    /// A server that is needed does not answer; nothing changed. `name` is the server's.
    pub fn dependency(name: &str) -> Self {
        let detail = format!("{name} does not answer and nothing changed; try again.");
        DEPENDENCY_UNAVAILABLE.detail(detail)
    }

    /// A server that was asked for a change did not answer: the change may have been made.
    pub fn dependency_lost(name: &str) -> Self {
        let detail = format!(
            "{name} did not answer, and the change may or may not have been made; look before you try again."
        );
        DEPENDENCY_UNAVAILABLE.detail(detail).outcome_unknown()
    }

    /// The database answers, but takes no writes.
    pub fn read_only() -> Self {
        DEPENDENCY_UNAVAILABLE
            .detail("mysql takes no writes at the moment and nothing changed; try again.")
    }

    /// The problem of a failure that axum or a layer answered by its status alone.
    pub fn of_status(status: StatusCode) -> Self {
        match status.as_u16() {
            404 => NOT_FOUND.problem(),
            405 => METHOD_NOT_ALLOWED.problem(),
            408 => REQUEST_TIMEOUT.problem(),
            413 => PAYLOAD_TOO_LARGE.problem().close(),
            415 => UNSUPPORTED_MEDIA_TYPE.problem(),
            400..=499 => BAD_REQUEST.problem().with_status(status),
            503 => OVERLOADED.problem(),
            _ => INTERNAL.problem(),
        }
    }
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
            Unavailable::Overloaded => {
                OVERLOADED.detail("Too many purchases are running and nothing changed; try again.")
            }
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
            LedgerError::Contended => CONTENDED.problem(),
            LedgerError::Overloaded => OVERLOADED.detail(NO_CONNECTION),
            LedgerError::Unavailable => Self::dependency("mysql"),
            LedgerError::ReadOnly => Self::read_only(),
            // A mistake of ours: the log says which column.
            LedgerError::DoesNotFit => INTERNAL.problem(),
            LedgerError::OutcomeUnknown => Self::dependency_lost("mysql"),
        }
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
