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

use crate::document::Color;
use crate::drive::Instance;
use crate::failure::{CannotJudge, EXIT_CLEAN};
use crate::files;
use crate::launcher::Service;
use crate::options::{BreakOptions, check_only, is_wanted};
use crate::program::CommandResult;
use crate::progress::Steps;
use crate::testbed::Testbed;
use late::Pair;
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

/// Instances that several experiments share.
#[derive(Default)]
struct SharedInstances {
    plain: Vec<Service>,
    pair: Option<Pair>,
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
    let stage = Stage::set(&testbed).await?;
    let mut shared = SharedInstances::default();
    let mut outcomes = Vec::new();
    let wanted = LIST.iter().filter(|experiment| is_wanted(&options.only, experiment.name));
    let wanted: Vec<&Experiment> = wanted.collect();
    let mut steps = Steps::new("break", wanted.len() * options.times as usize * 2);
    for experiment in wanted {
        outcomes.push(tries(experiment, options.times, &mut steps, &stage, &mut shared).await);
    }
    drop(steps);
    shared.stop().await;
    let report = Report { circumstances, experiments: outcomes };
    let document = report.document();
    files::write_report(&testbed.out, "failures", &report, &document)?;
    Ok((document.text(Color::of_terminal()), report::exit_code(&report.experiments)))
}

async fn tries(
    experiment: &Experiment,
    times: u32,
    steps: &mut Steps,
    stage: &Stage<'_>,
    shared: &mut SharedInstances,
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
            match Box::pin(once(experiment.kind, stage, shared, &attempt)).await {
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

async fn once(
    kind: Kind,
    stage: &Stage<'_>,
    shared: &mut SharedInstances,
    attempt: &Try,
) -> Result<Trial, CannotJudge> {
    match kind {
        Kind::Load(gates) => {
            let instances = shared.instances(stage).await?;
            load::fire(gates, stage, &instances, attempt).await
        }
        Kind::LeaseExpires => {
            if shared.pair.is_none() {
                shared.pair = Some(Pair::start(stage).await?);
            }
            match &shared.pair {
                Some(pair) => pair.lease_expires(stage, attempt).await,
                None => Err(CannotJudge::new("no instance")),
            }
        }
        Kind::Failover => late::failover(stage, attempt).await,
        Kind::CounterLost => late::counter_lost(stage, attempt).await,
        Kind::QueueLost => late::queue_lost(stage, attempt).await,
        Kind::WrongOwner => plain::wrong_owner(stage, attempt).await,
        Kind::LockOrder => plain::lock_order(stage, attempt).await,
        Kind::StaleReplica => plain::stale_replica(attempt).await,
    }
}

impl SharedInstances {
    /// Two instances on the shop's servers.
    async fn instances(&mut self, stage: &Stage<'_>) -> Result<Vec<Instance>, CannotJudge> {
        while self.plain.len() < 2 {
            let name = format!("break-{}", self.plain.len() + 1);
            self.plain.push(stage.service(&name, &[]).await?);
        }
        Ok(self.plain.iter().map(|service| service.instance.clone()).collect())
    }

    async fn stop(self) {
        for service in self.plain {
            service.stop().await;
        }
        if let Some(pair) = self.pair {
            pair.stop().await;
        }
    }
}
