//! The ledger on two servers that replicate: the writer is lost or demoted, its replica takes over.

use std::time::{Duration, Instant};

use dev_servers::MysqlPair;
use rand::RngExt;
use tokio::time::sleep;

use super::mysql::execute;
use super::redis::process_state;
use super::{FAULT, proven};
use crate::service::Setup;
use crate::testbed::Testbed;
use crate::trial::{Plan, Trial, Wanted, run_trial};
use crate::wire::{Link, Wire};
use crate::{Run, TrialResult};

/// How long COMMITs lose their answers before the writer is killed, at most.
const AT_COMMIT_MAX: Duration = Duration::from_secs(10);

pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut pair, setup) = on_a_pair(testbed).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let after = trial.random.random_range(0..300);
        sleep(Duration::from_millis(after)).await;
        let pid = pair.member(0).pid();
        pair.member(0).kill().await;
        trial.injections += 1;
        let gone = process_state(pid) == '?';
        let begin = take_over(&mut pair, testbed, trial).await?;
        followed(trial, gone, format!("process {pid} was gone; promoted in {begin:?}")).await
    })
    .await
}

pub async fn killed_at_commit(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut pair, setup) = on_a_pair(testbed).await?;
    let wire = Wire::to(pair.member(0).port()).await?;
    let (here, there) = (format!(":{}", pair.member(0).port()), format!(":{}", wire.port));
    let url = pair.url_of(Testbed::DATABASE).replacen(&here, &there, 1);
    let plan = Plan::new(seed, Wanted::Safe, &setup.with("DATABASE_URL", url));
    run_trial(testbed, plan, async |testbed, trial| {
        wire.set(Link::LosesCommitAnswers);
        let begin = Instant::now();
        while wire.bites() == 0 && begin.elapsed() < AT_COMMIT_MAX {
            sleep(Duration::from_millis(1)).await;
        }
        // A COMMIT was executed, and nobody heard of it.
        pair.member(0).kill().await;
        trial.injections += 1;
        let cuts = wire.bites();
        let took = take_over(&mut pair, testbed, trial).await?;
        followed(trial, cuts > 0, format!("{cuts} COMMITs unheard; promoted in {took:?}")).await
    })
    .await
}

pub async fn frozen(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut pair, setup) = on_a_pair(testbed).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let paused = pair.member(0).pause();
        trial.injections += 1;
        let took = take_over(&mut pair, testbed, trial).await?;
        let said = followed(trial, paused, format!("promoted in {took:?}")).await;
        // It wakes up and believes that it is the writer; the services know better by now.
        pair.member(0).resume();
        sleep(FAULT).await;
        said
    })
    .await
}

pub async fn demoted(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut pair, setup) = on_a_pair(testbed).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = pair.operator(0).await.map_err(|error| error.to_string())?;
        execute(&mut operator, "SET GLOBAL read_only = 1").await?;
        trial.injections += 1;
        let took = take_over(&mut pair, testbed, trial).await?;
        let said = followed(trial, true, format!("promoted in {took:?}")).await;
        pair.rejoin().await.map_err(|error| error.to_string())?;
        said
    })
    .await
}

/// Starts a pair with the schema, and answers how services are started on it.
async fn on_a_pair(testbed: &Testbed) -> Run<(MysqlPair, Setup)> {
    let pair = MysqlPair::start_temporary().await.map_err(|error| error.to_string())?;
    let url = pair.url_of(Testbed::DATABASE);
    Testbed::migrate(&url).await?;
    // The items of a new ledger have the numbers of earlier ones, whose counters are in Redis.
    let prefix = format!("faults-{:016x}:", rand::random::<u64>());
    let setup = testbed.setup().with("DATABASE_URL", url).with("SECKILL_REDIS_PREFIX", prefix);
    Ok((pair, setup))
}

/// Promotes the replica; the audit reads it from now on. Answers how long that took.
async fn take_over(
    pair: &mut MysqlPair,
    testbed: &mut Testbed,
    trial: &mut Trial,
) -> Run<Duration> {
    let begin = Instant::now();
    pair.promote().await.map_err(|error| error.to_string())?;
    let place = pair.primary();
    testbed.ledger_elsewhere = Some(pair.member(place).tcp_url_of(Testbed::DATABASE));
    trial.fault_ended();
    Ok(begin.elapsed())
}

/// Waits until every service follows the new writer.
async fn followed(trial: &Trial, bit: bool, proof: String) -> Run<String> {
    let begin = Instant::now();
    let services = trial.services.len();
    loop {
        let changes = trial.metric("seckill_ledger_writer_changes_total", "").await;
        if changes >= f64::from(u32::try_from(services).unwrap_or(u32::MAX)) {
            return proven(bit, format!("{proof}; followed by all after {:?}", begin.elapsed()));
        }
        if begin.elapsed() > AT_COMMIT_MAX {
            return Err(format!("{changes} of {services} services follow the new writer"));
        }
        sleep(Duration::from_millis(20)).await;
    }
}
