//! Crash points: one instance aborts at every step between a first write and its answer.

use seckill::failpoint::POINTS;

use super::orders;
use super::power::Power;
use crate::prelude::*;

/// The signal of an abort.
const ABORTED: i32 = 6;
/// An instance that does not come to its point by then does not come there at all.
const REACHED_MAX: Duration = Duration::from_secs(20);
/// A run that sells so long walks all points in each trial.
const WHOLE_WALK: Duration = Duration::from_secs(2);
/// Points of a shorter run; the next seed goes on with the next ones.
const POINTS_FEW: usize = 3;

/// Points between two statements of an order, which is otherwise one call.
const STATEMENT_BY_STATEMENT: [&str; 6] = [
    "begun",
    "fence-raised",
    "order-inserted",
    "buyer-counted",
    "movement-inserted",
    "stock-taken",
];

/// Which strategies come to a point. Those of the arbiter are reached with a fence and without.
fn strategies(point: &str) -> &'static [&'static str] {
    match point {
        "counter-taken" | "given-back" => &["redis-lua"],
        "buckets-taken" => &["redis-bucket"],
        "queued" | "queue-read" | "decided" | "acknowledged" | "reject-inserted" => {
            &["redis-stream"]
        }
        "fence-raised" => &["lock-redis"],
        point if point.starts_with("batch") => &["mysql-batch"],
        point if point.starts_with("step") || point.starts_with("expiry") => &["mysql-atomic"],
        _ => &["mysql-atomic", "lock-redis"],
    }
}

/// Walks the points, all or a few.
pub async fn points(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let setup = testbed.setup();
    walk(testbed, seed, Walk { points: POINTS, lines: 1, setup, power: None }).await
}

/// Walks the points up to a COMMIT and after it; the power of the database is cut at each.
pub async fn points_of_power(testbed: &mut Testbed, seed: u64, power: &Power) -> TrialResult {
    let setup = testbed.setup_of_new_ledger();
    walk(testbed, seed, Walk { points: POINTS, lines: 1, setup, power: Some(power) }).await
}

/// Walks the points of a batch with orders of three items: between its statements, before COMMIT and after it.
pub async fn points_of_carts(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let points = POINTS.iter().copied().filter(|point| point.starts_with("batch"));
    let (points, setup) = (points.collect::<Vec<_>>(), testbed.setup());
    walk(testbed, seed, Walk { points: &points, lines: 3, setup, power: None }).await
}

/// What is walked.
struct Walk<'a> {
    points: &'a [&'static str],
    /// Lines of each order.
    lines: usize,
    setup: Setup,
    /// The power of the database, if it is cut at each point.
    power: Option<&'a Power>,
}

/// Walks these points, all or a few.
async fn walk(testbed: &mut Testbed, seed: u64, walk: Walk<'_>) -> TrialResult {
    let points = walk.points;
    let count = if testbed.sells >= WHOLE_WALK { points.len() } else { POINTS_FEW };
    let first = usize::try_from(seed).unwrap_or_default() * POINTS_FEW;
    let mut whole = TrialOutcome::default();
    let mut walked = Vec::new();
    for &point in points.iter().cycle().skip(first % points.len()).take(count) {
        let trial =
            one(testbed, seed, point, &walk).await.map_err(|why| format!("{point}: {why}"))?;
        walked.push(point);
        whole.add(&trial, point);
    }
    whole.proof = format!("aborted at each of: {}", walked.join(", "));
    Ok(whole)
}

/// Aborts one instance at a point while orders with this number of lines are sold.
async fn one(testbed: &mut Testbed, seed: u64, point: &str, walk: &Walk<'_>) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(strategies(point)), &walk.setup);
    (plan.control, plan.lines) = (false, walk.lines);
    // The crash points are in the program that was built with this runner.
    for setup in &mut plan.setups {
        setup.program = env!("CARGO_BIN_EXE_seckill").into();
        if STATEMENT_BY_STATEMENT.contains(&point) {
            *setup = setup.clone().with("SECKILL_MYSQL_ORDER_ROUTINE", "false");
        }
    }
    if point.starts_with("expiry") {
        plan.item = json!({ "hold_seconds": 1 });
    }
    if point.starts_with("events") {
        plan.setups[0] = plan.setups[0].clone().with("SECKILL_EVENTS_ENABLED", "true");
    }
    if point.starts_with("batch") {
        plan.pace = RUSH;
    }
    let is_driven = point.starts_with("step") || ["given-back", "reject-inserted"].contains(&point);
    // In the middle of a sale, and not always at the same unit.
    // What happens to many at once happens seldom, and the other instance has its share of it.
    let seldom = ["expiry", "batch", "queue-read", "reject"];
    let time = match seldom.iter().any(|word| point.starts_with(word)) {
        true => 1,
        false => 1 + seed % 4,
    };
    plan.setups[0] = plan.setups[0].clone().with("FAILPOINT", format!("{point}:{time}"));
    run_trial(testbed, plan, async |testbed, trial| {
        let began = tokio::time::Instant::now();
        while !trial.services[0].has_ended() && began.elapsed() < REACHED_MAX {
            match point {
                "reject-inserted" => orders::rejected(testbed, trial).await?,
                _ if is_driven => orders::stepped(trial).await,
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
        let victim: &mut Service = &mut trial.services[0];
        let ended = timeout(Duration::from_secs(1), victim.ended()).await;
        let ended = ended.map_err(|_| "it was not reached".to_owned())??;
        match walk.power {
            Some(power) => {
                power.cut_now(testbed, trial, true).await?;
            }
            None => trial.fault_ended(),
        }
        trial.services[0].restart_without("FAILPOINT").await?;
        proven(ended.signal() == Some(ABORTED), format!("the {time}. time: {ended}"))
    })
    .await
}
