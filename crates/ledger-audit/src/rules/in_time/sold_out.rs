//! I16: whoever was told "sold out" could be told so.
//!
//! The service promises that at some moment between `sent - age` and `answered`, the ledger had fewer
//! units left than were asked for; `age` is the age of its memory of "sold out". The check counts the
//! units that were left *for certain*: a sale counts from the moment at which its first request was
//! sent, since it cannot have happened before; units that came back count from the moment at which an
//! answer showed that they had. So the true stock was never below this count, and where the count
//! stays at or above the units that were asked for, the answer was false. What is not known (a return
//! that no answer showed, units that are offered to buyers who wait) only lowers the count.

use std::collections::{HashMap, HashSet};

use super::orders::sights;
use super::{note, seconds};
use crate::rules::purchase::{Purchase, purchases};
use crate::{Answer, Evidence, Faults, Finding, InTime, Order, Outcome};

pub const CLAIM: &str = "nobody was told \"sold out\" while units were left";

/// A change of the units that are left for certain.
struct Change<'a> {
    at_us: u64,
    units: i64,
    why: Why<'a>,
}

enum Why<'a> {
    Sold,
    Back(&'a Order),
    Restocked,
}

/// Judges I16, linear in answers and orders once they are sorted.
pub fn judge(evidence: &Evidence<'_>, in_time: &InTime<'_>) -> Finding {
    if !evidence.arbiter_on {
        return Finding::not_judged("I16", CLAIM, "the arbiter is off: the gate's word is final");
    }
    let is_told =
        |answer: &&Answer| answer.code == "sold_out" && answer.outcome == Outcome::Refused;
    let mut told: Vec<&Answer> = evidence.answers.iter().filter(is_told).collect();
    if told.is_empty() {
        return Finding::not_judged("I16", CLAIM, "nobody was told \"sold out\"");
    }
    told.sort_by_key(|answer| answer.answered_at_us);
    let mut changes = changes(evidence, in_time);
    // At one moment, what takes units first: the count must never be too high.
    changes.sort_by_key(|change| (change.at_us, change.units));
    let faults = false_ones(evidence, in_time, &told, changes);
    let detail = format!("{} answers, {} false", told.len(), faults.count);
    Finding::judged("I16", CLAIM, detail, faults)
}

/// Goes through answers and changes together, in the order of time.
fn false_ones(
    evidence: &Evidence<'_>,
    in_time: &InTime<'_>,
    told: &[&Answer],
    changes: Vec<Change<'_>>,
) -> Faults {
    let age_us = u64::try_from(in_time.sold_out_age.as_micros()).unwrap_or(u64::MAX);
    let mut left = at_the_start(evidence);
    // The last moment with too few, and the change that ended it; `None`: there was none yet.
    let mut low_until: Option<(u64, Option<Change<'_>>)> = None;
    let mut changes = changes.into_iter().peekable();
    let mut faults = Faults::default();
    for answer in told {
        while let Some(change) = changes.next_if(|next| next.at_us <= answer.answered_at_us) {
            let was_low = left < evidence.quantity;
            left += change.units;
            if was_low {
                low_until = Some((change.at_us, Some(change)));
            }
        }
        if left < evidence.quantity {
            continue;
        }
        let from_us = answer.sent_at_us().saturating_sub(age_us);
        if low_until.as_ref().is_none_or(|(until_us, _)| *until_us < from_us) {
            let change = low_until.as_ref().and_then(|(_, change)| change.as_ref());
            faults.add(format_args!("{}", in_words(answer, left, change, in_time)));
        }
    }
    faults
}

fn in_words(
    answer: &Answer,
    left: i64,
    change: Option<&Change<'_>>,
    in_time: &InTime<'_>,
) -> String {
    let since = match change {
        None => "since the start".to_owned(),
        Some(Change { at_us, units, why }) => {
            let why = match why {
                Why::Back(order) => {
                    format!("an answer showed that order {} is {}", order.id, order.status)
                }
                Why::Restocked => format!("a restock of {units} was answered"),
                Why::Sold => "a sale".to_owned(),
            };
            format!("since {}, when {why}", seconds(*at_us))
        }
    };
    format!(
        "buyer {}, request {}: sent at {}, told \"sold out\" at {}, though at least {left} units were left {since}; \
         the answer may be {:?} old",
        answer.buyer,
        answer.request,
        seconds(answer.sent_at_us()),
        seconds(answer.answered_at_us),
        in_time.sold_out_age,
    )
}

/// Units left before the traffic.
fn at_the_start(evidence: &Evidence<'_>) -> i64 {
    match evidence.before.stock {
        Some(stock) => stock.available,
        None => {
            let restocked: i64 = evidence.after.restocks.iter().map(|one| one.units).sum();
            evidence.stock - restocked
        }
    }
}

fn changes<'a>(evidence: &Evidence<'a>, in_time: &InTime<'a>) -> Vec<Change<'a>> {
    let mut changes = sales(evidence);
    changes.extend(returns(evidence, in_time));
    changes.extend(restocks(evidence, in_time));
    let offers = evidence.after.line.places.iter().filter(|place| {
        // An accepted one is an order.
        place.offered_at.is_some() && place.status != "accepted"
    });
    changes.extend(offers.map(|_| Change { at_us: 0, units: -1, why: Why::Sold }));
    changes
}

/// Each new order that ever took units, at the first moment at which it can have.
fn sales<'a>(evidence: &Evidence<'a>) -> Vec<Change<'a>> {
    let purchases = purchases(evidence.answers);
    let first_sent = |purchase: &Purchase<'_>| {
        purchase.answers.iter().map(|answer| answer.sent_at_us()).min().unwrap_or(0)
    };
    let mut by_key: HashMap<(i64, &str), u64> = HashMap::new();
    let mut by_id: HashMap<&str, u64> = HashMap::new();
    let mut keyless: HashMap<i64, u64> = HashMap::new();
    for purchase in &purchases {
        let sent = first_sent(purchase);
        match purchase.key {
            Some(key) => note(&mut by_key, (purchase.buyer, key), sent),
            None => note(&mut keyless, purchase.buyer, sent),
        }
        for id in purchase.answers.iter().filter_map(|answer| answer.order_id.as_deref()) {
            note(&mut by_id, id, sent);
        }
    }
    let offered: HashSet<&str> =
        evidence.after.line.places.iter().filter_map(|place| place.order_id.as_deref()).collect();
    let before: HashMap<&str, &Order> =
        evidence.before.orders.iter().map(|order| (order.id.as_str(), order)).collect();
    // Those that took their units before the traffic are in the stock of the start, unless they gave
    // them back and were paid late.
    let is_in_start = |order: &Order| {
        let earlier = before.get(order.id.as_str());
        earlier.is_some_and(|one| one.took_stock() && (one.is_live() || !order.is_live()))
    };
    let took = evidence.after.orders.iter().filter(|order| order.took_stock());
    took.filter(|order| !is_in_start(order))
        .map(|order| {
            let of_key = order.key.as_deref().and_then(|key| by_key.get(&(order.buyer, key)));
            let sent = of_key.or_else(|| by_id.get(order.id.as_str()));
            // An order without a known request may have been there from the start.
            let sent = sent.or_else(|| keyless.get(&order.buyer)).copied().unwrap_or(0);
            let is_older = before.contains_key(order.id.as_str());
            let at_us = if is_older || offered.contains(order.id.as_str()) { 0 } else { sent };
            Change { at_us, units: -order.quantity, why: Why::Sold }
        })
        .collect()
}

