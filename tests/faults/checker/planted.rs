//! Faults that the checker must find: in records of answers, and in the rows of a real trial.

use ledger_audit::{Answer, Ledger, Order, Outcome};
use protocol_models::batch::replay::explain_each;
use protocol_models::trace::BATCH_TARGET;

use super::{QueueCut, forget_lost_promises, forget_with_writer, open, taken_back};
use crate::events::events_of;
use crate::prelude::*;
use crate::report::are_too_many_missed;
use crate::rows::mysql::execute;

/// When the power of the queue's Redis is cut, and how much may be lost with it.
const CUT_AT: Duration = Duration::from_secs(10);
const LOST_WITHIN: Duration = Duration::from_secs(2);

/// A strategy, what is done to the rows of its item, and the invariant that must be named.
const IN_ROWS: [(&str, &str, &str); 4] = [
    ("mysql-atomic", "UPDATE stock SET available = available + 1 WHERE item_id = :item", "I1"),
    ("mysql-for-update", "UPDATE orders SET quantity = 2 WHERE item_id = :item LIMIT 1", "I2"),
    ("mysql-version", "DELETE FROM stock_movements WHERE item_id = :item LIMIT 1", "I4"),
    ("lock-redis", "DELETE FROM orders WHERE item_id = :item LIMIT 1", "I8"),
];

/// A row of the matrix without a fault: whatever the checker judges by itself is wrong once, and right once.
pub async fn in_records(_: &mut Testbed, _: u64) -> TrialResult {
    let judged = [answers(), losses(), outcomes(), events()].concat();
    let wrong: Vec<&str> =
        judged.iter().filter(|(_, right)| !right).map(|(what, _)| *what).collect();
    if !wrong.is_empty() {
        return Err(format!("judged wrongly: {}", wrong.join("; ")));
    }
    found(judged.len(), format!("{} judgements, all right", judged.len()))
}

/// A row of the matrix: rows are changed while the service sells, each item's in another way.
pub async fn in_rows(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(&[]), &testbed.setup());
    plan.strategies = IN_ROWS.iter().map(|(strategy, _, _)| *strategy).collect();
    plan.control = false;
    let trial = run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = testbed.operator().await?;
        for (item, (_, statement, _)) in trial.item_ids().into_iter().zip(IN_ROWS) {
            execute(&mut operator, &statement.replace(":item", &item.to_string())).await?;
        }
        Ok("planted".to_owned())
    });
    let trial = trial.await?;
    let says = |begin: String| trial.broken.iter().any(|what| what.starts_with(&begin));
    let missed = IN_ROWS.iter().filter(|(strategy, _, invariant)| {
        let by_audit = says(format!("{strategy}: {invariant} "));
        !(by_audit && says(format!("{strategy}: the audit stays unclean")))
    });
    let missed: Vec<String> =
        missed.map(|(strategy, _, invariant)| format!("{invariant} of {strategy}")).collect();
    let all = trial.broken.join("\n    ");
    if !missed.is_empty() || trial.is_clean() || trial.lost != 1 {
        return Err(format!("not found: {}; found: {all}", missed.join(", ")));
    }
    found(IN_ROWS.len(), all.lines().next().unwrap_or_default().to_owned())
}

/// The outcome of a row whose planted faults were found, each of them a known-bad run.
fn found(count: usize, proof: String) -> Run<TrialOutcome> {
    let count = u32::try_from(count).unwrap_or(u32::MAX);
    let mut outcome = TrialOutcome::new(count, proof, Vec::new());
    outcome.controls = (count, count);
    Ok(outcome)
}

