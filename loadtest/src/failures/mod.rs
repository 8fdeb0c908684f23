//! `loadtest break`: makes known failures happen, and shows what prevents each of them.
//!
//! [`list`] names them. Each experiment is tried several times without its remedy, where it must
//! break, and as many times with it, where it must hold. Each try has an item, locks and keys of its
//! own, and counts the units sold.
//! [`load`]: gates that break under load. [`late`]: purchases that write after their lock or
//! counter is gone, stopped by the [`database_proxy`]. [`plain`]: mistakes that no strategy of the service
//! makes, done with plain Redis commands. Servers that must die are private ones.

mod database_proxy;
mod late;
mod list;
mod load;
mod plain;
mod report;
mod stage;

use serde::Serialize;

use crate::failure::{CannotJudge, EXIT_CLEAN};
use crate::files;
use crate::options::{BreakOptions, check_only, is_wanted};
use crate::program::CommandResult;
use crate::progress::Steps;
use crate::testbed::Testbed;
use list::{Experiment, Kind, LIST};
use report::{Outcome, Report};
use stage::Stage;

/// The input of one try.
#[derive(Debug, Clone, Copy)]
struct Try {
    /// Whether the remedy is in place.
    pub cured: bool,
    /// Seed of loads.
    pub seed: u64,
}

/// The outcome of one try.
#[derive(Debug, Clone, Serialize)]
struct Trial {
    pub stock: i64,
    pub sold: i64,
    /// Whether the failure showed.
    pub broken: bool,
    pub detail: String,
}

/// Runs the experiments and writes the report.
pub async fn run(options: &BreakOptions) -> CommandResult {
    let names: Vec<&str> = LIST.iter().map(|experiment| experiment.name).collect();
    if options.only.iter().any(|name| name == "list") {
        return Ok((format!("{}\n", names.join(", ")), EXIT_CLEAN));
    }
    check_only(&options.only, &names)?;
    let testbed = Testbed::find(&options.testbed)?;
    let circumstances = testbed.circumstances().await?;
    let (services, instances) = testbed.pair("break").await?;
    let stage = Stage::set(&testbed, instances).await?;
    let mut outcomes = Vec::new();
    let wanted = LIST.iter().filter(|experiment| is_wanted(&options.only, experiment.name));
    let wanted: Vec<&Experiment> = wanted.collect();
    let mut steps = Steps::new("break", wanted.len() * options.times as usize * 2);
    for experiment in wanted {
        outcomes.push(tries(experiment, options.times, &mut steps, &stage).await);
    }
    drop(steps);
    for service in services {
        service.stop().await;
    }
    let report = Report { circumstances, experiments: outcomes };
    let document = report.document();
    files::write_report(&testbed.out, "failures", &report, &document)?;
    Ok((document.for_terminal(), report::exit_code(&report.experiments)))
}

async fn tries(
    experiment: &Experiment,
    times: u32,
    steps: &mut Steps,
    stage: &Stage<'_>,
) -> Outcome {
    let mut outcome = Outcome {
        name: experiment.name,
        failure: experiment.failure,
        cure: experiment.cure,
        times,
        ..Outcome::default()
    };
    for number in 0..times {
        for cured in [false, true] {
            let attempt = Try { cured, seed: stage.testbed.seed.wrapping_add(u64::from(number)) };
            let word = if cured { "with its remedy" } else { "without" };
            let what = format!("{} {} of {times}, {word}", experiment.name, number + 1);
            match Box::pin(once(experiment.kind, stage, &attempt)).await {
                Ok(trial) => {
                    let Trial { stock, sold, detail, broken } = &trial;
                    steps.end(&format!("{what}: {sold} sold of {stock}; {detail}"));
                    outcome.reproduced += u32::from(!cured && *broken);
                    outcome.held += u32::from(cured && !*broken);
                    *(if cured { &mut outcome.with } else { &mut outcome.without }) = Some(trial);
                }
                Err(CannotJudge(reason)) => {
                    steps.end(&format!("{what}: {reason}"));
                    outcome.unjudged.push(format!("{word}: {reason}"));
                }
            }
        }
    }
    outcome
}

async fn once(kind: Kind, stage: &Stage<'_>, attempt: &Try) -> Result<Trial, CannotJudge> {
    match kind {
        Kind::Load(gates) => load::fire(gates, stage, attempt).await,
        Kind::LeaseExpires => late::lease_expires(stage, attempt).await,
        Kind::Failover => late::failover(stage, attempt).await,
        Kind::CounterLost => late::counter_lost(stage, attempt).await,
        Kind::QueueLost => late::queue_lost(stage, attempt).await,
        Kind::WrongOwner => plain::wrong_owner(stage, attempt).await,
        Kind::LockOrder => plain::lock_order(stage, attempt).await,
        Kind::StaleReplica => plain::stale_replica(attempt).await,
    }
}
