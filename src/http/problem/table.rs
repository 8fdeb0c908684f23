//! The table of problem types: which failure has which status, code, title and advice.
//!
//! Clients compare `code`. `title` names the problem as one would search for it. `detail` says what
//! to do about it; a handler that knows more replaces it ([`ProblemType::detail`]).

use std::borrow::Cow;

use super::Problem;

/// Declares the types of problem, one a row: status, code, title, detail and, where it is worth
/// while to send the same request again, after how many seconds.
macro_rules! problem_types {
    ($($name:ident: $status:literal $code:literal, $title:literal, $detail:literal $(, retry $seconds:literal)?;)*) => {
        /// A type of problem (RFC 9457), by its row in the table.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum ProblemType {
            $(#[doc = $title] $name,)*
        }

        impl ProblemType {
            /// Every type, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$name,)*];

            fn row(self) -> Row {
                match self {
                    $(Self::$name => Row {
                        status: $status,
                        code: $code,
                        title: $title,
                        detail: $detail,
                        retry_after_seconds: None $(.or(Some($seconds)))?,
                    },)*
                }
            }
        }
    };
}

problem_types! {
    HostMissing: 400 "host_missing", "Missing Host header",
        "Send a Host header with the name of this service.";
    BadRequest: 400 "bad_request", "Bad request",
        "Compare the request with the description at /docs.";
    InvalidPathParameter: 400 "invalid_path_parameter", "Invalid path parameter",
        "Send an item id as a whole number from 1, and an order id as a UUID with hyphens.";
    InvalidQueryParameter: 400 "invalid_query_parameter", "Invalid query parameter",
        "Send only the query parameters that /docs lists for this operation, each at most once.";
    InvalidIdempotencyKey: 400 "idempotency_key_invalid", "Invalid Idempotency-Key",
        "Send one Idempotency-Key of 1 to 64 printable ASCII characters without spaces.";
    InvalidBuyerReference: 400 "buyer_reference_invalid", "Invalid reference of a buyer",
        "Send the shop's reference of the buyer, 1 to 64 printable ASCII characters without spaces, as Buyer-Reference.";
    MalformedJson: 400 "malformed_json", "Malformed JSON",
        "Send a complete JSON object.";

    Unauthenticated: 401 "unauthenticated", "Missing token",
        "Sign in, or send a token as Authorization: Bearer.";
    InvalidToken: 401 "invalid_token", "Invalid token",
        "Sign in again to get a valid token.";
    TokenExpired: 401 "token_expired", "Expired token",
        "Sign in again to get a new token.";
    InvalidCredentials: 401 "invalid_credentials", "Wrong user name or password",
        "Check the user name and the password.";

    IdentityRefused: 401 "identity_refused", "Sign-in not confirmed by the identity provider",
        "Get a new token of the identity provider for this service, or sign in again.";

    InvalidSignature: 403 "invalid_signature", "Invalid signature",
        "Sign id, time stamp and body with the secret, and send the message within five minutes.";
    CrossSiteRequest: 403 "cross_site_request", "Cross-site request",
        "Send this request from a page of this site.";
    Forbidden: 403 "forbidden", "Another role required",
        "Sign in as an operator.";
    PasswordsOff: 403 "passwords_off", "Passwords switched off",
        "Sign in by the identity provider.";
    SignInNotStarted: 403 "sign_in_not_started", "Sign-in not started in this browser",
        "Start again on the page of sign-in, and finish within ten minutes.";
    UnsafeStrategy: 403 "unsafe_strategy", "Unsafe strategy",
        "This strategy can oversell; it works on lab items only.";
    TicketRequired: 403 "ticket_required", "Missing purchase ticket",
        "Get a ticket with POST /api/items/{id}/ticket, and send it as Purchase-Ticket.";
    TicketInvalid: 403 "ticket_invalid", "Invalid purchase ticket",
        "Get a ticket of your own for this item with POST /api/items/{id}/ticket.";
    TicketNotYetValid: 403 "ticket_not_yet_valid", "Purchase ticket not yet valid",
        "Call POST /api/items/{id}/ticket again until it answers with a ticket.";
    TicketExpired: 403 "ticket_expired", "Expired purchase ticket",
        "Get a new ticket with POST /api/items/{id}/ticket.";
    ChallengeFailed: 403 "challenge_failed", "Proof of work required",
        "Solve the challenge, and send the answer as altcha.";

    NotFound: 404 "not_found", "Unknown address",
        "Check the address; /docs lists every operation.";
    ItemNotFound: 404 "item_not_found", "Item not found",
        "Check the item id; GET /api/items lists the sales.";
    StrategyNotFound: 404 "strategy_not_found", "Strategy not found",
        "Choose a strategy that GET /api/strategies lists.";
    AccountNotFound: 404 "account_not_found", "Account not found",
        "Sign in with an account that has a password of its own.";
    LimitGroupNotFound: 404 "limit_group_not_found", "Limit group not found",
        "Check the group's id; GET /api/admin/limit-groups lists the groups.";
    ProductNotFound: 404 "product_not_found", "Product not found",
        "Check the product's id; GET /api/admin/products lists the products.";
    OrderNotFound: 404 "order_not_found", "Order not found",
        "Check the order id; GET /api/orders lists your orders.";
    RunNotFound: 404 "run_not_found", "Lab run not found",
        "Check the run id; GET /api/lab/runs lists the last runs.";
    PaymentNotFound: 404 "payment_not_found", "Payment not found",
        "Check the payment id; GET /api/admin/payments lists the payments.";
    EndpointNotFound: 404 "endpoint_not_found", "Endpoint not found",
        "Check the endpoint id; GET /api/admin/endpoints lists the endpoints.";
    MethodNotAllowed: 405 "method_not_allowed", "Method not allowed",
        "Use a method that the Allow header lists.";
    NotAcceptable: 406 "not_acceptable", "No acceptable media type",
        "Accept application/json, or text/event-stream for events.";
    RequestTimeout: 408 "request_timeout", "Request timeout",
        "Send the whole request body in time.";

    SoldOut: 409 "sold_out", "Item sold out",
        "Fewer units are left than you want; try again if unpaid orders expire.";
    LimitReached: 409 "limit_reached", "Purchase limit reached",
        "You have bought as many units as one buyer may have.";
    GroupLimitReached: 409 "group_limit_reached", "Purchase limit of a group reached",
        "You have bought as many units of these items together as one buyer may have.";
    UnpaidLimitReached: 409 "unpaid_limit_reached", "Too many unpaid holds",
        "Your holds of this item expired unpaid; when it is sold out, join its waiting list.";
    NoWaitingList: 409 "no_waiting_list", "Item without waiting list",
        "Try again when unpaid orders expire: nobody can wait for this item.";
    UnitsLeft: 409 "units_left", "Units left",
        "Buy the item now: units are left.";
    WaitingListFull: 409 "waiting_list_full", "Waiting list full",
        "Try again later: as many buyers wait as can.";
    NoOffer: 409 "no_offer", "No open offer",
        "GET /api/items/{id}/waiting tells your place; an offer that was not accepted in time is over.";
    DrawOnly: 409 "draw_only", "Units are drawn",
        "Enter the draw with POST /api/items/{id}/entry; the units are offered in the order of the places.";
    NoDraw: 409 "no_draw", "Item without draw",
        "Buy this item; it is not drawn.";
    EntriesClosed: 409 "entries_closed", "Draw closed",
        "Nobody can enter or withdraw any more; GET /api/items/{id}/entry tells your place after the draw.";
    EntriesOpen: 409 "entries_open", "List of entries not published yet",
        "Read the list after the close of the draw.", retry 5;
    DrawFull: 409 "draw_full", "Draw full",
        "The draw has as many entries as it can.";
    PartyNotFound: 409 "party_not_found", "No such party",
        "Nobody in the draw has this key; ask your friend for it again, or enter without a key.";
    PartyFull: 409 "party_full", "Party full",
        "As many friends are together as this draw allows; enter without a key.";
    TooManyLimitGroups: 409 "too_many_limit_groups", "Too many limit groups",
        "Use a group that exists.";
    TooManyProducts: 409 "too_many_products", "Too many products",
        "Use a product that exists.";
    OtherCurrency: 409 "other_currency", "Items in several currencies",
        "Order the items of each currency by themselves; item_id names the first item with another currency.";
    CurrencyFixed: 409 "currency_fixed", "Currency cannot be changed",
        "Create another item: the currency stays once the sale has begun or the item has orders.";
    SaleNotStarted: 409 "sale_not_started", "Sale not started",
        "Try again when the sale has started.";
    SaleEnded: 409 "sale_ended", "Sale ended",
        "Choose another sale; GET /api/items lists them.";
    SalePaused: 409 "sale_paused", "Sale paused",
        "The operator has paused this sale; try again later.", retry 5;
    NoWaitingRoom: 409 "no_waiting_room", "Item without waiting room",
        "Buy this item without a ticket.";
    PaymentAccepted: 409 "payment_accepted", "Payment has paid its order",
        "Only money that has to go back can be noted as refunded; this money has paid an order.";
    RequestInProgress: 409 "request_in_progress", "Purchase in progress",
        "An earlier purchase of yours is still running; send the request again in a moment.", retry 1;
    OrderStateConflict: 409 "order_state_conflict", "Order state conflict",
        "Read the order: its status does not allow this step.";
    HoldOver: 409 "hold_over", "Hold over",
        "The hold of this order is over: pay while units are left, or place a new order.";
    HoldNotExtendable: 409 "hold_not_extendable", "Hold not extendable",
        "Pay before the hold is over: an item of this order allows no longer hold.";
    OrderNotReturnable: 409 "order_not_returnable", "Order not returnable",
        "Keep this order: an item of it is not taken back, or not any more.";
    OrdersOpen: 409 "orders_open", "Orders open",
        "Pay or cancel your open orders, or wait until they expire; then delete the account.";
    OperatorAccount: 409 "operator_account", "Account of an operator",
        "Take the role from the account with `seckill operator revoke`; then delete the account.";
    UsernameTaken: 409 "username_taken", "User name taken",
        "Choose another user name.";
    LabBusy: 409 "lab_busy", "Lab run in progress",
        "Wait for the end of the other run, or end it with DELETE /api/lab/runs/{id}.", retry 5;
    PaymentsOff: 409 "payments_off", "No payment provider",
        "Set payment.provider to webhook, and start the service again.";
    IdentityOff: 409 "identity_off", "No identity provider",
        "Set identity.issuer and identity.client_id, and start the service again.";
    EventsOff: 409 "events_off", "Events switched off",
        "Set events.enabled in the settings, and start the service again.";
    TooManyEndpoints: 409 "too_many_endpoints", "Too many endpoints",
        "Delete an endpoint that is not needed any more.";
    PreconditionFailed: 412 "precondition_failed", "Item edited since it was read",
        "Read the item again, and send its ETag as If-Match.";
    PayloadTooLarge: 413 "payload_too_large", "Request body too large",
        "Send a smaller body.";
    UnsupportedEncoding: 415 "unsupported_encoding", "Unsupported content encoding",
        "Send the body without a Content-Encoding.";
    UnsupportedMediaType: 415 "unsupported_media_type", "Unsupported media type",
        "Send the body as application/json.";
    MisdirectedRequest: 421 "misdirected_request", "Unknown host name",
        "Use a host name of this service; the setting http.hosts lists them.";

    InvalidType: 422 "invalid_type", "Invalid field type",
        "Send each field with the type that /docs names.";
    UnknownField: 422 "unknown_field", "Unknown field",
        "Send only the fields that /docs names.";
    DuplicateField: 422 "duplicate_field", "Duplicate field",
        "Send each field once.";
    MissingField: 422 "missing_field", "Missing field",
        "Send every required field.";
    OutOfRange: 422 "out_of_range", "Number out of range",
        "Send a number in the range that /docs names.";
    QuantityOutOfRange: 422 "quantity_out_of_range", "Quantity out of range",
        "Send a quantity in the range that /docs names.";
    LinesOutOfRange: 422 "lines_out_of_range", "Number of lines out of range",
        "Send as many lines as /docs allows, and at least one.";
    DuplicateItem: 422 "duplicate_item", "Item in several lines",
        "Send one line for each item, with all units of it.";
    QuantityOverLimit: 422 "quantity_over_limit", "Quantity above the purchase limit",
        "Buy fewer units.";
    AmountOverflow: 422 "amount_overflow", "Amount out of range",
        "Buy fewer units: their price together is out of range.";
    IdempotencyKeyReused: 422 "idempotency_key_reused", "Idempotency-Key reused",
        "This key belongs to an order for another quantity or with other lines; use a new key.";
    InvalidUsername: 422 "invalid_username", "Invalid user name",
        "Send 1 to 32 letters, digits, '.', '_' and '-' of one script.";
    InvalidPassword: 422 "invalid_password", "Invalid password",
        "Send at least 8 characters and at most 256 bytes.";
    CommonPassword: 422 "common_password", "Common password",
        "Choose another password: this one is among those that attackers try first, or is the user name.";
    InvalidText: 422 "invalid_text", "Invalid text",
        "Send printable text within the limits that /docs names.";
    InvalidTable: 422 "invalid_table", "Invalid table of items",
        "Send CSV in UTF-8 with a line of column names; faults lists each error with its line.";
    InvalidMessage: 422 "invalid_message", "Invalid message of the payment provider",
        "Send type, payment, order and amount_cents as /docs says.";
    InvalidTarget: 422 "invalid_target", "Invalid target of an endpoint",
        "Send an https address for a webhook, or a plain name for a stream.";
    InvalidFilter: 422 "invalid_filter", "Invalid filter of an endpoint",
        "Send types of events, ids of items and currencies that there are.";
    RangeOutOfLog: 422 "range_out_of_log", "Range out of the event log",
        "Send positions that the log has; GET /api/admin/events reads it.";
    InvalidSchedule: 422 "invalid_schedule", "Invalid sale schedule",
        "Send starts_at and ends_at as RFC 3339 times with a zone, the start before the end, up to the year 9999.";
    ArbiterRequired: 422 "arbiter_required", "Arbiter required",
        "Leave the arbiter on; only lab items may turn it off.";
    UnknownStrategy: 422 "unknown_strategy", "Unknown strategy",
        "Choose a strategy that GET /api/strategies lists.";
    InvalidOptions: 422 "invalid_options", "Invalid strategy options",
        "Send only options that this strategy takes.";
    InvalidVariant: 422 "invalid_variant", "Invalid variant of a product",
        "Send product_id with at most 4 options, each with another name; names and values have 1 to 50 characters.";
    InvalidCurrency: 422 "invalid_currency", "Invalid currency",
        "Send a currency of ISO 4217 by its three capital letters, such as EUR.";
    PriceOutOfRange: 422 "price_out_of_range", "Price out of range",
        "Send a price in the range that /docs names.";
    LimitOutOfRange: 422 "limit_out_of_range", "Purchase limit out of range",
        "Send a limit in the range that /docs names.";
    HoldOutOfRange: 422 "hold_out_of_range", "Hold time out of range",
        "Send a hold time in the range that /docs names.";
    OfferOutOfRange: 422 "offer_out_of_range", "Offer time out of range",
        "Send an offer time in the range that /docs names.";
    InvalidDraw: 422 "invalid_draw", "Invalid draw",
        "Send mode draw with draw_closes_at between starts_at and ends_at, the arbiter on, offer_seconds of at least 1, and draw_party_max of 1 to 4.";
    StockOutOfRange: 422 "stock_out_of_range", "Stock out of range",
        "Send a stock in the range that /docs names.";
    StockBelowSold: 422 "stock_below_sold", "Stock change out of range",
        "Take out no more units than are left, and do not raise the stock above its limit.";
    LanesOutOfRange: 422 "lanes_out_of_range", "Number of lab lanes out of range",
        "Choose other strategies, rounds or arbiters.";

    TooManyAttempts: 429 "too_many_attempts", "Too many failed sign-ins",
        "Wait a minute before you sign in with this name again.";
    RateLimited: 429 "rate_limited", "Rate limit exceeded",
        "Send fewer requests.", retry 5;

    Internal: 500 "internal", "Internal error",
        "Give the request_id to the operator, who finds it in the log.";
    Overloaded: 503 "overloaded", "Service overloaded",
        "Try again in a moment.", retry 1;
    Contended: 503 "contended", "Too many concurrent purchases",
        "Too many buyers want this item at once and nothing changed; try again.", retry 1;
    StrategyUnavailable: 503 "strategy_unavailable", "Strategy not configured",
        "Choose a strategy that GET /api/strategies calls available.";
    DependencyUnavailable: 503 "dependency_unavailable", "Dependency unavailable",
        "A server that this service needs does not answer; try again.", retry 1;
    OutcomeUnknown: 504 "outcome_unknown", "Unknown outcome",
        "It may or may not have happened; send the request again with the same Idempotency-Key.", retry 1;
}

