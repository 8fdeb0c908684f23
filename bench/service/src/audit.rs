//! The audit of a load on many items: each is judged by itself, as `run` judges its one item.

use std::collections::HashMap;

use ledger_audit::{Answer, Evidence, Ledger, Outcome, judge};

use loadtest::failure::CannotJudge;

/// The invariant that a service which sheds load may break: some stock is left unsold.
const SOLD_OUT: &str = "I12";

/// Judges each item by the answers that were about it: those whose number of a strategy is the
/// item's place in `items`. Each item was given `stock` units. Returns one sentence for each
/// invariant that an item breaks; none: the load was clean.
pub fn audit(
    items: &[i64],
    stock: i64,
    before: &[Ledger],
    after: &[Ledger],
    answers: Vec<Answer>,
) -> Result<Vec<String>, CannotJudge> {
    if answers.iter().all(|answer| answer.status == 0) {
        let reason = format!("none of {} purchases got an answer", answers.len());
        return Err(CannotJudge(reason));
    }
    let mut by_item: HashMap<usize, Vec<Answer>> = HashMap::new();
    for answer in answers {
        by_item.entry(answer.strategy as usize).or_default().push(answer);
    }
    let mut broken = Vec::new();
    for (index, item) in items.iter().enumerate() {
        let answers = by_item.remove(&index).unwrap_or_default();
        let before = &before[index];
        let after = &after[index];
        if answers.iter().all(|answer| answer.status == 0) {
            // Nobody was answered anything about it, so there may be what unknown answers did.
            let open = answers.iter().filter(|one| one.outcome == Outcome::Unknown).count();
            if after.orders.len() > before.orders.len() + open {
                broken.push(format!("item {item}: orders without a request"));
            }
            continue;
        }
        let judgement = judge(&Evidence { before, ..Evidence::of(stock, after, &answers) })?;
        let faults = [
            ("oversold", judgement.oversold.count),
            ("lost", judgement.lost.count),
            ("phantom", judgement.phantom.count),
            ("duplicate", judgement.duplicates.count),
            ("over the buyer's limit", judgement.over_limit.count),
        ];
        let counted = faults.into_iter().filter(|(_, count)| *count > 0);
        broken.extend(counted.map(|(what, count)| format!("item {item}: {count} {what}")));
        let rules = judgement.broken().into_iter().filter(|rule| *rule != SOLD_OUT);
        broken.extend(rules.map(|rule| format!("item {item}: {rule} is broken")));
    }
    Ok(broken)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ledger_audit::{Movement, Order, Stock};

    const STOCK: i64 = 10;

    fn ledger(orders: &[&str]) -> Ledger {
        let sold = i64::try_from(orders.len()).expect("a few");
        let order = |id: &&str| Order {
            id: (*id).to_owned(),
            buyer: 1,
            quantity: 1,
            status: "pending".to_owned(),
            key: Some((*id).to_owned()),
            fence: None,
        };
        let movement =
            |id: &&str| Movement { order: (*id).to_owned(), reason: "sold".to_owned(), units: -1 };
        Ledger {
            item_exists: true,
            stock: Some(Stock { total: STOCK, available: STOCK - sold }),
            orders: orders.iter().map(order).collect(),
            movements: orders.iter().map(movement).collect(),
            ..Ledger::default()
        }
    }

    /// An order of this id, and key, of the item at this place.
    fn sold(request: u32, item: u32, id: &str) -> Answer {
        Answer {
            request,
            last: true,
            buyer: 1,
            key: Some(id.to_owned()),
            strategy: item,
            status: 201,
            code: "sold".to_owned(),
            outcome: Outcome::Accepted,
            order_id: Some(id.to_owned()),
            order_quantity: Some(1),
            ..Answer::default()
        }
    }

    fn judged(after: &[Ledger; 3]) -> String {
        let before = [ledger(&[]), ledger(&[]), ledger(&[])];
        let answers = vec![sold(0, 0, "a"), sold(1, 1, "b")];
        audit(&[7, 8, 9], STOCK, &before, after, answers).expect("judged").join("; ")
    }

    #[test]
    fn each_item_is_judged_by_its_own_answers() {
        assert_eq!(judged(&[ledger(&["a"]), ledger(&["b"]), ledger(&[])]), "");
        // The sums over all items are right, and yet an order is at another item.
        let swapped = judged(&[ledger(&["a"]), ledger(&[]), ledger(&["b"])]);
        assert!(swapped.contains("item 8: 1 lost"), "{swapped}");
        assert!(swapped.contains("item 9: orders without a request"), "{swapped}");
        let twice = judged(&[ledger(&["a"]), ledger(&["b", "c"]), ledger(&[])]);
        assert!(twice.contains("item 8: 1 phantom"), "{twice}");
        let mut taken = ledger(&["a"]);
        taken.stock = Some(Stock { total: STOCK, available: STOCK });
        let forgotten = judged(&[taken, ledger(&["b"]), ledger(&[])]);
        assert!(forgotten.contains("item 7: I1 is broken"), "{forgotten}");
    }

    #[test]
    fn a_load_that_reached_nobody_proves_nothing() {
        let silent = Answer { status: 0, outcome: Outcome::Unknown, ..sold(0, 0, "a") };
        assert!(audit(&[7], STOCK, &[ledger(&[])], &[ledger(&[])], vec![silent]).is_err());
    }
}
