//! Redis: frozen, killed, emptied, older, full, busy.

use dev_servers::{Recipe, RedisServer, Server};
use redis::aio::MultiplexedConnection;
use redis::{FromRedisValue, RedisResult};

use super::mysql::LOCK_STOCK;
use crate::prelude::*;
use crate::testbed::redis_at;

/// Blocks of 512 bytes that Redis may write into one file: more than the workload fills before all strategies sell.
const FILE_BLOCKS_MAX: u32 = 8_192;
/// How long a script keeps Redis busy.
const BUSY: Duration = Duration::from_millis(1_200);
/// A strategy whose orders wait in Redis.
const WITH_QUEUE: &str = "redis-stream";
/// How long the first order may take to wait there.
const QUEUED_MAX: Duration = Duration::from_secs(10);
/// How long a file may take to fill.
const FULL_MAX: Duration = Duration::from_secs(10);

/// Freezes a server of the testbed for a while.
pub async fn frozen<R: Recipe>(
    testbed: &mut Testbed,
    seed: u64,
    server: fn(&Testbed) -> &Server<R>,
) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    run_trial(testbed, plan, async |testbed, _| {
        let server = server(testbed);
        let paused = server.pause();
        sleep(FAULT).await;
        let state = process_state(server.pid());
        server.resume();
        proven(paused && state == 'T', format!("state {state} for {} ms", FAULT.as_millis()))
    })
    .await
}

/// Kills a Redis with this setting, and starts it again.
pub async fn killed(testbed: &mut Testbed, seed: u64, setting: &str, forgets: bool) -> TrialResult {
    let mut own = testbed.own_redis(&[setting]).await?;
    let mut plan = on(testbed, seed, &own.server.url(), forgets);
    plan.strategies.retain(|name| *name != WITH_QUEUE);
    plan.strategies.push(WITH_QUEUE);
    run_trial(testbed, plan, async |testbed, trial| {
        let after = trial.wait_a_moment(MOMENT_MS).await;
        // While the stock row of the queue's item is held, its orders wait in Redis.
        let mut side = testbed.operator().await?;
        let mut holder = side.begin().await.said()?;
        let mut items = trial.workload.items.iter();
        let queue = items.find(|item| item.strategy == WITH_QUEUE).ok_or("no item has a queue")?;
        sqlx::query(LOCK_STOCK).bind(queue.id).execute(&mut *holder).await.said()?;
        let before = queue.sold();
        until("orders that wait in the queue", QUEUED_MAX, || async {
            (queue.sold() > before).then_some(())
        })
        .await?;
        own.server.kill().await;
        let queued = queue.sold() - before;
        holder.rollback().await.said()?;
        // Somebody meets the closed door.
        sleep(Duration::from_millis(300)).await;
        trial.fault_ended();
        own.server.restart().await.said()?;
        let info: String = own.server.run(&["INFO", "persistence"]).await.said()?;
        let loaded = line(&info, "rdb_last_load_keys_loaded:").to_owned();
        let has_log = line(&info, "aof_enabled:") == "1";
        let proof =
            format!("killed after {after} ms with {queued} orders more in the queue; log: {has_log} ({loaded} keys)");
        proven(has_log != forgets, proof)
    })
    .await
}

/// Redis dies empty again and again while the comparison with the ledger runs ten times a second.
pub async fn reconciled(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut own = testbed.own_redis(&["appendonly no"]).await?;
    let setup = testbed.setup().with("SECKILL_JOB_RECONCILE_PERIOD_MS", "100");
    let setup = setup.with("REDIS_URL", own.server.url());
    let counted = &["redis-lua", "redis-bucket", "redis-stream", "redis-watch", "mysql-atomic"];
    let mut plan = Plan::new(seed, Wanted::These(counted), &setup);
    plan.allowed.queue_may_be_lost = true;
    run_trial(testbed, plan, async |_, trial| {
        for _ in 0..3 {
            sleep(FAULT / 3).await;
            own.server.kill().await;
            trial.injections += 1;
            own.server.restart().await.said()?;
        }
        trial.fault_ended();
        let rebuilt = trial.metric("seckill_counters_rebuilt_total", "").await;
        proven(rebuilt > 0.0, format!("counters were loaded again {rebuilt} times"))
    })
    .await
}

