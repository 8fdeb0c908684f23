//! The service's own processes: killed, stopped, frozen, short of files.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rand::RngExt;
use tokio::net::TcpStream;
use tokio::time::sleep;

use super::{FAULT, bit};
use crate::Tried;
use crate::service::Service;
use crate::shop::{Plan, Wanted, sell_through};
use crate::stage::Stage;

/// The longest random pause before a kill, in milliseconds.
const KILL_AFTER_MS: u64 = 400;
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
