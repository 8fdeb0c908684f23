//! The ledger on servers that replicate: the writer is lost, cut off or demoted, and another one takes
//! over.
//!
//! Recovery counts from the moment of the fault where the engine chooses the next writer, so it
//! includes the time of the choice. A pair has no such choice: there it counts from the promotion.

use dev_servers::{MysqlSet, Replication};

use super::redis::process_state;
use crate::prelude::*;

/// How long COMMITs lose their answers before the writer is killed, at most.
const AT_COMMIT_MAX: Duration = Duration::from_secs(10);
/// How long the services may take to follow a new writer.
const FOLLOWED_MAX: Duration = Duration::from_secs(20);
/// What was in flight at the moment of the fault is answered within this.
const IN_FLIGHT: Duration = Duration::from_millis(300);
/// Purchases after the replica has stopped receiving, at least.
const UNREPLICATED_MIN: u64 = 40;

pub async fn killed(testbed: &mut Testbed, seed: u64, engine: Replication) -> TrialResult {
    let (mut set, setup) = on(testbed, engine).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        trial.wait_a_moment(MOMENT_MS).await;
        let old = set.writer();
        let pid = set.member(old).pid();
        set.member(old).kill().await;
        let gone = process_state(pid) == '?';
        let took = take_over(&mut set, testbed, trial).await?;
        followed(trial, gone, format!("process {pid} was gone; {took}")).await
    })
    .await
}

pub async fn killed_at_commit(
    testbed: &mut Testbed,
    seed: u64,
    engine: Replication,
) -> TrialResult {
    at_commit(testbed, (seed, engine), |_| ()).await
}

/// Orders of three items each, over a writer that is killed at their COMMITs.
pub async fn carts(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let sell_carts = |plan: &mut Plan| {
        (plan.strategies, plan.lines, plan.pace) = (vec!["mysql-batch"; 4], 3, RUSH);
    };
    at_commit(testbed, (seed, Replication::SemiSync), sell_carts).await
}

async fn at_commit(
    testbed: &mut Testbed,
    (seed, engine): (u64, Replication),
    change: impl FnOnce(&mut Plan),
) -> TrialResult {
    let (mut set, setup) = on(testbed, engine).await?;
    let old = set.writer();
    let wire = FaultyLink::to(set.member(old).port()).await.said()?;
    let (here, there) = (format!(":{}", set.member(old).port()), format!(":{}", wire.port()));
    let url = set.url_of(Testbed::DATABASE).replacen(&here, &there, 1);
    let mut plan = Plan::new(seed, Wanted::Safe, &setup.with("DATABASE_URL", url));
    change(&mut plan);
    run_trial(testbed, plan, async |testbed, trial| {
        Link::LosesCommitAnswers.begin(&wire);
        let begin = Instant::now();
        while wire.bites() == 0 && begin.elapsed() < AT_COMMIT_MAX {
            sleep(Duration::from_millis(1)).await;
        }
        // A COMMIT was executed, and nobody heard of it.
        set.member(old).kill().await;
        let cuts = wire.bites();
        let took = take_over(&mut set, testbed, trial).await?;
        followed(trial, cuts > 0, format!("{cuts} COMMITs unheard; {took}")).await
    })
    .await
}

pub async fn frozen(testbed: &mut Testbed, seed: u64, engine: Replication) -> TrialResult {
    let (mut set, setup) = on(testbed, engine).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let old = set.writer();
        let paused = set.member(old).pause();
        let took = take_over(&mut set, testbed, trial).await?;
        let said = followed(trial, paused, took).await;
        // It wakes up and believes that it is the writer; the others know better by now.
        set.member(old).resume();
        sleep(FAULT).await;
        said
    })
    .await
}

pub async fn demoted(testbed: &mut Testbed, seed: u64, engine: Replication) -> TrialResult {
    let (mut set, setup) = on(testbed, engine).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let (old, begin) = (set.writer(), Instant::now());
        set.switch_over().await.said()?;
        trial.fault_ended();
        look_at_writer(&mut set, testbed);
        let took = format!("switched over in {:.1?}", begin.elapsed());
        let said_so = followed(trial, true, took).await;
        if engine == Replication::SemiSync {
            set.rejoin(old).await.said()?;
        }
        said_so
    })
    .await
}