type Judged = Vec<(&'static str, bool)>;

fn answer(order: &str, status: u16, outcome: Outcome) -> Answer {
    let order_id = (outcome == Outcome::Accepted).then(|| order.to_owned());
    let key = Some(order.to_owned());
    Answer { request: 1, last: true, key, status, outcome, order_id, ..Answer::default() }
}

fn sold(order: &str) -> Answer {
    answer(order, 201, Outcome::Accepted)
}

fn queued(order: &str) -> Answer {
    answer(order, 202, Outcome::Accepted)
}

/// An order of the ledger.
fn order(id: &str) -> Order {
    Order {
        id: id.to_owned(),
        buyer: 1,
        quantity: 1,
        status: "pending".to_owned(),
        key: Some(id.to_owned()),
        fence: None,
    }
}

/// What the answers show by themselves.
fn answers() -> Judged {
    let refused = answer("a", 409, Outcome::Refused);
    let unknown = answer("a", 0, Outcome::Unknown);
    vec![
        (
            "a purchase that was sold and then refused",
            taken_back(&[sold("a"), refused.clone()]).is_some(),
        ),
        ("a queued purchase that was then refused", taken_back(&[queued("a"), refused]).is_none()),
        ("a purchase without an end", !open(std::slice::from_ref(&unknown)).is_empty()),
        ("a purchase with an end", open(&[sold("a")]).is_empty()),
    ]
}

/// What may be lost, and no more.
fn losses() -> Judged {
    let microseconds = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let cut = QueueCut { within: LOST_WITHIN, at_us: vec![microseconds(CUT_AT)] };
    let excuses =
        |at: Duration| cut.excuses(&Answer { answered_at_us: microseconds(at), ..queued("a") });
    let mut ledger = Ledger { orders: vec![order("a")], ..Ledger::default() };
    let mut by_redis = vec![queued("a"), queued("b"), sold("c")];
    let lost = forget_lost_promises(&mut by_redis, &mut ledger, |answer| answer.status == 202);
    let named = HashSet::from(["b".to_owned()]);
    let mut by_writer = vec![Answer { request: 2, ..sold("b") }, sold("c")];
    let lost_with_writer = forget_with_writer(&mut by_writer, &named, &ledger);
    let ids = |answers: &[Answer]| -> Vec<String> {
        answers.iter().filter_map(|answer| answer.order_id.clone()).collect()
    };
    vec![
        (
            "lost, answered long before the cut",
            !excuses(CUT_AT - LOST_WITHIN - Duration::from_millis(1)),
        ),
        ("lost, answered shortly before the cut", excuses(CUT_AT - Duration::from_secs(1))),
        ("lost, answered after the cut", !excuses(CUT_AT + Duration::from_secs(1))),
        ("a lost order that was sold and not queued", lost == 1 && ids(&by_redis) == ["a", "c"]),
        (
            "a lost order that the old writer does not name",
            lost_with_writer == 1 && ids(&by_writer) == ["c"],
        ),
    ]
}

/// What a trial and a run are called.
fn outcomes() -> Judged {
    let clean = || TrialOutcome::new(0, String::new(), Vec::new());
    let is_clean = |change: fn(&mut TrialOutcome)| {
        let mut outcome = clean();
        change(&mut outcome);
        outcome.is_clean()
    };
    let idle = vec![("mysql-atomic".to_owned(), None)];
    vec![
        ("a trial without a fault", clean().is_clean()),
        ("an oversold unit", !is_clean(|outcome| outcome.oversold = 1)),
        ("a doubled order", !is_clean(|outcome| outcome.duplicated = 1)),
        ("a lost order", !is_clean(|outcome| outcome.lost = 1)),
        ("an unresolved purchase", !is_clean(|outcome| outcome.unresolved = 1)),
        ("a broken promise", !is_clean(|outcome| outcome.broken.push(String::new()))),
        ("a strategy that sells no more", !TrialOutcome::new(0, String::new(), idle).is_clean()),
        ("two of twenty known-bad runs that were missed", are_too_many_missed(18, 20)),
        ("one of twenty known-bad runs that was missed", !are_too_many_missed(19, 20)),
        ("two of a few known-bad runs that were missed", are_too_many_missed(1, 3)),
    ]
}

/// What processes have said of an order.
fn events() -> Judged {
    let line = |what: &&str| {
        let fields = json!({ "what": what, "kind": "own", "lines": "a", "answer": "sold" });
        format!("{}\n", json!({ "target": BATCH_TARGET, "fields": fields }))
    };
    let is_path = |text: &str| {
        let each = explain_each(&[events_of(text)]);
        each.events > 0 && each.explained == each.events
    };
    let rows = ["begin", "keys", "limits", "turn", "stock"].iter().map(line).collect::<String>();
    let written = ["commit", "committed", "told"].iter().map(line).collect::<String>();
    let told = line(&"told");
    vec![
        ("an order that is told before its COMMIT", !is_path(&format!("{rows}{told}"))),
        ("an order that is told after its COMMIT", is_path(&format!("{rows}{written}"))),
        ("an order whose process is killed in a line", is_path(&rows[..rows.len() - 9])),
    ]
}
