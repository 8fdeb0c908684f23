//! Planted faults, each of which the evaluation names.

use super::*;
use crate::load_generator::{Reply, answer, key};
use crate::plan::{Plan, StrategyChoice};
use crate::report::{Arbiters, RunRequest};
use shop_domain::audit::{self, Facts};
use shop_domain::{ItemId, OrderId, OrderStatus};

/// Buyers of each case.
const BUYERS: u32 = 3;

struct Case {
    answers: Vec<Answer>,
    orders: Vec<OrderRecord>,
    arbiter: ArbiterMode,
    breaks_with: Breaks,
}

impl Case {
    /// Two units, both sold, and one buyer who came too late.
    fn fine() -> Self {
        let ids = [OrderId::generate(), OrderId::generate()];
        let orders = ids.iter().zip(0..).map(|(&id, request)| OrderRecord {
            id,
            request_key: key(request).as_str().to_owned(),
            status: OrderStatus::Pending,
        });
        let accepted = ids.map(|order| Reply {
            status: 201,
            code: "sold",
            outcome: Outcome::Accepted,
            order: Some(order),
        });
        let late = Reply { status: 409, code: "sold_out", outcome: Outcome::Refused, order: None };
        let replies = accepted.into_iter().chain([late]).zip(0..);
        Self {
            answers: replies
                .map(|(reply, request)| {
                    answer(request, BUYERS, reply, 10, 100 * u64::from(request + 1))
                })
                .collect(),
            orders: orders.collect(),
            arbiter: ArbiterMode::Off,
            breaks_with: Breaks::Never,
        }
    }

    fn evaluated(&self) -> Cell {
        let holds_stock = [OrderStatus::Pending, OrderStatus::Paid];
        let live = self.orders.iter().filter(|order| holds_stock.contains(&order.status)).count();
        let held = i64::try_from(live).expect("a few");
        let facts = Facts {
            item_id: ItemId::new(1).expect("positive"),
            arbiter: self.arbiter,
            total: 2,
            total_written_down: None,
            available: 2 - held,
            units_sold: 0,
            units_held: held,
            orders: held,
            movements_sum: -held,
            counted: Vec::new(),
            offered: 0,
            redis_available: None,
            redis_queued: 0,
            redis_buckets: None,
            strategy_rows: Vec::new(),
        };
        let request = RunRequest {
            strategies: vec!["mysql-atomic".to_owned()],
            stock: 2,
            buyers: BUYERS,
            requests: 3,
            concurrency: 3,
            arbiter: Arbiters::Off,
            rounds: 1,
            quantity: 1,
            seconds_max: 1,
        };
        let chosen = vec![StrategyChoice::parse("mysql-atomic").expect("known")];
        let (mut cell, _) = Plan { request, chosen }.cells().remove(0);
        for answer in &self.answers {
            match answer.outcome {
                Outcome::Accepted => cell.accepted += 1,
                Outcome::Refused => cell.refused += 1,
                Outcome::Unavailable => cell.unavailable += 1,
                Outcome::Unknown => cell.unknown += 1,
            }
        }
        let evidence = Evidence {
            answers: &self.answers,
            orders: &self.orders,
            report: &audit::verify(facts),
            stock: 2,
            quantity: 1,
            sold_out_age: Duration::from_micros(20),
            breaks_with: self.breaks_with,
        };
        evaluate(&mut cell, &evidence);
        cell
    }

    fn verdict(&self) -> Verdict {
        self.evaluated().verdict.expect("evaluated")
    }
}

fn one_more(orders: &[OrderRecord], request: u32) -> OrderRecord {
    let request_key = key(request).as_str().to_owned();
    OrderRecord { id: OrderId::generate(), request_key, ..orders[0].clone() }
}

#[test]
fn a_sale_that_went_well_is_clean() {
    let cell = Case::fine().evaluated();
    assert_eq!((cell.verdict, cell.as_declared), (Some(Verdict::Clean), Some(true)));
    assert!(cell.violations.is_empty(), "{:?}", cell.violations);
}

#[test]
fn each_planted_fault_is_named() {
    let mut oversold = Case::fine();
    oversold.orders.push(one_more(&oversold.orders, 2));
    let cell = oversold.evaluated();
    assert_eq!((cell.oversold, cell.verdict), (1, Some(Verdict::Oversold)));
    assert_eq!((cell.phantom, cell.as_declared), (1, Some(false)), "it was refused");

    let mut lost = Case::fine();
    lost.orders.pop();
    assert_eq!((lost.evaluated().lost, lost.verdict()), (1, Verdict::Lost));

    let mut undersold = Case::fine();
    undersold.orders.pop();
    undersold.answers.remove(1);
    assert_eq!((undersold.evaluated().undersold, undersold.verdict()), (1, Verdict::Undersold));

    let mut swapped = Case::fine();
    swapped.orders[1] = one_more(&swapped.orders, 9);
    swapped.answers.remove(1);
    assert_eq!((swapped.evaluated().phantom, swapped.verdict()), (1, Verdict::Inconsistent));

    let mut twice = Case::fine();
    twice.answers[1].order_id = twice.answers[0].order_id.clone();
    assert_eq!(twice.evaluated().duplicates, 1);
}

/// All units are sold in the end, so that only the order of time shows it.
#[test]
fn a_buyer_who_was_told_sold_out_while_a_unit_was_left_is_found() {
    let mut case = Case::fine();
    case.arbiter = ArbiterMode::On;
    assert_eq!(case.verdict(), Verdict::Clean);
    // Before the second order was sent, and longer than the memory lasts.
    case.answers[2].answered_at_us = 150;
    let cell = case.evaluated();
    assert_eq!((cell.verdict, cell.as_declared), (Some(Verdict::Inconsistent), Some(false)));
    assert!(cell.violations[0].starts_with("I16 is broken"), "{:?}", cell.violations);
    // Without the arbiter the gate's word is final.
    case.arbiter = ArbiterMode::Off;
    assert_eq!(case.verdict(), Verdict::Clean);
}

#[test]
fn nothing_that_ran_is_never_clean() {
    let mut nothing = Case::fine();
    nothing.orders.clear();
    nothing.answers.clear();
    assert_eq!((nothing.verdict(), nothing.evaluated().as_declared), (Verdict::NothingRan, None));
    let unavailable =
        Reply { status: 503, code: "unavailable", outcome: Outcome::Unavailable, order: None };
    nothing.answers = vec![answer(0, BUYERS, unavailable, 1, 1)];
    assert_eq!(nothing.verdict(), Verdict::NothingRan);
}

#[test]
fn a_queued_order_may_be_rejected_and_a_sold_one_may_not() {
    let mut rejected = Case::fine();
    rejected.orders[1].status = OrderStatus::Rejected;
    rejected.answers.truncate(2);
    assert_eq!(rejected.verdict(), Verdict::Lost);
    rejected.answers[1].status = 202;
    rejected.answers[1].code = "queued".to_owned();
    assert_eq!(rejected.verdict(), Verdict::Clean);
    rejected.orders[1].status = OrderStatus::Queued;
    assert_eq!(rejected.verdict(), Verdict::Lost);
}

#[test]
fn a_broken_gate_need_not_break_and_the_arbiter_excuses_nothing() {
    let mut lucky = Case::fine();
    lucky.breaks_with = Breaks::Alone;
    assert_eq!(lucky.evaluated().as_declared, None);
    lucky.orders.push(one_more(&lucky.orders, 2));
    assert_eq!(lucky.evaluated().as_declared, Some(true));
    lucky.arbiter = ArbiterMode::On;
    assert_eq!(lucky.evaluated().as_declared, Some(false));
}
