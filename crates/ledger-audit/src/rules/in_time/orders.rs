//! I17 to I19: what a buyer was shown once stays true.

use std::collections::HashMap;

use super::{note, seconds};
use crate::history::MISSING;
use crate::rules::purchase::purchases;
use crate::{Answer, Evidence, Faults, Finding, History, Outcome};

pub const CLAIMS: [&str; 3] = [
    "an order never goes back: once seen paid, never seen pending",
    "a buyer's list never loses an order that an earlier list or an answer showed",
    "a replay never names another order",
];

const STATUSES: [&str; 7] =
    ["queued", "rejected", "pending", "cancelled", "expired", "paid", MISSING];

/// A sight of an order.
#[derive(Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) id: &'a str,
    pub(super) status: &'a str,
    sent_at_us: u64,
    pub(super) answered_at_us: u64,
}

/// Judges I17 to I19.
pub fn judge(evidence: &Evidence<'_>, history: &History) -> Vec<Finding> {
    let sights = sights(evidence, history);
    vec![steps(&sights), lists(evidence, history), replays(evidence)]
}

/// Whether an order that was seen as `from` may be seen as `to` later.
fn may_follow(from: &str, to: &str) -> bool {
    match from {
        // What is queued is not in the ledger yet.
        "queued" | MISSING => true,
        "pending" => matches!(to, "pending" | "paid" | "cancelled" | "expired"),
        // By a late payment.
        "expired" => matches!(to, "expired" | "paid"),
        _ => from == to,
    }
}

pub(super) fn sights<'a>(evidence: &Evidence<'a>, history: &'a History) -> Vec<Sight<'a>> {
    let answers = evidence.answers.iter().filter_map(|answer| {
        Some(Sight {
            id: answer.order_id.as_deref()?,
            status: answer.order_status.as_deref()?,
            sent_at_us: answer.sent_at_us(),
            answered_at_us: answer.answered_at_us,
        })
    });
    let seen = history.orders.iter().map(|seen| Sight {
        id: &seen.id,
        status: &seen.status,
        sent_at_us: seen.sent_at_us,
        answered_at_us: seen.answered_at_us,
    });
    answers.chain(seen).collect()
}

/// I17: for each order and status the earliest answer is enough.
fn steps(sights: &[Sight<'_>]) -> Finding {
    if sights.is_empty() {
        return Finding::not_judged("I17", CLAIMS[0], "no order was seen with its status");
    }
    let mut first: HashMap<(&str, &str), u64> = HashMap::new();
    for sight in sights {
        note(&mut first, (sight.id, sight.status), sight.answered_at_us);
    }
    let mut faults = Faults::default();
    for sight in sights {
        for status in STATUSES.into_iter().filter(|from| !may_follow(from, sight.status)) {
            let earlier = first.get(&(sight.id, status));
            if let Some(at) = earlier.filter(|at| **at < sight.sent_at_us) {
                faults.add(format_args!(
                    "order {} was seen {status} at {}, and {} by a request that was sent at {}",
                    sight.id,
                    seconds(*at),
                    sight.status,
                    seconds(sight.sent_at_us)
                ));
            }
        }
    }
    Finding::judged("I17", CLAIMS[0], format!("{} observed order states", sights.len()), faults)
}

/// I18: a list has every order that was shown before the list was asked for.
fn lists(evidence: &Evidence<'_>, history: &History) -> Finding {
    if history.lists.is_empty() {
        return Finding::not_judged("I18", CLAIMS[1], "no list was read");
    }
    let mut shown: HashMap<i64, HashMap<&str, u64>> = HashMap::new();
    let mut show = |buyer: i64, id, at_us: u64| note(shown.entry(buyer).or_default(), id, at_us);
    for answer in evidence.answers.iter().filter(|answer| is_in_ledger(answer)) {
        if let Some(id) = answer.order_id.as_deref() {
            show(answer.buyer, id, answer.answered_at_us);
        }
    }
    for list in &history.lists {
        list.orders.iter().for_each(|id| show(list.buyer, id, list.answered_at_us));
    }
    let mut faults = Faults::default();
    for list in &history.lists {
        for (id, at_us) in shown.get(&list.buyer).into_iter().flatten() {
            let is_on_page = list.back_to.as_deref().is_none_or(|back_to| *id >= back_to);
            if is_on_page
                && *at_us < list.sent_at_us
                && !list.orders.iter().any(|listed| listed == id)
            {
                faults.add(format_args!(
                        "buyer {}: order {id} was shown at {}, and is not in the list that was asked for at {}",
                        list.buyer,
                        seconds(*at_us),
                        seconds(list.sent_at_us)
                    ));
            }
        }
    }
    Finding::judged("I18", CLAIMS[1], format!("{} lists", history.lists.len()), faults)
}

/// Whether the answer says that the ledger has the order. A queued one is not there yet.
fn is_in_ledger(answer: &Answer) -> bool {
    matches!(answer.status, 200 | 201) && answer.outcome == Outcome::Accepted
}

/// I19: all answers to one key name the order that the first of them named.
fn replays(evidence: &Evidence<'_>) -> Finding {
    let purchases = purchases(evidence.answers);
    let mut first: HashMap<(i64, &str), (&str, u64)> = HashMap::new();
    let keyed = || {
        purchases.iter().filter_map(|one| one.key.map(|key| (one, key))).flat_map(|(one, key)| {
            let accepted = one.answers.iter().filter(|one| one.outcome == Outcome::Accepted);
            accepted.filter_map(move |answer| {
                Some(((one.buyer, key), answer.order_id.as_deref()?, *answer))
            })
        })
    };
    let mut accepted = 0;
    for (key, id, answer) in keyed() {
        accepted += 1;
        let at = first.entry(key).or_insert((id, answer.answered_at_us));
        if answer.answered_at_us < at.1 {
            *at = (id, answer.answered_at_us);
        }
    }
    if accepted == 0 {
        return Finding::not_judged("I19", CLAIMS[2], "no purchase with a key was accepted");
    }
    let mut faults = Faults::default();
    for (key, id, answer) in keyed() {
        let (named, at_us) = first[&key];
        if named != id && at_us < answer.sent_at_us() {
            faults.add(format_args!(
                    "buyer {}, key {}: order {named} at {}, order {id} by a request that was sent at {}",
                    key.0,
                    key.1,
                    seconds(at_us),
                    seconds(answer.sent_at_us())
                ));
        }
    }
    Finding::judged("I19", CLAIMS[2], format!("{accepted} accepted answers"), faults)
}
