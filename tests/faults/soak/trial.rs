//! One trial of the soak: the sale of the matrix, and the faults of the plan in the order of their times.

use tokio::time::{Instant, sleep_until};

use super::kinds::{Broken, Kind};
use super::plan::SoakPlan;
use crate::prelude::*;

/// New purchases of one item per second.
const PER_SECOND: f64 = 120.0;

/// A moment of the plan, in milliseconds: the fault of this number begins or ends.
type Moment = (u64, bool, usize);

/// Sells while the faults of the plan happen, and audits. `bites` gets the faults that took effect.
pub async fn run(
    testbed: &mut Testbed,
    plan: &SoakPlan,
    bites: &mut Vec<&'static str>,
) -> TrialResult {
    let mut broken = Broken::start(testbed, usize::from(plan.seed % 2 == 1)).await?;
    let redis_url = Testbed::redis_url_by(&testbed.redis, broken.to_redis.port());
    let setup = testbed
        .setup()
        .with("DATABASE_URL", testbed.ledger_url_by(broken.to_mysql.port()))
        .with("REDIS_URL", redis_url)
        .with("SECKILL_MYSQL_LOCK_WAIT_TIMEOUT_SECONDS", "1");
    let mut sale = Plan::new(plan.seed, Wanted::These(&[]), &setup);
    sale.strategies.clone_from(&plan.strategies);
    sale.pace = Pace { clients: plan.clients, per_second: PER_SECOND };
    sale.item = json!({ "name": "Soaked" });
    run_trial(testbed, sale, async |testbed, trial| {
        let broke = break_and_mend(testbed, trial, &mut broken, plan, bites).await;
        trial.injections += u32::try_from(bites.len()).unwrap_or_default();
        trial.fault_ended();
        broke.map(|()| format!("took effect: {}", bites.join(", ")))
    })
    .await
}

/// Begins and ends the faults. Whatever has begun is ended, also after an error.
async fn break_and_mend(
    testbed: &mut Testbed,
    trial: &mut Trial,
    broken: &mut Broken,
    plan: &SoakPlan,
    bites: &mut Vec<&'static str>,
) -> Run<()> {
    let mut moments: Vec<Moment> = Vec::new();
    for (number, fault) in plan.faults.iter().enumerate() {
        moments.push((fault.begin_ms, false, number));
        moments.push((fault.begin_ms + fault.length_ms, true, number));
    }
    moments.sort_unstable();
    let begin = Instant::now();
    let mut has_begun = vec![false; plan.faults.len()];
    let mut failed = Ok(());
    for (at_ms, is_end, number) in moments {
        sleep_until(begin + Duration::from_millis(at_ms)).await;
        let kind: Kind = plan.faults[number].kind;
        let name = kind.name();
        if !is_end {
            match kind.begin(testbed, trial, broken).await {
                Ok(()) => has_begun[number] = true,
                // The other fault may be in the way: an operator cannot connect, for instance.
                Err(why) => println!("    {name} could not begin: {why}"),
            }
        } else if has_begun[number] {
            match kind.end(testbed, trial, broken).await {
                Ok(true) => bites.push(name),
                Ok(false) => {}
                Err(why) => failed = Err(format!("{name} could not be ended: {why}")),
            }
        }
    }
    failed
}