/// Each order that gave its units back for good, at the first answer that showed it.
fn returns<'a>(evidence: &Evidence<'a>, in_time: &InTime<'a>) -> Vec<Change<'a>> {
    let is_over = |status: &str| matches!(status, "cancelled" | "expired");
    let mut shown: HashMap<&str, u64> = HashMap::new();
    let sights = sights(evidence, in_time.history);
    for sight in sights.into_iter().filter(|sight| is_over(sight.status)) {
        note(&mut shown, sight.id, sight.answered_at_us);
    }
    let is_returned = |order: &&Order| is_over(&order.status);
    // Those that were over before the traffic are in the stock of the start.
    let over_before: HashSet<&str> =
        evidence.before.orders.iter().filter(is_returned).map(|order| order.id.as_str()).collect();
    let orders = evidence.after.orders.iter().filter(is_returned);
    orders
        .filter(|order| !over_before.contains(order.id.as_str()))
        .filter_map(|order| {
            let at_us = *shown.get(order.id.as_str())?;
            Some(Change { at_us, units: order.quantity, why: Why::Back(order) })
        })
        .collect()
}

/// The fewest units of a restock that a long line gets in parts, and the most buyers of a line that is not long. They
/// follow from `PART_MAX` in `crates/ledger/src/waiting_list/sql.rs`.
const IN_PARTS_MIN: i64 = 2_000;
const SHORT_LINE_MAX: usize = 1_000;

/// The restocks of the ledger, matched by their units with those that were sent. One that may have come in parts does
/// not count: no answer shows when the last part came.
fn restocks<'a>(evidence: &Evidence<'a>, in_time: &InTime<'a>) -> Vec<Change<'a>> {
    let before: HashSet<&str> =
        evidence.before.restocks.iter().map(|restock| restock.id.as_str()).collect();
    let mut rows: HashMap<i64, usize> = HashMap::new();
    for restock in &evidence.after.restocks {
        if !before.contains(restock.id.as_str()) {
            *rows.entry(restock.units).or_default() += 1;
        }
    }
    let is_long = evidence.after.line.places.len() > SHORT_LINE_MAX;
    rows.retain(|units, _| !(is_long && *units >= IN_PARTS_MIN));
    let mut changes = Vec::new();
    for (units, count) in rows {
        let sent = in_time.history.restocks.iter().filter(|restock| restock.units == units);
        let mut times: Vec<u64> = if units > 0 {
            sent.filter_map(|restock| restock.accepted_at_us).collect()
        } else {
            sent.map(|restock| restock.sent_at_us).collect()
        };
        times.sort_unstable();
        // Units added count late, those taken out early; a row without a request never, or from the
        // start.
        if units > 0 {
            times.reverse();
        } else {
            times.resize(times.len().max(count), 0);
            times.sort_unstable();
        }
        let restocked = |at_us| Change { at_us, units, why: Why::Restocked };
        changes.extend(times.into_iter().take(count).map(restocked));
    }
    changes
}
