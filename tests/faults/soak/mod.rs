//! The soak: trials with random combinations of two faults at once, for hours. A failing plan is made
//! smaller.
//!
//! The plan of a trial follows from its seed ([`plan`]); `--plan SEED` makes the same trial again. The
//! faults ([`kinds`]) are those of the matrix that have a begin and an end. The checker of the matrix
//! judges every trial. A plan that fails is tried with fewer faults, fewer strategies, fewer clients and
//! shorter faults, as long as it still fails ([`shrink`]). The soak ends after its hours or its trials,
//! whichever comes first.

mod kinds;
mod plan;
mod report;
mod shrink;
mod trial;

use crate::TRIAL_MAX;
use crate::prelude::*;
use plan::SoakPlan;
use report::{SoakReport, Tried};

pub use shrink::finds_the_planted_mistake;

/// Trials of one run, those that make a plan smaller included.
const TRIALS_MAX: usize = 10_000;

/// Runs the soak for a time, or the one plan that the options name.
pub async fn run(options: &Options, testbed: &mut Testbed) -> ExitCode {
    let safe = Wanted::every_safe();
    let mut report = SoakReport::new(options.out.as_deref());
    if let Some(text) = &options.plan {
        return match SoakPlan::read(text, &safe) {
            Ok(plan) => {
                report.add(&plan, &try_once(testbed, &plan).await);
                report.end(None)
            }
            Err(why) => {
                println!("{why}");
                ExitCode::from(2)
            }
        };
    }
    let (begin, mut seed) = (Instant::now(), options.seed_first());
    println!("\nsoak: {:.2} hours from seed {seed} on", options.soaks.as_secs_f64() / 3600.0);
    while begin.elapsed() < options.soaks && report.trials() < TRIALS_MAX {
        let plan = SoakPlan::new(seed, &safe);
        seed += 1;
        let tried = try_once(testbed, &plan).await;
        if let Some(why) = &tried.unusable {
            println!("the testbed is broken: {why}");
            break;
        }
        let failed = !tried.is_well();
        report.add(&plan, &tried);
        if failed {
            let smallest = shrink::smallest(plan, &mut report, async |plan, report| {
                let tried = try_once(testbed, plan).await;
                let failed = !tried.is_well();
                report.add_smaller(plan, &tried);
                failed
            });
            let smallest = smallest.await;
            report.found(smallest);
        }
    }
    report.end(Some(seed))
}

/// One trial of a plan; a trial that hangs has failed.
async fn try_once(testbed: &mut Testbed, plan: &SoakPlan) -> Tried {
    let begin = Instant::now();
    let mut bites = Vec::new();
    // On a stack of its own: a trial is a large future.
    let trial = Box::pin(timeout(TRIAL_MAX, trial::run(testbed, plan, &mut bites)));
    let trial = trial.await;
    let trial = trial.unwrap_or_else(|_| Err(format!("no end within {} s", TRIAL_MAX.as_secs())));
    let trial = testbed.checked(trial);
    let unusable = testbed.repair().await.err();
    Tried { trial, bites, unusable, took: begin.elapsed() }
}
