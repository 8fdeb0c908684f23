//! The service's own processes: killed, stopped, frozen, short of files.

use tokio::net::TcpStream;

use crate::prelude::*;

/// The longest random pause before a kill, in milliseconds.
const KILL_AFTER_MS: u64 = 400;
/// A trial that sells for this time or longer has [`KILLS_MANY`] kills, a shorter one [`KILLS_FEW`]. With 5 kills, 2 of 7
/// trials met no order on its way.
const MANY_KILLS_FROM: Duration = Duration::from_secs(2);
const KILLS_MANY: u32 = 50;
const KILLS_FEW: u32 = 20;
/// A pace that keeps the queue filled and does not run out of units on a slow machine.
const QUEUING: Pace = Pace { clients: 24, per_second: 60.0 };
/// Orders that are queued between two kills, at least, and the longest random pause then.
const SOLD_BEFORE_KILL: u64 = 10;
const KILL_SOON_MS: u64 = 150;
/// Units for one kill; a quarter of them is left for afterwards.
const STOCK_PER_KILL: i64 = 120;
/// The metric that counts orders that a consumer took over.
const TAKEN_OVER: &str = "seckill_queue_reclaimed_total";
/// Connections to an instance that may open few files.
const CONNECTIONS: usize = 200;
/// Files that it may open.
const FILES_MAX: u32 = 64;

/// Sold in each trial that kills the service: a lock, a statement, a version and WATCH.
const KILLED_ALWAYS: &[&str] = &["lock-redis", "mysql-atomic", "mysql-version", "redis-watch"];
/// Further strategies of such a trial, which the seed chooses.
const KILLED_BY_SEED: usize = 2;

pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    plan.strategies.retain(|name| !KILLED_ALWAYS.contains(name));
    plan.strategies.truncate(KILLED_BY_SEED);
    plan.strategies.extend(KILLED_ALWAYS);
    run_trial(testbed, plan, async |_, trial| {
        let after = trial.wait_a_moment(KILL_AFTER_MS).await;
        let mut signals = Vec::new();
        for service in &mut trial.services {
            signals.push(service.kill().await?.signal());
        }
        trial.fault_ended();
        let starts = trial.services.iter_mut().map(Service::restart);
        futures::future::try_join_all(starts).await?;
        let proof = format!("after {after} ms both ended by signal {signals:?}");
        proven(signals == [Some(9); 2], proof)
    })
    .await
}

/// The consumers of the queue live in the service. Each kill comes at a random moment after some more
/// orders were queued, so that there is load at each.
pub async fn consumer_killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let kills = if testbed.sells >= MANY_KILLS_FROM { KILLS_MANY } else { KILLS_FEW };
    let mut plan = Plan::new(seed, Wanted::These(&["redis-stream"]), &testbed.setup());
    plan.stock = i64::from(kills) * STOCK_PER_KILL;
    plan.pace = QUEUING;
    plan.control = false;
    run_trial(testbed, plan, async |_, trial| {
        let mut taken_over = 0.0;
        for kill in 0..kills {
            trial.until_sold(SOLD_BEFORE_KILL).await?;
            let victim = kill as usize % trial.services.len();
            taken_over += trial.services[victim].metric(TAKEN_OVER, "").await;
            trial.wait_a_moment(KILL_SOON_MS).await;
            trial.services[victim].kill().await?;
            trial.injections += 1;
            trial.services[victim].restart().await?;
        }
        trial.fault_ended();
        for service in &trial.services {
            taken_over += service.metric(TAKEN_OVER, "").await;
        }
        let sold = trial.workload.items[0].sold();
        let proof = format!("{kills} kills while {sold} orders were queued; {taken_over} of them were seen to be taken over from the dead");
        proven(taken_over > 0.0 && sold < trial.workload.items[0].stock as u64, proof)
    })
    .await
}

pub async fn stopped(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |_, trial| {
        let after = trial.wait_a_moment(KILL_AFTER_MS).await;
        let service = &mut trial.services[0];
        service.signal("TERM").await?;
        let ended = service.ended().await?;
        trial.fault_ended();
        trial.services[0].restart().await?;
        proven(ended.code() == Some(0), format!("after {after} ms it ended with {ended}"))
    })
    .await
}

pub async fn frozen(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |_, trial| {
        trial.services[1].signal("STOP").await?;
        let silent = trial.services[1].get("/healthz", None);
        let silent = timeout(FAULT, silent).await.is_err();
        trial.services[1].signal("CONT").await?;
        proven(silent, format!("no answer to a question for {} ms", FAULT.as_millis()))
    })
    .await
}

pub async fn few_files(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(&["mysql-atomic", "redis-lua"]), &testbed.setup());
    plan.setups[1].files_max = Some(FILES_MAX);
    run_trial(testbed, plan, async |_, trial| {
        let addr = trial.services[1].addr;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            // Those beyond what it accepts wait in the kernel's queue.
            if let Ok(connection) = TcpStream::connect(addr).await {
                connections.push(connection);
            }
        }
        let files = open_files(trial.services[1].pid()?);
        let silent = trial.services[1].get("/healthz", None);
        let silent = timeout(FAULT, silent).await.is_err();
        let alive = !trial.services[1].has_ended();
        let count = connections.len();
        drop(connections);
        let proof = format!(
            "{count} connections, {files} files open of {FILES_MAX}; one more was not taken"
        );
        proven(alive && silent, proof)
    })
    .await
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}