pub async fn older_copy(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut own = testbed.own_redis(&["appendfsync always"]).await?;
    let plan = on(testbed, seed, &own.server.url(), true);
    run_trial(testbed, plan, async |testbed, trial| {
        let (data, copy) = (own.folder.join("data"), testbed.folder().join("older-copy"));
        let _ = std::fs::remove_dir_all(&copy);
        copy_folder(&data, &copy)?;
        let then = trial.sold();
        sleep(Duration::from_millis(500)).await;
        own.server.kill().await;
        let since = trial.sold() - then;
        std::fs::remove_dir_all(&data).said()?;
        copy_folder(&copy, &data)?;
        trial.fault_ended();
        own.server.restart().await.said()?;
        proven(since > 0, format!("the copy does not know of {since} sales"))
    })
    .await
}

pub async fn failover(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let master = testbed.own_redis(&[]).await?;
    let heir = testbed.own_redis(&[]).await?;
    heir.server.follow(&master.server, master.server.port()).await.said()?;
    let wire = FaultyLink::to(master.server.port()).await.said()?;
    let url = Testbed::redis_url_by(&master.server, wire.port());
    let plan = on(testbed, seed, &url, true);
    run_trial(testbed, plan, async |_, trial| {
        // Frozen rather than cut off: it hears of nothing, and the master believes it is there.
        heir.server.pause();
        let then = trial.sold();
        sleep(Duration::from_millis(500)).await;
        master.server.kill().await;
        let missed = trial.sold() - then;
        trial.fault_ended();
        heir.server.resume();
        let promoted: RedisResult<()> = heir.server.run(&["REPLICAOF", "NO", "ONE"]).await;
        promoted.said()?;
        wire.lead_to(heir.server.port());
        proven(missed > 0, format!("{missed} sales while the replica was deaf"))
    })
    .await
}

pub async fn full_memory(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let plan = Plan::new(seed, Wanted::Needing("redis"), &testbed.setup());
    run_trial(testbed, plan, async |testbed, _| {
        set_memory_max(&testbed.redis, "1").await?;
        sleep(FAULT / 2).await;
        let refused: RedisResult<()> = testbed.redis.run(&["SET", "fault", "1"]).await;
        sleep(FAULT / 2).await;
        set_memory_max(&testbed.redis, "0").await?;
        let said = refused.err().map(|error| error.to_string()).unwrap_or_default();
        proven(said.contains("OOM"), format!("a write was answered: {said}"))
    })
    .await
}

pub async fn full_disk(testbed: &mut Testbed, seed: u64) -> TrialResult {
    // A file may not grow beyond a limit: the write fails as on a full disk.
    let unlimited = testbed.folder().join("roomy");
    let _ = std::fs::remove_file(&unlimited);
    let limit = format!(
        "[ -e '{}' ] || ulimit -f {FILE_BLOCKS_MAX}; trap '' XFSZ; exec \"$@\"",
        unlimited.display()
    );
    let launcher = ["sh", "-c", &limit, "sh"];
    let mut own = testbed.own_redis_by(&launcher, &[]).await?;
    // With everysec the write that met the limit was acknowledged before.
    let plan = on(testbed, seed, &own.server.url(), true);
    run_trial(testbed, plan, async |_, trial| {
        let ballast = "x".repeat(400_000);
        let begin = Instant::now();
        let said = loop {
            let written: RedisResult<()> = own.server.run(&["SET", "fault", &ballast]).await;
            match written {
                Err(error) => break error.to_string(),
                Ok(()) if begin.elapsed() >= FULL_MAX => break "OK for ever".to_owned(),
                Ok(()) => sleep(Duration::from_millis(20)).await,
            }
        };
        sleep(FAULT).await;
        std::fs::write(&unlimited, "").said()?;
        own.server.kill().await;
        trial.fault_ended();
        own.server.restart().await.said()?;
        proven(said.contains("MISCONF"), format!("a write was answered: {said}"))
    })
    .await
}