/// The row of a type in the table.
#[derive(Clone, Copy)]
pub(super) struct Row {
    pub(super) status: u16,
    pub(super) code: &'static str,
    pub(super) title: &'static str,
    pub(super) detail: &'static str,
    pub(super) retry_after_seconds: Option<u32>,
}

impl ProblemType {
    /// A problem of this type with the detail of the table.
    #[must_use]
    pub fn problem(self) -> Problem {
        Problem { row: Some(self), ..Problem::of_row(self.row()) }
    }

    /// A problem of this type with a detail of its own.
    #[must_use]
    pub fn detail(self, detail: impl Into<Cow<'static, str>>) -> Problem {
        self.problem().detail(detail)
    }

    /// The code that clients compare.
    #[must_use]
    pub fn code(self) -> &'static str {
        self.row().code
    }

    /// The table as Markdown, for the API's description.
    #[must_use]
    pub fn table() -> String {
        let rows = Self::ALL.iter().map(|kind| {
            let Row { status, code, title, detail, .. } = kind.row();
            format!("| {status} | `{code}` | {title} | {detail} |\n")
        });
        let head = "| status | code | title | what to do |\n|---|---|---|---|\n".to_owned();
        std::iter::once(head).chain(rows).collect()
    }
}

impl From<ProblemType> for Problem {
    fn from(kind: ProblemType) -> Self {
        kind.problem()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;
    use crate::account::password::{PASSWORD_BYTES_MAX, PASSWORD_LENGTH_MIN};
    use shop_domain::Username;

    #[test]
    fn each_code_has_one_row_and_each_row_reads_well() {
        let mut codes = HashSet::new();
        for kind in ProblemType::ALL {
            let Row { status, code, title, detail, .. } = kind.row();
            assert!(codes.insert(code), "{code} has two rows");
            assert!((400..600).contains(&status), "{code}: {status}");
            assert!(code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'), "{code}");
            assert!(title.starts_with(char::is_uppercase), "{code}: {title}");
            assert!(!title.ends_with(['.', '?', '!']), "{code}: a title is no sentence: {title}");
            assert!(detail.ends_with('.'), "{code}: a detail is a sentence: {detail}");
        }
    }

    #[test]
    fn limits_in_the_table_are_those_of_the_code() {
        let name = ProblemType::InvalidUsername.row().detail;
        assert!(name.contains(&format!("1 to {} ", Username::LENGTH_MAX)), "{name}");
        let password = ProblemType::InvalidPassword.row().detail;
        for limit in [PASSWORD_LENGTH_MIN, PASSWORD_BYTES_MAX] {
            assert!(password.contains(&limit.to_string()), "{password}");
        }
    }
}