/// The replica of a pair is promoted although it has stopped receiving before. Orders that only the old writer had are
/// lost. The old writer names them when it runs again, and no other order may be missing.
pub async fn behind(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let (mut set, setup) = on(testbed, Replication::SemiSync).await?;
    let plan = Plan::new(seed, Wanted::Safe, &setup);
    run_trial(testbed, plan, async |testbed, trial| {
        let old = set.writer();
        let mut replica = set.operator(1 - old).await.said()?;
        replica.execute("STOP SLAVE").await.said()?;
        let then = trial.sold();
        // The first commits wait for the replica; then the writer goes on without it.
        until("sales without the replica", FOLLOWED_MAX, || async {
            (trial.sold() >= then + UNREPLICATED_MIN).then_some(())
        })
        .await?;
        set.member(old).kill().await;
        let took = take_over(&mut set, testbed, trial).await?;
        set.restart_former(old).await.said()?;
        let only_there = orders_missing(&mut set, old).await?;
        let proof = format!("{} orders were only on the old writer; {took}", only_there.len());
        let bit = !only_there.is_empty();
        trial.allowed.lost_with_writer = only_there;
        followed(trial, bit, proof).await
    })
    .await
}

/// Ids of the orders that a former writer has and the present one has not.
async fn orders_missing(set: &mut MysqlSet, former: usize) -> Run<HashSet<String>> {
    let mut ids = [HashSet::new(), HashSet::new()];
    for (ids, index) in ids.iter_mut().zip([former, set.writer()]) {
        let url = set.member(index).tcp_url_of(Testbed::DATABASE);
        let mut reader = MySqlConnection::connect(&url).await.said()?;
        let read = sqlx::query_scalar("SELECT id FROM orders").fetch_all(&mut reader).await;
        ids.extend(read.said()?);
    }
    let [there, here] = ids;
    Ok(&there - &here)
}

/// Starts a set with the schema, and answers how services are started on it.
pub(super) async fn on(testbed: &mut Testbed, engine: Replication) -> Run<(MysqlSet, Setup)> {
    let mut set = MysqlSet::start_temporary(engine).await.said()?;
    let url = set.url_of(Testbed::DATABASE);
    Testbed::migrate(&url).await?;
    let setup = testbed.setup_of_new_ledger().with("DATABASE_URL", url);
    look_at_writer(&mut set, testbed);
    // What Galera may lose in a crash is what these trials are about.
    Ok((set, setup.with("SECKILL_ACCEPT_RISKS", "lossy-failover")))
}

/// The audit reads the present writer from now on.
pub(super) fn look_at_writer(set: &mut MysqlSet, testbed: &mut Testbed) {
    let place = set.writer();
    testbed.ledger_elsewhere = Some(set.member(place).tcp_url_of(Testbed::DATABASE));
}

/// Lets another member become the writer. Answers how long that took, in words.
pub(super) async fn take_over(
    set: &mut MysqlSet,
    testbed: &mut Testbed,
    trial: &mut Trial,
) -> Run<String> {
    let begin = Instant::now();
    let is_promoted = set.engine() == Replication::SemiSync;
    if !is_promoted {
        sleep(IN_FLIGHT).await;
        trial.fault_ended();
    }
    set.take_over().await.said()?;
    if is_promoted {
        trial.fault_ended();
    }
    look_at_writer(set, testbed);
    Ok(format!("another writer after {:.1?}", begin.elapsed()))
}

/// Waits until every service follows the new writer.
pub(super) async fn followed(trial: &Trial, bit: bool, proof: String) -> Run<String> {
    let begin = Instant::now();
    let services = trial.services.len();
    loop {
        let changes = trial.metric("seckill_ledger_writer_changes_total", "").await;
        if changes >= f64::from(u32::try_from(services).unwrap_or(u32::MAX)) {
            return proven(bit, format!("{proof}; followed by all after {:.1?}", begin.elapsed()));
        }
        if begin.elapsed() > FOLLOWED_MAX {
            return Err(format!("{changes} of {services} services follow the new writer"));
        }
        sleep(Duration::from_millis(20)).await;
    }
}
