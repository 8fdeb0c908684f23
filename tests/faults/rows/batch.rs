//! Batches that are cut short: both instances and the database die in the same moment, while many
//! orders share a transaction.

use std::os::unix::process::ExitStatusExt;
use std::time::Duration;

use rand::RngExt;
use tokio::time::sleep;

use super::bit;
use crate::Tried;
use crate::service::Service;
use crate::shop::{Plan, RUSH, Wanted, sell_through};
use crate::stage::Stage;

/// The longest random pause before the kill, in milliseconds: a rush is soon over.
const KILL_AFTER_MS: u64 = 25;
/// Those that write in batches.
const STRATEGIES: &[&str] =
    &["mysql-batch", "lock-redis", "redis-lua", "redis-bucket", "redis-stream"];

pub async fn killed(stage: &mut Stage, seed: u64) -> Tried {
    let mut plan = Plan::new(seed, Wanted::These(STRATEGIES), &stage.setup());
    plan.pace = RUSH;
    sell_through(stage, plan, async |stage, shop| {
        let batches = shop.metric("seckill_batch_orders_count", "").await;
        let orders = shop.metric("seckill_batch_orders_sum", "").await;
        let after = shop.dice.random_range(0..KILL_AFTER_MS);
        sleep(Duration::from_millis(after)).await;
        stage.mysql.kill().await;
        let mut signals = Vec::new();
        for service in &mut shop.services {
            signals.push(service.kill().await?.signal());
        }
        shop.injections += 1;
        shop.mended();
        stage.mysql.restart().await.map_err(|error| error.to_string())?;
        let starts = shop.services.iter_mut().map(Service::restart);
        futures::future::try_join_all(starts).await?;
        let proof =
            format!("after {after} ms and {orders} orders in {batches} batches: {signals:?}");
        bit(signals == [Some(9); 2] && orders > batches, proof)
    })
    .await
}
