//! The record by purchase and the ledger by id and key, ready to be matched one by one.

use std::collections::{HashMap, HashSet};

use crate::{Answer, Evidence, Order, Outcome};

/// One purchase with the answers to all its attempts.
pub struct Purchase<'a> {
    /// The buyer's id.
    pub buyer: i64,
    /// Its Idempotency-Key: the same on every attempt.
    pub key: Option<&'a str>,
    /// In the order of the attempts.
    pub answers: Vec<&'a Answer>,
}

/// The orders that were not there before the traffic, by id and by buyer and key.
pub(crate) struct Index<'a> {
    pub new: Vec<&'a Order>,
    pub by_id: HashMap<&'a str, &'a Order>,
    pub by_key: HashMap<(i64, &'a str), Vec<&'a Order>>,
}

impl<'a> Purchase<'a> {
    /// The answer that accepted it, if there is one.
    pub fn accepted(&self) -> Option<&'a Answer> {
        self.answers.iter().copied().find(|answer| answer.outcome == Outcome::Accepted)
    }

    /// Whether any of its answers was unknown.
    pub fn was_unknown(&self) -> bool {
        self.answers.iter().any(|answer| answer.outcome == Outcome::Unknown)
    }

    /// Whether its outcome is still open after the last attempt: the last answer is unknown, or
    /// unavailable after an unknown one. A refusal after an unknown answer is definite, because a retry
    /// with the same key is answered with what really happened.
    pub fn is_open(&self) -> bool {
        let Some(last) = self.answers.last() else {
            return false;
        };
        match last.outcome {
            Outcome::Accepted | Outcome::Refused => false,
            Outcome::Unknown => true,
            Outcome::Unavailable => self.was_unknown() || last.is_in_progress(),
        }
    }

    /// Whether it ended with the promise that nothing changed.
    pub fn is_refused(&self) -> bool {
        self.accepted().is_none()
            && !self.is_open()
            && self.answers.last().is_some_and(|last| last.is_definite_refusal())
    }

    /// Buyer and key, or buyer and number, for messages.
    pub fn name(&self) -> String {
        match (self.key, self.answers.first()) {
            (Some(key), _) => format!("buyer {}, key {key}", self.buyer),
            (None, Some(first)) => format!("buyer {}, purchase {}", self.buyer, first.request),
            (None, None) => format!("buyer {}", self.buyer),
        }
    }
}

impl Answer {
    /// Units as answered, or as asked for where the answer does not say.
    pub(crate) fn units(&self, evidence: &Evidence<'_>) -> i64 {
        self.order_quantity.unwrap_or(evidence.quantity)
    }
}

/// Groups a record by purchase, in the order of their numbers.
pub fn purchases(answers: &[Answer]) -> Vec<Purchase<'_>> {
    let mut in_order: Vec<&Answer> = answers.iter().collect();
    in_order.sort_by_key(|answer| (answer.request, answer.attempt));
    in_order
        .chunk_by(|left, right| left.request == right.request)
        .map(|answers| Purchase {
            buyer: answers[0].buyer,
            key: answers[0].key.as_deref(),
            answers: answers.to_vec(),
        })
        .collect()
}

/// Builds the index of new orders.
pub(crate) fn index<'a>(evidence: &Evidence<'a>) -> Index<'a> {
    let before: HashSet<&str> =
        evidence.before.orders.iter().map(|order| order.id.as_str()).collect();
    let new: Vec<&Order> =
        evidence.after.orders.iter().filter(|order| !before.contains(order.id.as_str())).collect();
    let by_id = new.iter().map(|order| (order.id.as_str(), *order)).collect();
    let mut by_key: HashMap<(i64, &str), Vec<&Order>> = HashMap::new();
    for order in &new {
        if let Some(key) = &order.key {
            by_key.entry((order.buyer, key)).or_default().push(order);
        }
    }
    Index { new, by_id, by_key }
}
