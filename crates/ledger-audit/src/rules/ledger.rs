//! I1 to I7: what the ledger alone must fulfil.

use std::collections::{HashMap, HashSet};

use super::fences;
use crate::{Evidence, Faults, Finding, Judgement, Ledger, Movement, Order, Stock};

/// Judges I1 to I7.
pub fn judge(evidence: &Evidence<'_>, stock: Stock) -> Judgement {
    let ledger = evidence.after;
    let units_live = units(ledger, Order::is_live);
    let beyond = (units_live - evidence.stock).max(units_accepted_beyond(evidence)).max(0);
    let oversold =
        Faults::of_units(beyond, || format!("{units_live} units sold of {}", evidence.stock));
    let over_limit = over_limit(evidence);
    let moved = Moved::of(ledger);
    let findings = vec![
        balance(evidence, stock, units_live),
        limit(evidence, over_limit.clone()),
        movements_sum(ledger, stock),
        orders_and_movements(ledger, &moved),
        give_backs(ledger, &moved),
        fences::judge(evidence),
        Finding::not_judged(
            "I7",
            "the Redis counters equal the ledger",
            "this audit speaks HTTP and SQL only; see the service's own audit",
        ),
    ];
    Judgement { findings, units_live, oversold, over_limit, ..Judgement::default() }
}

/// Units of orders that fulfil `which`.
pub fn units(ledger: &Ledger, which: impl Fn(&Order) -> bool) -> i64 {
    ledger.orders.iter().filter(|order| which(order)).map(|order| order.quantity).sum()
}

/// Units promised by accepted answers beyond the stock: oversold even if the ledger forgot them.
fn units_accepted_beyond(evidence: &Evidence<'_>) -> i64 {
    let sold_at_once = evidence.answers.iter().filter(|answer| matches!(answer.status, 200 | 201));
    let mut seen: HashMap<(u32, Option<&str>), i64> = HashMap::new();
    for answer in sold_at_once {
        seen.insert(
            (answer.request, answer.order_id.as_deref()),
            answer.order_quantity.unwrap_or(evidence.quantity),
        );
    }
    let before = units(evidence.before, Order::is_live);
    // Units given back meanwhile (a hold that ran out) were rightly sold again.
    let given_back = units(evidence.after, |order| order.took_stock() && !order.is_live());
    seen.values().sum::<i64>() + before - evidence.stock - given_back
}

fn balance(evidence: &Evidence<'_>, stock: Stock, units_live: i64) -> Finding {
    let units_paid = units(evidence.after, |order| order.status == "paid");
    let mut faults = Faults::default();
    if stock.total != evidence.stock {
        faults.add(format_args!(
            "{} units were put on sale, the ledger's total is {}",
            evidence.stock, stock.total
        ));
    }
    let offered = evidence.after.line.offered;
    let accounted = stock.available + offered + units_live;
    if accounted != evidence.stock {
        faults.add(format_args!(
            "available {} + offered {offered} + live orders {units_live} = {accounted}, not {}",
            stock.available, evidence.stock
        ));
    }
    for (units, what) in [(stock.available, "available"), (offered, "offered")] {
        if units < 0 {
            faults.add(format_args!("{what} is {units}"));
        }
    }
    Finding::judged(
        "I1",
        "total = available + offered + sold + held, none below zero",
        format!(
            "total {}, available {}, offered {offered}, sold {units_paid}, held {}",
            stock.total,
            stock.available,
            units_live - units_paid
        ),
        faults,
    )
}

fn over_limit(evidence: &Evidence<'_>) -> Faults {
    let mut by_buyer: HashMap<i64, i64> = HashMap::new();
    for order in &evidence.after.orders {
        if order.is_live() || order.status == "queued" {
            *by_buyer.entry(order.buyer).or_default() += order.quantity;
        }
    }
    let mut above: Vec<_> =
        by_buyer.into_iter().filter(|(_, units)| *units > evidence.per_buyer_limit).collect();
    above.sort_unstable();
    let mut faults = Faults::default();
    for (buyer, units) in above {
        faults.add(format_args!(
            "buyer {buyer} has {units} units, the limit is {}",
            evidence.per_buyer_limit
        ));
    }
    faults
}

