//! The orders of a load over several items: which items each has, and in which sequence.

use std::collections::{HashMap, HashSet};

use rand::SeedableRng;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use serde_json::json;

use crate::drive::OrderRequest;
use ledger_audit::{Answer, Ledger};

/// Different orders of one load, at most: purchases take them in turn.
const CARTS_MAX: usize = 1_000;

/// The orders of a load. Some of them have items in common, in opposite sequences.
pub struct Carts(Vec<Vec<i64>>);

impl Carts {
    /// Draws orders with this number of lines, each of another item.
    pub fn draw(items: &[i64], lines: usize, seed: u64) -> Self {
        let mut random = StdRng::seed_from_u64(seed);
        let draw = |_| {
            let mut cart = items.to_vec();
            cart.shuffle(&mut random);
            cart.truncate(lines);
            cart
        };
        let count = if items.len() == 1 { 1 } else { CARTS_MAX };
        Self((0..count).map(draw).collect())
    }

    /// How many there are.
    pub fn count(&self) -> u32 {
        u32::try_from(self.0.len()).unwrap_or(u32::MAX)
    }

    /// The lines of each order, as JSON.
    pub fn lines(&self) -> Vec<String> {
        let line = |item: &i64| json!({ "item_id": item, "quantity": 1 });
        let lines = |cart: &Vec<i64>| json!(cart.iter().map(line).collect::<Vec<_>>()).to_string();
        self.0.iter().map(lines).collect()
    }

    /// The request of each order.
    pub fn requests(&self) -> Vec<OrderRequest> {
        let request = |lines: String| OrderRequest {
            path: "/api/reservations".to_owned(),
            body: format!("{{\"lines\":{lines}}}"),
        };
        self.lines().into_iter().map(request).collect()
    }

    /// The answers that say something about an item: those to orders with a line of it, without those that
    /// another line has refused. If such an order exists all the same, the audit finds an order without a request (I9).
    pub fn answers_about(&self, item: i64, answers: &[Answer]) -> Vec<Answer> {
        let refused = |answer: &&Answer| {
            answer.last && answer.refused_item.is_some_and(|refused| refused != item)
        };
        let of_others: HashSet<u32> =
            answers.iter().filter(refused).map(|one| one.request).collect();
        let is_about = |answer: &&Answer| {
            self.0[answer.strategy as usize].contains(&item) && !of_others.contains(&answer.request)
        };
        answers.iter().filter(is_about).cloned().collect()
    }
}

/// Puts the guests into the record: the number of a guest is known by an answer, or else by the order in the ledger
/// that has the key of the purchase.
pub fn name_guests(answers: &mut [Answer], after: &Ledger) {
    let is_unnamed = |answer: &&Answer| answer.buyer <= 0;
    let keys = answers.iter().filter(is_unnamed).filter_map(|answer| answer.key.clone());
    let unnamed: HashSet<String> = keys.collect();
    let known = answers.iter().filter(|answer| answer.buyer > 0);
    let known = known.filter_map(|answer| Some((answer.key.as_deref()?, answer.buyer)));
    let orders = after.orders.iter().filter_map(|order| Some((order.key.as_deref()?, order.buyer)));
    let buyers: HashMap<String, i64> = orders
        .chain(known)
        .filter(|(key, _)| unnamed.contains(*key))
        .map(|(key, buyer)| (key.to_owned(), buyer))
        .collect();
    for answer in answers.iter_mut().filter(|answer| answer.buyer <= 0) {
        let named = answer.key.as_ref().and_then(|key| buyers.get(key));
        // Nobody else has this number.
        answer.buyer = named.copied().unwrap_or(-1 - i64::from(answer.request));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger_audit::{Order, Outcome};

    #[test]
    fn carts_overlap_in_opposite_sequences() {
        let items: Vec<i64> = (1..=50).collect();
        let carts = Carts::draw(&items, 3, 7).0;
        assert!(
            carts.iter().all(|cart| cart.len() == 3 && cart[0] != cart[1] && cart[1] != cart[2])
        );
        let place = |cart: &[i64], item: i64| cart.iter().position(|one| *one == item);
        let mut opposite = 0;
        for (first, second) in carts.iter().zip(&carts[1..]) {
            for pair in first.windows(2) {
                if let (Some(a), Some(b)) = (place(second, pair[0]), place(second, pair[1])) {
                    opposite += usize::from(a > b);
                }
            }
        }
        assert!(opposite > 0);
    }

    #[test]
    fn a_refusal_says_nothing_about_the_other_items() {
        let carts = Carts(vec![vec![1, 2], vec![3]]);
        let answer = |request, strategy, refused_item| Answer {
            request,
            strategy,
            refused_item,
            last: true,
            ..Answer::default()
        };
        let answers = [answer(0, 0, None), answer(1, 0, Some(2)), answer(2, 1, None)];
        let about = |item| -> Vec<u32> {
            carts.answers_about(item, &answers).iter().map(|one| one.request).collect()
        };
        assert_eq!((about(1), about(2), about(3)), (vec![0], vec![0, 1], vec![2]));
    }

    #[test]
    fn a_guest_is_named_by_an_answer_or_by_the_ledger() {
        let answer = |request, key: &str, buyer| Answer {
            request,
            key: Some(key.to_owned()),
            buyer,
            outcome: Outcome::Unknown,
            ..Answer::default()
        };
        let order = Order {
            id: "o".to_owned(),
            buyer: 9,
            quantity: 1,
            status: "pending".to_owned(),
            key: Some("b".to_owned()),
            fence: None,
        };
        let after = Ledger { orders: vec![order], ..Ledger::default() };
        let mut answers =
            [answer(0, "a", 0), answer(0, "a", 8), answer(1, "b", 0), answer(2, "c", 0)];
        name_guests(&mut answers, &after);
        assert_eq!(answers.map(|answer| answer.buyer), [8, 8, 9, -3]);
    }
}
