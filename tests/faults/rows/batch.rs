//! Batches that are cut short: both instances and the database die in the same moment, while many
//! orders share a transaction.

use crate::prelude::*;

/// The longest random pause before the kill, in milliseconds: a rush is soon over.
const KILL_AFTER_MS: u64 = 25;
/// Those that write in batches.
const STRATEGIES: &[&str] =
    &["mysql-batch", "lock-redis", "redis-lua", "redis-bucket", "redis-stream"];

/// Items of the trial whose batches are of many items.
const ITEMS: usize = 24;
/// Units of each of them.
const STOCK: i64 = 60;

pub async fn killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(STRATEGIES), &testbed.setup());
    plan.pace = RUSH;
    all_die(testbed, plan).await
}

pub async fn killed_across_items(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(STRATEGIES), &testbed.setup());
    plan.pace = Pace { clients: 4, ..RUSH };
    plan.strategies = vec!["mysql-batch"; ITEMS];
    plan.stock = STOCK;
    all_die(testbed, plan).await
}

/// Orders of three items each.
pub async fn killed_with_carts(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut plan = Plan::new(seed, Wanted::These(&["mysql-batch"; 4]), &testbed.setup());
    plan.pace = RUSH;
    plan.lines = 3;
    all_die(testbed, plan).await
}

async fn all_die(testbed: &mut Testbed, plan: Plan) -> TrialResult {
    run_trial(testbed, plan, async |testbed, trial| {
        let batches = trial.metric("seckill_batch_orders_count", "").await;
        let orders = trial.metric("seckill_batch_orders_sum", "").await;
        let items = trial.metric("seckill_batch_items_sum", "").await;
        let after = trial.wait_a_moment(KILL_AFTER_MS).await;
        testbed.mysql.kill().await;
        let mut signals = Vec::new();
        for service in &mut trial.services {
            signals.push(service.kill().await?.signal());
        }
        trial.fault_ended();
        testbed.mysql.restart().await.said()?;
        let starts = trial.services.iter_mut().map(Service::restart);
        futures::future::try_join_all(starts).await?;
        let proof =
            format!("after {after} ms and {orders} orders of {items} items in {batches} batches: {signals:?}");
        proven(signals == [Some(9); 2] && orders > batches, proof)
    })
    .await
}
