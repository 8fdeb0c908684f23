//! Redis Cluster and Redis with Sentinels: primaries killed, cut off and replaced, slots moved, nodes
//! added, replicas lost.
//!
//! Recovery counts from the moment of the fault, so it includes the time until a replica has taken over.
//! A 202 waits for the replicas where one of them takes over unplanned: then none may be lost.

use dev_servers::{RedisCluster, RedisClusterOptions, RedisSentinels};
use redis_connection::Slot;

use super::redis::process_state;
use crate::prelude::*;

/// How long a node may be silent before its replica replaces it.
const NODE_TIMEOUT: Duration = Duration::from_secs(2);
/// How long a replica may take to take over.
const TAKE_OVER_MAX: Duration = Duration::from_secs(30);
/// What was in flight at the moment of the fault is answered within this.
const IN_FLIGHT: Duration = Duration::from_millis(300);
/// How long a slot is on its way.
const ON_ITS_WAY: Duration = Duration::from_millis(200);
/// How many slots are moved at once.
const SLOTS_MAX: usize = 3;
/// Sold when a fault is about replicas: the queue, which waits for them, and others, which do not.
const WITH_QUEUE: &[&str] =
    &["redis-stream", "redis-lua", "redis-bucket", "redis-watch", "lock-redis", "lock-redis-fair"];

pub async fn primary_killed(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut cluster = three_and_three(1).await?;
    let plan = on(testbed, seed, &cluster.url(), 1);
    run_trial(testbed, plan, async |_, trial| {
        let victim = owner_of_an_item(&cluster, trial).await?;
        let heir = cluster.replica_of(victim).await.said()?;
        trial.wait_a_moment(MOMENT_MS).await;
        let begin = Instant::now();
        cluster.nodes[victim].kill().await;
        sleep(IN_FLIGHT).await;
        trial.fault_ended();
        until_primary(&cluster, heir).await?;
        let took = begin.elapsed();
        cluster.nodes[victim].restart().await.said()?;
        proven(true, format!("its replica took over after {took:.1?}"))
    })
    .await
}

pub async fn primary_frozen(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let cluster = three_and_three(1).await?;
    let plan = on(testbed, seed, &cluster.url(), 1);
    run_trial(testbed, plan, async |_, trial| {
        let victim = owner_of_an_item(&cluster, trial).await?;
        let heir = cluster.replica_of(victim).await.said()?;
        trial.wait_a_moment(MOMENT_MS).await;
        let begin = Instant::now();
        let paused = cluster.nodes[victim].pause();
        sleep(IN_FLIGHT).await;
        trial.fault_ended();
        let state = process_state(cluster.nodes[victim].pid());
        let taken = until_primary(&cluster, heir).await;
        let took = begin.elapsed();
        // It wakes up as a primary, until it hears that it is none.
        sleep(NODE_TIMEOUT.saturating_sub(took)).await;
        cluster.nodes[victim].resume();
        taken?;
        proven(paused && state == 'T', format!("its replica took over after {took:.1?}"))
    })
    .await
}

pub async fn failover(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let cluster = three_and_three(1).await?;
    let plan = on(testbed, seed, &cluster.url(), 0);
    run_trial(testbed, plan, async |_, trial| {
        let victim = owner_of_an_item(&cluster, trial).await?;
        trial.wait_a_moment(MOMENT_MS).await;
        let begin = Instant::now();
        let heir = cluster.fail_over(victim).await.said()?;
        proven(heir != victim, format!("CLUSTER FAILOVER took {:.1?}", begin.elapsed()))
    })
    .await
}

pub async fn slots_moved(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let cluster = three_and_three(0).await?;
    let plan = on(testbed, seed, &cluster.url(), 0);
    run_trial(testbed, plan, async |_, trial| {
        let slots = slots_of(trial);
        let begin = Instant::now();
        for slot in &slots {
            let from = cluster.owner(*slot, None).await.said()?;
            for to in [(from + 1) % 3, (from + 2) % 3] {
                cluster.move_slot(*slot, to, ON_ITS_WAY).await.said()?;
                trial.injections += 1;
            }
        }
        let proof = format!("{} slots moved twice in {:.1?}", slots.len(), begin.elapsed());
        proven(!slots.is_empty(), proof)
    })
    .await
}

