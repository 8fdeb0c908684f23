//! Makes a failing plan smaller, and proves on a planted mistake that the soak finds one and does so.

use super::kinds::Kind;
use super::plan::{SoakPlan, TimedFault};
use super::try_once;
use crate::prelude::*;

/// Tries of each smaller plan: real servers do not repeat themselves.
const TRIES: usize = 2;
/// Trials by which one failing plan is made smaller.
const TRIALS_MAX: usize = 30;

/// The smallest plan that still fails. `fails` tries a plan once.
pub async fn smallest<R>(
    mut failing: SoakPlan,
    report: &mut R,
    mut fails: impl AsyncFnMut(&SoakPlan, &mut R) -> bool,
) -> SoakPlan {
    let mut trials = 0;
    'smaller: loop {
        for plan in failing.smaller() {
            for _ in 0..TRIES {
                if trials == TRIALS_MAX {
                    return failing;
                }
                trials += 1;
                if fails(&plan, &mut *report).await {
                    failing = plan;
                    continue 'smaller;
                }
            }
        }
        return failing;
    }
}

/// A row of the matrix: the ledger loses an acknowledged order beside another fault. The soak must
/// find it, and leave no other fault in the plan.
pub async fn finds_the_planted_mistake(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = SoakPlan::new(seed, &Wanted::every_safe());
    let planted = TimedFault { kind: Kind::OrderDeleted, begin_ms: 100, length_ms: 100 };
    plan.faults[0] = planted;
    plan.strategies.truncate(2);
    let first = try_once(testbed, &plan).await;
    if first.is_well() {
        return Err(format!("an order was deleted, and the checker found nothing: {plan}"));
    }
    let mut trials = 1;
    let found = smallest(plan.clone(), &mut trials, async |plan, trials| {
        *trials += 1;
        !try_once(testbed, plan).await.is_well()
    });
    let found = found.await;
    let is_smallest = found.faults.iter().all(|fault| fault.kind == Kind::OrderDeleted)
        && found.strategies.len() == 1
        && found.clients == 1;
    let proof = format!("{plan} became {found} in {trials} trials");
    if !is_smallest {
        return Err(format!("not the smallest plan: {proof}"));
    }
    Ok(TrialOutcome::new(trials, proof, Vec::new()))
}