pub async fn scripts(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let own = testbed.own_redis(&["busy-reply-threshold 50"]).await?;
    let plan = on(testbed, seed, &own.server.url(), false);
    run_trial(testbed, plan, async |_, trial| {
        let mut redis = redis_at(&own.server).await?;
        let flushes = 20;
        for _ in 0..flushes {
            ask::<()>(&mut redis, "SCRIPT FLUSH").await.said()?;
            sleep(Duration::from_millis(25)).await;
        }
        let mut busy = redis_at(&own.server).await?;
        let script = tokio::spawn(async move {
            let endless: RedisResult<()> =
                redis::cmd("EVAL").arg("while true do end").arg(0).query_async(&mut busy).await;
            endless
        });
        sleep(BUSY).await;
        let said = ask::<String>(&mut redis, "GET x").await;
        let killed = ask::<()>(&mut redis, "SCRIPT KILL").await;
        trial.fault_ended();
        let _ = script.await;
        let said = said.err().map(|error| error.to_string()).unwrap_or_default();
        killed.map_err(|error| format!("SCRIPT KILL: {error}"))?;
        proven(said.contains("BUSY"), format!("{flushes} flushes; a read was answered: {said}"))
    })
    .await
}

pub async fn leases_cut(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let locks = &["lock-redis", "lock-redis-token", "lock-redis-reentrant", "lock-redis-fair"];
    let plan = Plan::new(seed, Wanted::These(locks), &testbed.setup());
    run_trial(testbed, plan, async |testbed, trial| {
        let mut redis = redis_at(&testbed.redis).await?;
        let begin = Instant::now();
        let mut cut = 0_i64;
        while begin.elapsed() < FAULT {
            cut += cut_leases(&mut redis).await?;
            sleep(Duration::from_millis(3)).await;
        }
        trial.fault_ended();
        let fenced = trial.metric("seckill_arbiter_refusals_by_reason_total", "fenced").await;
        proven(cut > 0, format!("{cut} leases ended early; {fenced} writes refused by the fence"))
    })
    .await
}

/// Sends a command, whose words are separated by spaces.
async fn ask<T: FromRedisValue>(redis: &mut MultiplexedConnection, words: &str) -> RedisResult<T> {
    let words: Vec<&str> = words.split(' ').collect();
    redis::cmd(words[0]).arg(&words[1..]).query_async(redis).await
}

/// Lets every lock expire; how many.
pub(crate) async fn cut_leases(redis: &mut MultiplexedConnection) -> Run<i64> {
    let mut cut = 0;
    let mut cursor = 0_u64;
    loop {
        let scan = format!("SCAN {cursor} MATCH faults:lock* COUNT 1000");
        let (next, keys): (u64, Vec<String>) = ask(redis, &scan).await.said()?;
        for key in keys {
            let done: i64 = ask(redis, &format!("PEXPIRE {key} 1")).await.said()?;
            cut += done;
        }
        if next == 0 {
            return Ok(cut);
        }
        cursor = next;
    }
}

/// A plan for strategies on a Redis of one's own.
fn on(testbed: &Testbed, seed: u64, url: &str, forgets: bool) -> Plan {
    let setup = testbed.setup().with("REDIS_URL", url);
    let mut plan = Plan::new(seed, Wanted::Needing("redis"), &setup);
    plan.allowed.queue_may_be_lost = forgets;
    plan
}

async fn set_memory_max(server: &RedisServer, bytes: &str) -> Run<()> {
    let set = server.run(&["CONFIG", "SET", "maxmemory", bytes]).await;
    set.map_err(|error| format!("CONFIG SET maxmemory: {error}"))
}

/// Copies a folder with all that is below it.
fn copy_folder(from: &Path, to: &Path) -> Run<()> {
    let said = |error: std::io::Error| format!("copying {}: {error}", from.display());
    std::fs::create_dir_all(to).map_err(said)?;
    for entry in std::fs::read_dir(from).map_err(said)? {
        let path = entry.map_err(said)?.path();
        let name = path.file_name().unwrap_or_default();
        match path.is_dir() {
            true => copy_folder(&path, &to.join(name))?,
            false => std::fs::copy(&path, to.join(name)).map(drop).map_err(said)?,
        }
    }
    Ok(())
}

/// The state letter of a process: `T` when it is stopped.
pub fn process_state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).unwrap_or('?')
}

fn line<'a>(info: &'a str, name: &str) -> &'a str {
    info.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default().trim()
}