pub async fn node_added(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut cluster = three_and_three(0).await?;
    let plan = on(testbed, seed, &cluster.url(), 0);
    run_trial(testbed, plan, async |_, trial| {
        let new = cluster.add_node().await.said()?;
        let slots = slots_of(trial);
        for slot in &slots {
            cluster.move_slot(*slot, new, ON_ITS_WAY).await.said()?;
        }
        trial.fault_ended();
        let has = cluster.owner(slots[0], Some(new)).await.said()?;
        proven(has == new, format!("{} slots of items are on the new node", slots.len()))
    })
    .await
}

pub async fn without_replicas(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut cluster = three_and_three(1).await?;
    let setup = replicated(testbed, &cluster.url(), 1);
    let plan = Plan::new(seed, Wanted::These(WITH_QUEUE), &setup);
    run_trial(testbed, plan, async |_, trial| {
        for replica in 3..6 {
            cluster.nodes[replica].kill().await;
        }
        sleep(IN_FLIGHT).await;
        let then = trial.sold();
        sleep(FAULT).await;
        let others = trial.sold() - then;
        let of_queue = async |outcome: &str| {
            let labels = format!("strategy=\"redis-stream\",outcome=\"{outcome}\"");
            trial.metric("seckill_purchases_total", &labels).await
        };
        let refused = of_queue("dependency_unavailable").await;
        let in_doubt = of_queue("outcome_unknown").await;
        for replica in 3..6 {
            cluster.nodes[replica].restart().await.said()?;
        }
        let proof = format!(
            "{others} sold without replicas; {refused} orders for the queue refused, {in_doubt} in doubt"
        );
        proven(others > 0 && refused + in_doubt > 0.0, proof)
    })
    .await
}

pub async fn sentinel_failover(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut group = RedisSentinels::start(None).await.said()?;
    let plan = on(testbed, seed, &group.url(), 2);
    run_trial(testbed, plan, async |_, trial| {
        let victim = group.primary().await.ok_or("the Sentinels know no primary")?;
        trial.wait_a_moment(MOMENT_MS).await;
        let begin = Instant::now();
        group.servers[victim].kill().await;
        sleep(IN_FLIGHT).await;
        trial.fault_ended();
        until("the Sentinels to name another primary", TAKE_OVER_MAX, || async {
            group.primary().await.filter(|primary| *primary != victim)
        })
        .await?;
        let took = begin.elapsed();
        group.servers[victim].restart().await.said()?;
        proven(true, format!("another primary was named after {took:.1?}"))
    })
    .await
}

async fn three_and_three(replicas: usize) -> Run<RedisCluster> {
    let options = RedisClusterOptions {
        replicas,
        node_timeout: NODE_TIMEOUT,
        ..RedisClusterOptions::default()
    };
    RedisCluster::start(options).await.said()
}

/// A plan for strategies on a Redis of the trial's own, whose 202 waits for replicas.
fn on(testbed: &Testbed, seed: u64, url: &str, replicas_min: u32) -> Plan {
    Plan::new(seed, Wanted::Needing("redis"), &replicated(testbed, url, replicas_min))
}

fn replicated(testbed: &Testbed, url: &str, replicas_min: u32) -> Setup {
    let setup = testbed.setup().with("REDIS_URL", url);
    setup.with("SECKILL_QUEUE_REPLICAS_MIN", replicas_min.to_string())
}

/// The node that has one of the items that are sold.
async fn owner_of_an_item(cluster: &RedisCluster, trial: &mut Trial) -> Run<usize> {
    let slot = slots_of(trial)[0];
    cluster.owner(slot, None).await.said()
}

/// The slots of some of the items.
fn slots_of(trial: &mut Trial) -> Vec<u16> {
    let mut items = trial.item_ids();
    let first = trial.random.random_range(0..items.len());
    items.rotate_left(first);
    let slots = items.iter().map(|item| Slot::of(format!("item:{item}").as_bytes()).number());
    slots.take(SLOTS_MAX).collect()
}

async fn until_primary(cluster: &RedisCluster, heir: usize) -> Run<()> {
    let taken = timeout(TAKE_OVER_MAX, cluster.until_primary(heir)).await;
    taken.map_err(|_| "no replica took over".to_owned())?.said()
}