fn limit(evidence: &Evidence<'_>, over_limit: Faults) -> Finding {
    const CLAIM: &str = "no buyer has more than the limit";
    let detail = format!("{} buyers above {}", over_limit.count, evidence.per_buyer_limit);
    if evidence.arbiter_on {
        Finding::judged("I2", CLAIM, detail, over_limit)
    } else {
        // The textbook writes that run then know of no limit.
        Finding::not_judged("I2", CLAIM, format!("the arbiter is off; {detail}"))
    }
}

fn movements_sum(ledger: &Ledger, stock: Stock) -> Finding {
    let sum: i64 = ledger.movements.iter().map(|movement| movement.units).sum();
    let expected = stock.available + ledger.line.offered - stock.total;
    let mut faults = Faults::default();
    if sum != expected {
        faults.add(format_args!(
            "the movements add up to {sum}, available + offered - total is {expected}"
        ));
    }
    Finding::judged(
        "I3",
        "the movements add up to available + offered - total",
        format!("{sum} units"),
        faults,
    )
}

fn orders_and_movements(ledger: &Ledger, moved: &Moved<'_>) -> Finding {
    let mut faults = Faults::default();
    for order in &ledger.orders {
        let taken = moved.units(order, "sold");
        let expected = if order.took_stock() { vec![-order.quantity] } else { Vec::new() };
        if taken != expected {
            faults.add(format_args!(
                "order {} is {} with {} units, its movements of sold stock are {taken:?}",
                order.id, order.status, order.quantity
            ));
        }
    }
    let orders: HashSet<&str> = ledger.orders.iter().map(|order| order.id.as_str()).collect();
    for Movement { order, reason, units } in &ledger.movements {
        if !orders.contains(order.as_str()) {
            faults.add(format_args!("a movement of {units} units is of no order: {order}"));
        }
        if !matches!(reason.as_str(), "sold" | "cancelled" | "expired" | "late_payment") {
            faults.add(format_args!("a movement of order {order} has the unknown reason {reason}"));
        }
    }
    let detail = format!("{} orders, {} movements", ledger.orders.len(), ledger.movements.len());
    Finding::judged("I4", "no order without a movement, no movement without orders", detail, faults)
}

fn give_backs(ledger: &Ledger, moved: &Moved<'_>) -> Finding {
    let mut faults = Faults::default();
    let mut given_back = 0;
    for order in &ledger.orders {
        let cancelled = moved.units(order, "cancelled");
        let expired = moved.units(order, "expired");
        let late = moved.units(order, "late_payment");
        let once = [order.quantity];
        // A late payment takes what the expiry had given back.
        let was_paid_late = expired == once && late == [-order.quantity];
        let holds_again = (expired.is_empty() && late.is_empty()) || was_paid_late;
        let is_right = match order.status.as_str() {
            "cancelled" => cancelled == once && holds_again,
            "expired" => cancelled.is_empty() && expired == once && late.is_empty(),
            "paid" => cancelled.is_empty() && holds_again,
            _ => cancelled.is_empty() && expired.is_empty() && late.is_empty(),
        };
        if !is_right {
            faults.add(format_args!(
                "order {} is {} with {} units, its movements are cancelled {cancelled:?}, \
                 expired {expired:?}, late_payment {late:?}",
                order.id, order.status, order.quantity
            ));
        }
        given_back += [cancelled, expired, late].concat().iter().sum::<i64>();
    }
    Finding::judged(
        "I5",
        "each cancelled or expired order gave back its units, once",
        format!("{given_back} units given back"),
        faults,
    )
}

/// The units of each movement, by order and reason.
struct Moved<'a>(HashMap<(&'a str, &'a str), Vec<i64>>);

impl<'a> Moved<'a> {
    fn of(ledger: &'a Ledger) -> Self {
        let mut moved: HashMap<(&str, &str), Vec<i64>> = HashMap::new();
        for Movement { order, reason, units } in &ledger.movements {
            moved.entry((order.as_str(), reason.as_str())).or_default().push(*units);
        }
        Self(moved)
    }

    /// The units of the movements of an order for a reason; the ledger allows one.
    fn units(&self, order: &Order, reason: &str) -> Vec<i64> {
        self.0.get(&(order.id.as_str(), reason)).cloned().unwrap_or_default()
    }
}
