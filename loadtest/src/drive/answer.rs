//! Reads the meaning of a reply to a purchase: the outcome that the client may conclude.

use serde::Deserialize;

use super::connection::{Exchange, Reply};
use ledger_audit::Outcome;

/// The meaning of one exchange.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Meaning {
    /// HTTP status; 0 when there was no answer.
    pub status: u16,
    /// `sold`, `queued`, the problem's code, or what happened to the connection.
    pub code: String,
    /// What the client may conclude.
    pub outcome: Outcome,
    /// The order's id, when accepted.
    pub order_id: Option<String>,
    /// The order's quantity, when accepted.
    pub order_quantity: Option<i64>,
    /// The order's status, when accepted.
    pub order_status: Option<String>,
    /// Whether a later try may have another answer.
    pub retryable: bool,
}

/// The fields of an order that matter here.
#[derive(Default, Deserialize)]
struct Order {
    id: Option<String>,
    quantity: Option<i64>,
    status: Option<String>,
}

/// The fields of a problem that matter here.
#[derive(Default, Deserialize)]
struct Problem {
    code: Option<String>,
    outcome: Option<String>,
    retryable: Option<bool>,
}

/// Reads the meaning of an exchange. In doubt the outcome is `Unknown`: the ledger will tell.
pub fn read(exchange: &Exchange) -> Meaning {
    match exchange {
        Exchange::Answered(reply) => read_reply(reply),
        Exchange::NotSent => without_answer("not_connected", Outcome::Unavailable),
        Exchange::Lost => without_answer("connection_lost", Outcome::Unknown),
        Exchange::TimedOut => without_answer("timed_out", Outcome::Unknown),
    }
}

fn without_answer(code: &str, outcome: Outcome) -> Meaning {
    Meaning { code: code.to_owned(), outcome, retryable: true, ..Meaning::default() }
}

fn read_reply(reply: &Reply) -> Meaning {
    let status = reply.status;
    if !(200..=202).contains(&status) {
        return read_problem(status, serde_json::from_slice(&reply.body).unwrap_or_default());
    }
    // 200 is a replay of an order that exists already; an order without an id is caught by the audit,
    // since nothing in the ledger can be found for it.
    let order: Order = serde_json::from_slice(&reply.body).unwrap_or_default();
    Meaning {
        status,
        code: if status == 202 { "queued" } else { "sold" }.to_owned(),
        outcome: Outcome::Accepted,
        order_id: order.id,
        order_quantity: order.quantity,
        order_status: order.status,
        ..Meaning::default()
    }
}

fn read_problem(status: u16, problem: Problem) -> Meaning {
    let outcome = outcome_of_problem(status, &problem);
    Meaning {
        status,
        code: problem.code.unwrap_or_else(|| format!("http_{status}_without_code")),
        outcome,
        retryable: problem.retryable.unwrap_or(false)
            || matches!(outcome, Outcome::Unavailable | Outcome::Unknown),
        ..Meaning::default()
    }
}

fn outcome_of_problem(status: u16, body: &Problem) -> Outcome {
    let nothing_changed = body.outcome.as_deref() == Some("none");
    match status {
        // A server's error that does not promise that nothing changed may come from a proxy.
        500.. if nothing_changed => Outcome::Unavailable,
        500.. => Outcome::Unknown,
        _ if body.outcome.is_some() && !nothing_changed => Outcome::Unknown,
        408 | 425 | 429 => Outcome::Unavailable,
        409 if body.code.as_deref() == Some("request_in_progress") => Outcome::Unavailable,
        400..=499 => Outcome::Refused,
        _ => Outcome::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::body::Bytes;

    fn meaning(status: u16, body: &'static str) -> Meaning {
        read(&Exchange::Answered(Reply {
            status,
            retry_after: None,
            body: Bytes::from_static(body.as_bytes()),
            keeps_connection: true,
        }))
    }

    #[test]
    fn every_kind_of_reply_has_its_outcome() {
        let sold = meaning(201, r#"{"id":"0190","quantity":2,"status":"pending"}"#);
        assert_eq!(
            (sold.outcome, sold.order_id.as_deref(), sold.order_quantity),
            (Outcome::Accepted, Some("0190"), Some(2))
        );
        assert_eq!(sold.order_status.as_deref(), Some("pending"));
        // The status of a problem is a number.
        let refused = meaning(409, r#"{"code":"sold_out","outcome":"none","status":409}"#);
        assert_eq!((refused.code.as_str(), refused.order_status), ("sold_out", None));
        let cases = [
            (202, r#"{"id":"a"}"#, Outcome::Accepted),
            (409, r#"{"code":"sold_out","outcome":"none"}"#, Outcome::Refused),
            (409, r#"{"code":"request_in_progress","outcome":"none"}"#, Outcome::Unavailable),
            (429, r#"{"code":"rate_limited","outcome":"none"}"#, Outcome::Unavailable),
            (503, r#"{"code":"contended","outcome":"none"}"#, Outcome::Unavailable),
            (503, "<html>no upstream</html>", Outcome::Unknown),
            (504, r#"{"code":"outcome_unknown","outcome":"unknown"}"#, Outcome::Unknown),
            (404, "", Outcome::Refused),
            (302, "", Outcome::Unknown),
        ];
        for (status, body, outcome) in cases {
            assert_eq!(meaning(status, body).outcome, outcome, "{status} {body}");
        }
        assert_eq!(meaning(404, "").code, "http_404_without_code");
        assert_eq!(read(&Exchange::NotSent).outcome, Outcome::Unavailable);
        assert_eq!(read(&Exchange::Lost).outcome, Outcome::Unknown);
    }
}
