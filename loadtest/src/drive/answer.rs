//! Reads a reply to a purchase, and the outcome that the client may conclude.

use std::ops::RangeInclusive;

use serde::Deserialize;

use super::connection::{Exchange, Reply};
use ledger_audit::{Answer, Outcome};

/// The statuses of an order; 200 is a replay of one that exists already.
const ACCEPTED: RangeInclusive<u16> = 200..=202;

/// The fields of an order that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Order {
    id: Option<String>,
    quantity: Option<i64>,
    status: Option<String>,
    user_id: Option<i64>,
}

/// The fields of a problem that matter here.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Problem {
    code: Option<String>,
    outcome: Option<String>,
    retryable: Option<bool>,
    item_id: Option<i64>,
}

/// A line of the answer to a batch.
#[derive(Deserialize)]
struct BatchLine {
    status: u16,
    #[serde(default)]
    order: Order,
    #[serde(default)]
    problem: Problem,
}

/// Reads what an exchange says; the sender knows the rest. In doubt the outcome is `Unknown`: the ledger will tell.
pub fn read(exchange: &Exchange) -> Answer {
    match exchange {
        Exchange::Answered(reply) => read_reply(reply),
        Exchange::NotSent => without_answer("not_connected", Outcome::Unavailable),
        Exchange::Lost => without_answer("connection_lost", Outcome::Unknown),
        Exchange::TimedOut => without_answer("timed_out", Outcome::Unknown),
    }
}

/// Reads each of the `count` lines of the answer to a batch. A line that is missing may have taken
/// effect.
pub fn read_lines(exchange: &Exchange, count: usize) -> Vec<Answer> {
    let Exchange::Answered(Reply { status: 200, body, .. }) = exchange else {
        return (0..count).map(|_| read(exchange)).collect();
    };
    let lines = body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let mut answers: Vec<Answer> = lines
        .take(count)
        .map(|line| match serde_json::from_slice(line) {
            Ok(BatchLine { status, order, .. }) if ACCEPTED.contains(&status) => {
                read_order(status, order)
            }
            Ok(BatchLine { status, problem, .. }) => read_problem(status, problem),
            Err(_) => without_answer("unreadable_line", Outcome::Unknown),
        })
        .collect();
    answers.resize_with(count, || without_answer("line_missing", Outcome::Unknown));
    answers
}

fn without_answer(code: &str, outcome: Outcome) -> Answer {
    Answer { code: code.to_owned(), outcome, retryable: true, ..Answer::default() }
}

fn read_reply(reply: &Reply) -> Answer {
    let status = reply.status;
    if !ACCEPTED.contains(&status) {
        return read_problem(status, serde_json::from_slice(&reply.body).unwrap_or_default());
    }
    read_order(status, serde_json::from_slice(&reply.body).unwrap_or_default())
}

/// An order without an id is caught by the audit, since nothing in the ledger can be found for it.
fn read_order(status: u16, order: Order) -> Answer {
    Answer {
        status,
        code: if status == 202 { "queued" } else { "sold" }.to_owned(),
        outcome: Outcome::Accepted,
        order_id: order.id,
        order_quantity: order.quantity,
        order_status: order.status,
        buyer: order.user_id.unwrap_or_default(),
        ..Answer::default()
    }
}

fn read_problem(status: u16, problem: Problem) -> Answer {
    let outcome = outcome_of_problem(status, &problem);
    Answer {
        status,
        code: problem.code.unwrap_or_else(|| format!("http_{status}_without_code")),
        outcome,
        retryable: problem.retryable.unwrap_or(false)
            || matches!(outcome, Outcome::Unavailable | Outcome::Unknown),
        refused_item: problem.item_id,
        ..Answer::default()
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

    fn meaning(status: u16, body: &'static str) -> Answer {
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

    #[test]
    fn each_line_of_a_batch_is_read_for_itself() {
        let body = concat!(
            r#"{"line":1,"status":201,"order":{"id":"a","quantity":1,"status":"pending","user_id":7}}"#,
            "\n",
            r#"{"line":2,"status":409,"problem":{"code":"sold_out","outcome":"none","item_id":5}}"#,
            "\n",
        );
        let reply = |status| {
            let body = Bytes::from_static(body.as_bytes());
            Exchange::Answered(Reply { status, retry_after: None, body, keeps_connection: true })
        };
        let read = read_lines(&reply(200), 3);
        assert_eq!((read[0].outcome, read[0].buyer), (Outcome::Accepted, 7));
        assert_eq!((read[1].outcome, read[1].refused_item), (Outcome::Refused, Some(5)));
        assert_eq!((read[2].outcome, &*read[2].code), (Outcome::Unknown, "line_missing"));
        assert!(read_lines(&reply(503), 2).iter().all(|one| one.outcome == Outcome::Unknown));
        assert!(read_lines(&Exchange::Lost, 2).iter().all(|one| one.retryable));
    }
}
