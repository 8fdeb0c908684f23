//! The service's own processes: killed, stopped, frozen, short of files.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rand::RngExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{FAULT, bit};
use crate::Tried;
use crate::crowd::Pace;
use crate::service::Service;
use crate::shop::{Plan, RECOVERY_MAX, Wanted, sell_through};
use crate::stage::{Stage, until};

/// The longest random pause before a kill, in milliseconds.
const KILL_AFTER_MS: u64 = 400;
/// Kills of a trial that sells for at least so long, and of a shorter one.
const MANY_KILLS_FROM: Duration = Duration::from_secs(2);
const KILLS_MANY: u32 = 50;
const KILLS_FEW: u32 = 5;
/// A crowd that always has something in the queue, and does not run out of units on a slow machine.
const QUEUING: Pace = Pace { workers: 24, per_second: 60.0 };
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

pub async fn killed(stage: &mut Stage, seed: u64) -> Tried {
    let plan = Plan::new(seed, Wanted::Safe, &stage.setup());
    sell_through(stage, plan, async |_, shop| {
        let after = shop.dice.random_range(0..KILL_AFTER_MS);
        sleep(Duration::from_millis(after)).await;
        let mut signals = Vec::new();
        for service in &mut shop.services {
            signals.push(service.kill().await?.signal());
        }
        shop.injections += 1;
        shop.mended();
        let starts = shop.services.iter_mut().map(Service::restart);
        futures::future::try_join_all(starts).await?;
        bit(signals == [Some(9); 2], format!("after {after} ms both ended by signal {signals:?}"))
    })
    .await
}

/// The consumers of the queue live in the service. Each kill comes at a random moment after some more
/// orders were queued, so that there is load at each.
pub async fn consumer_killed(stage: &mut Stage, seed: u64) -> Tried {
    let kills = if stage.sells >= MANY_KILLS_FROM { KILLS_MANY } else { KILLS_FEW };
    let mut plan = Plan::new(seed, Wanted::These(&["redis-stream"]), &stage.setup());
    plan.stock = i64::from(kills) * STOCK_PER_KILL;
    plan.pace = QUEUING;
    plan.control = false;
    sell_through(stage, plan, async |_, shop| {
        let mut taken_over = 0.0;
        for kill in 0..kills {
            let queued = shop.crowd.goods[0].sold() + SOLD_BEFORE_KILL;
            until("orders to be queued", RECOVERY_MAX, || {
                std::future::ready((shop.crowd.goods[0].sold() >= queued).then_some(()))
            })
            .await?;
            let victim = kill as usize % shop.services.len();
            taken_over += shop.services[victim].metric(TAKEN_OVER, "").await;
            let after = shop.dice.random_range(0..KILL_SOON_MS);
            sleep(Duration::from_millis(after)).await;
            shop.services[victim].kill().await?;
            shop.injections += 1;
            shop.services[victim].restart().await?;
        }
        shop.mended();
        for service in &shop.services {
            taken_over += service.metric(TAKEN_OVER, "").await;
        }
        let sold = shop.crowd.goods[0].sold();
        bit(
            taken_over > 0.0 && sold < shop.crowd.goods[0].stock as u64,
            format!("{kills} kills while {sold} orders were queued; {taken_over} of them were seen to be taken over from the dead"),
        )
    })
    .await
}

pub async fn stopped(stage: &mut Stage, seed: u64) -> Tried {
    let plan = Plan::new(seed, Wanted::Safe, &stage.setup());
    sell_through(stage, plan, async |_, shop| {
        let after = shop.dice.random_range(0..KILL_AFTER_MS);
        sleep(Duration::from_millis(after)).await;
        let service = &mut shop.services[0];
        service.signal("TERM").await?;
        let ended = service.ended().await?;
        shop.injections += 1;
        shop.mended();
        shop.services[0].restart().await?;
        bit(ended.code() == Some(0), format!("after {after} ms it ended with {ended}"))
    })
    .await
}

pub async fn frozen(stage: &mut Stage, seed: u64) -> Tried {
    let plan = Plan::new(seed, Wanted::Safe, &stage.setup());
    sell_through(stage, plan, async |_, shop| {
        shop.services[1].signal("STOP").await?;
        shop.injections += 1;
        let silent = shop.services[1].get("/healthz", None);
        let silent = tokio::time::timeout(FAULT, silent).await.is_err();
        shop.services[1].signal("CONT").await?;
        shop.mended();
        bit(silent, format!("no answer to a question for {} ms", FAULT.as_millis()))
    })
    .await
}

pub async fn few_files(stage: &mut Stage, seed: u64) -> Tried {
    let mut plan = Plan::new(seed, Wanted::These(&["mysql-atomic", "redis-lua"]), &stage.setup());
    plan.setups[1].files_max = Some(FILES_MAX);
    sell_through(stage, plan, async |_, shop| {
        let addr = shop.services[1].addr;
        let mut connections = Vec::new();
        for _ in 0..CONNECTIONS {
            // Those beyond what it accepts wait in the kernel's queue.
            if let Ok(connection) = TcpStream::connect(addr).await {
                connections.push(connection);
            }
        }
        shop.injections += 1;
        let files = open_files(shop.services[1].pid()?);
        let silent = shop.services[1].get("/healthz", None);
        let silent = tokio::time::timeout(FAULT, silent).await.is_err();
        let alive = !shop.services[1].has_ended();
        let count = connections.len();
        drop(connections);
        shop.mended();
        bit(
            alive && silent,
            format!(
                "{count} connections, {files} files open of {FILES_MAX}; one more was not taken"
            ),
        )
    })
    .await
}

fn open_files(pid: u32) -> usize {
    std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, Iterator::count)
}
