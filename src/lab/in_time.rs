//! I16 in a lane: whoever was told "sold out" could be told so at that time. It is judged by the rule that
//! judges load tests and fault runs, from `crates/ledger-audit`.

use std::collections::HashMap;

use ledger_audit::{History, InTime, Ledger, Order, Outcome, State, judge_in_time};

use super::evaluate::Evidence;
use super::load_generator::{Answer, AnswerKind, buyer, key};
use shop_domain::ArbiterMode;

/// The rules that a lane breaks, a sentence each, with an example.
pub fn broken(evidence: &Evidence<'_>) -> Vec<String> {
    let answers: Vec<_> =
        evidence.answers.iter().map(|answer| recorded(answer, evidence)).collect();
    let buyers = evidence.answers.iter().map(|answer| answer.request);
    let buyers: HashMap<String, i64> = buyers
        .map(|request| (key(request).as_str().to_owned(), buyer(request, evidence.buyers)))
        .collect();
    let orders = evidence.orders.iter().map(|order| Order {
        id: order.id.to_string(),
        // One that belongs to no request counts from the start.
        buyer: buyers.get(&order.request_key).copied().unwrap_or(0),
        quantity: evidence.quantity,
        status: order.status.as_str().to_owned(),
        key: Some(order.request_key.clone()),
        fence: None,
    });
    let after = Ledger { item_exists: true, orders: orders.collect(), ..Ledger::default() };
    let found = judge_in_time(&ledger_audit::Evidence {
        stock: evidence.stock,
        per_buyer_limit: i64::MAX,
        quantity: evidence.quantity,
        arbiter_on: evidence.report.facts.arbiter == ArbiterMode::On,
        keyed: true,
        before: &Ledger::default(),
        after: &after,
        answers: &answers,
        in_time: Some(InTime { history: &History::default(), sold_out_age: evidence.sold_out_age }),
    });
    let broken = found.into_iter().filter(|finding| finding.state == State::Broken);
    broken
        .map(|finding| {
            let example = finding.examples.first().map_or("", String::as_str);
            format!(
                "{} is broken ({}): {}. {example}.",
                finding.invariant, finding.claim, finding.detail
            )
        })
        .collect()
}

/// The answer as a client over HTTP would have recorded it.
fn recorded(answer: &Answer, evidence: &Evidence<'_>) -> ledger_audit::Answer {
    let (status, code, outcome, order) = match answer.kind {
        AnswerKind::Accepted { order, queued: false } => {
            (201, "sold", Outcome::Accepted, Some(order))
        }
        AnswerKind::Accepted { order, queued: true } => {
            (202, "queued", Outcome::Accepted, Some(order))
        }
        AnswerKind::Refused(code) => (409, code, Outcome::Refused, None),
        AnswerKind::Unavailable => (503, "unavailable", Outcome::Unavailable, None),
        AnswerKind::Unknown => (504, "outcome_unknown", Outcome::Unknown, None),
    };
    ledger_audit::Answer {
        request: answer.request,
        last: true,
        buyer: buyer(answer.request, evidence.buyers),
        key: Some(key(answer.request).as_str().to_owned()),
        status,
        code: code.to_owned(),
        outcome,
        order_id: order.map(|order| order.to_string()),
        answered_at_us: answer.answered_at_us,
        from_plan_us: answer.micros,
        from_send_us: answer.micros,
        ..ledger_audit::Answer::default()
    }
}
