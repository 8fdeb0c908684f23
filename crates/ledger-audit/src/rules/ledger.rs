//! I1 to I7: what the ledger alone must fulfil.

use std::collections::HashMap;

use super::fences;
use crate::{Evidence, Faults, Finding, Ledger, Order, Stock};

/// What the ledger's rules found.
pub struct LedgerJudgement {
    pub findings: Vec<Finding>,
    pub units_live: i64,
    pub oversold: Faults,
    pub over_limit: Faults,
}

/// Judges I1 to I7.
pub fn judge(evidence: &Evidence<'_>, stock: Stock) -> LedgerJudgement {
    let ledger = evidence.after;
    let units_live = units(ledger, Order::is_live);
    let beyond = (units_live - evidence.stock).max(units_accepted_beyond(evidence)).max(0);
    let oversold =
        Faults::of_units(beyond, || format!("{units_live} units sold of {}", evidence.stock));
    let over_limit = over_limit(evidence);
    let findings = vec![
        balance(evidence, stock, units_live),
        limit(evidence, over_limit.clone()),
        movements_sum(ledger, stock),
        orders_and_movements(ledger),
        give_backs(ledger),
        fences::judge(evidence),
        Finding::not_judged(
            "I7",
            "the Redis counters equal the ledger",
            "this audit speaks HTTP and SQL only; see the service's own audit",
        ),
    ];
    LedgerJudgement { findings, units_live, oversold, over_limit }
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
    let sum: i64 = ledger.movements.iter().map(|movements| movements.units).sum();
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

fn orders_and_movements(ledger: &Ledger) -> Finding {
    let units_ordered = units(ledger, Order::took_stock);
    let orders = ledger.orders.iter().filter(|order| order.took_stock()).count();
    let (sold_count, sold_units) = movements_of(ledger, "sold");
    let mut faults = Faults::default();
    if -sold_units != units_ordered {
        faults.add(format_args!(
            "{orders} orders took {units_ordered} units, their movements say {}",
            -sold_units
        ));
    }
    // One movement may stand for a batch of orders, but never the other way round.
    if usize::try_from(sold_count).unwrap_or(usize::MAX) > orders {
        faults.add(format_args!("{sold_count} movements of sold stock for {orders} orders"));
    }
    for movements in &ledger.movements {
        if !matches!(movements.reason.as_str(), "sold" | "cancelled" | "expired" | "late_payment") {
            faults.add(format_args!(
                "{} movements have the unknown reason {}",
                movements.count, movements.reason
            ));
        }
    }
    Finding::judged(
        "I4",
        "no order without a movement, no movement without orders",
        format!("{orders} orders, {sold_count} movements"),
        faults,
    )
}

fn give_backs(ledger: &Ledger) -> Finding {
    let (_, cancelled) = movements_of(ledger, "cancelled");
    let (_, expired) = movements_of(ledger, "expired");
    let (_, late) = movements_of(ledger, "late_payment");
    let units_cancelled = units(ledger, |order| order.status == "cancelled");
    let units_expired = units(ledger, |order| order.status == "expired");
    let mut faults = Faults::default();
    if cancelled != units_cancelled {
        faults.add(format_args!(
            "cancelled orders hold {units_cancelled} units, {cancelled} were given back"
        ));
    }
    // A late payment takes what its expiry had given back.
    if expired + late != units_expired {
        faults.add(format_args!(
            "expired orders hold {units_expired} units, {} were given back",
            expired + late
        ));
    }
    Finding::judged(
        "I5",
        "each cancelled or expired order gave back its units, once",
        format!(
            "{} units of {} given back",
            cancelled + expired + late,
            units_cancelled + units_expired
        ),
        faults,
    )
}

/// Count and units of one reason.
fn movements_of(ledger: &Ledger, reason: &str) -> (i64, i64) {
    ledger
        .movements
        .iter()
        .filter(|movements| movements.reason == reason)
        .fold((0, 0), |(count, units), movements| {
            (count + movements.count, units + movements.units)
        })
}
