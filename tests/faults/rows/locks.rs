//! Locks: leases that run out while their holders are frozen, quorums and sessions that are lost.

use dev_servers::{EtcdServer, Recipe, Server, ZookeeperEnsemble};

use crate::prelude::*;

/// Locks with a lease and a fence that means something to every instance.
const FENCED: &[&str] = &[
    "lock-redis",
    "lock-redis-token",
    "lock-redis-reentrant",
    "lock-redis-fair",
    "lock-mysql-table",
    "lock-zookeeper",
    "lock-zookeeper-spin",
    "lock-etcd",
];
/// How often a trial stops the holders: 25 trials make a hundred.
const STOPS: u32 = 4;
/// Units that others buy while the holders are stopped, each under a lock of its own.
const OTHERS: i64 = 2;
/// Units that are left then where the ledger decides: the late write fails for its fence alone.
const LEFT: i64 = 3;
/// The lease of these trials: another one gets the lock after it.
const LEASE_MS: &str = "1500";
const STRANGERS: i64 = 8_000_000;
/// Longer than the usual lease, and so than a session lives.
const LEASE_OVER: Duration = Duration::from_secs(4);
/// Spans of [`FAULT`] in one of which nothing may be sold without most members.
const STILL_TRIES: u32 = 3;
/// How long purchases may take to come to their writes, and others to get the locks.
const HELD_MAX: Duration = Duration::from_secs(20);

/// A holder that is stopped.
struct Holder {
    lock: &'static str,
    /// Without an arbiter nobody looks at fences.
    arbiter: bool,
    item: i64,
}

/// The holders of all fenced locks are stopped right before their writes, longer than their leases.
pub async fn outlived(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let wire = FaultyLink::to(testbed.mysql.port()).await.said()?;
    let setup = testbed.setup().with("SECKILL_LOCK_LEASE_MS", LEASE_MS);
    // Nothing but the holders begins a transaction, each has a connection, and nobody hurries it.
    let held = setup.clone().with("DATABASE_URL", testbed.ledger_url_by(wire.port()));
    let alone = [
        ("SECKILL_MYSQL_POOL_MAX", "64"),
        ("SECKILL_JOB_EXPIRE_PERIOD_MS", "3600000"),
        ("SECKILL_JOB_RECONCILE_PERIOD_MS", "3600000"),
        ("SECKILL_PURCHASE_DEADLINE_MS", "60000"),
        ("SECKILL_LIFECYCLE_DRAIN_MS", "60000"),
    ];
    let held = alone.iter().fold(held, |setup, (name, value)| setup.with(name, *value));
    let mut plan = Plan::new(seed, Wanted::These(&["mysql-atomic"]), &setup);
    plan.control = false;
    let mut caught = (0, 0);
    let trial = run_trial(testbed, plan, async |testbed, trial| {
        let mut refused = 0;
        for _ in 0..STOPS {
            let stopped = stop_holders(testbed, &wire, &held, &trial.services[1]).await?;
            trial.injections += 1;
            refused += stopped.refused;
            caught = (caught.0 + stopped.oversold, caught.1 + stopped.unguarded);
        }
        let all = usize::try_from(STOPS).unwrap_or_default() * FENCED.len();
        let proof =
            format!("{STOPS} stops of {} holders: {refused} stale tokens refused", FENCED.len());
        proven(refused == all, proof)
    });
    let mut trial = trial.await?;
    trial.controls = caught;
    Ok(trial)
}

/// What one stop of all holders came to.
struct Stopped {
    /// Stale tokens that the ledger refused.
    refused: usize,
    /// Items without an arbiter, and those of them that were oversold.
    unguarded: u32,
    oversold: u32,
}

/// Stops an instance that holds every lock, lets another one sell under the same locks, and lets the
/// late writes come. The error names a stale write.
async fn stop_holders(
    testbed: &Testbed,
    wire: &FaultyLink,
    held: &Setup,
    other: &Service,
) -> Run<Stopped> {
    let frozen = Service::start(held).await?;
    let mut holders = Vec::new();
    for (lock, arbiter) in FENCED.iter().flat_map(|lock| [(*lock, true), (*lock, false)]) {
        let (mode, left) = if arbiter { ("on", LEFT) } else { ("off", 0) };
        let more = json!({ "stock": OTHERS + left, "arbiter": mode });
        let item = make_item(testbed, other, &more).await?;
        holders.push(Holder { lock, arbiter, item });
    }
    // Whatever it needs at the first time is there before.
    let _ = frozen.get("/api/items", None).await;
    let awaited = wire.bites() + holders.len() as u64;
    Link::HoldsBegins.begin(wire);
    let late = join_all(holders.iter().map(|holder| press(testbed, &frozen, holder, 0)));
    let rest = async {
        let begun = until("all holders at their writes", HELD_MAX, || async {
            (wire.bites() >= awaited).then_some(())
        });
        let begun = begun.await;
        frozen.signal("STOP").await?;
        let others = holders.iter().flat_map(|holder| (1..=OTHERS).map(move |id| (holder, id)));
        let sold = join_all(others.map(|(holder, id)| sold(testbed, other, holder, id))).await;
        wire.mend();
        frozen.signal("CONT").await?;
        begun?;
        sold.into_iter().collect::<Run<()>>()
    };
    let (statuses, rest) = tokio::join!(late, rest);
    wire.mend();
    rest?;
    // A client may have lost its patience before that.
    until("the late writes to end", HELD_MAX, || async {
        (frozen.metric("seckill_purchases_in_flight", "").await < 1.0).then_some(())
    })
    .await?;
    let mut stopped = Stopped { refused: 0, unguarded: 0, oversold: 0 };
    for (holder, status) in holders.iter().zip(statuses) {
        let units = units_sold(testbed, other, holder).await?;
        if !holder.arbiter {
            stopped.unguarded += 1;
            stopped.oversold += u32::from(units > OTHERS);
            continue;
        }
        if units != OTHERS || status == 201 {
            let lock = holder.lock;
            return Err(format!("{lock}: {units} sold, not {OTHERS}; the late one had {status}"));
        }
        let labels = format!("strategy=\"{}\",reason=\"fenced\"", holder.lock);
        let refused = frozen.metric("seckill_arbiter_refusals_by_reason_total", &labels).await;
        stopped.refused += usize::from(refused > 0.0);
    }
    Ok(stopped)
}

/// A buyer's purchase; 0 when there was no answer.
async fn press(testbed: &Testbed, service: &Service, holder: &Holder, buyer: i64) -> u16 {
    let path = format!("/api/seckill/{}/{}", holder.lock, holder.item);
    // One buyer has one lock, so each buys one item.
    let token = testbed.token(STRANGERS + holder.item * 10 + buyer, Role::Buyer);
    service.ask("POST", &path, &token, "").await.0
}

/// A buyer who asks until the item is sold to them.
async fn sold(testbed: &Testbed, service: &Service, holder: &Holder, buyer: i64) -> Run<()> {
    let begin = Instant::now();
    loop {
        match press(testbed, service, holder, buyer).await {
            201 => return Ok(()),
            status if begin.elapsed() >= HELD_MAX => {
                return Err(format!("{}: never sold to another: {status}", holder.lock));
            }
            _ => sleep(Duration::from_millis(20)).await,
        }
    }
}

async fn units_sold(testbed: &Testbed, service: &Service, holder: &Holder) -> Run<i64> {
    let audit = service.audit(testbed, holder.item).await?;
    audit["held"].as_i64().ok_or_else(|| format!("no audit: {audit}"))
}

/// Two of three members of etcd are killed.
pub async fn etcd_quorum(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut members = EtcdServer::start_cluster(3).await.said()?;
    let urls: Vec<String> = members.iter().map(EtcdServer::url).collect();
    let setup = testbed.setup().with("SECKILL_LOCK_ETCD_ENDPOINTS", urls.join(","));
    let plan = Plan::new(seed, Wanted::These(&["lock-etcd", "mysql-atomic", "redis-lua"]), &setup);
    quorum(testbed, plan, &mut members).await
}

/// Two of three members of ZooKeeper are killed.
pub async fn zookeeper_quorum(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let mut ensemble = ZookeeperEnsemble::start_temporary(3).await.said()?;
    let setup = testbed.setup().with("SECKILL_LOCK_ZOOKEEPER_HOSTS", ensemble.hosts());
    let strategies = &["lock-zookeeper", "lock-zookeeper-spin", "mysql-atomic", "redis-lua"];
    let plan = Plan::new(seed, Wanted::These(strategies), &setup);
    quorum(testbed, plan, &mut ensemble.members).await
}

/// Kills all but one; the first strategy of the plan needs most of them.
async fn quorum<R: Recipe>(
    testbed: &mut Testbed,
    plan: Plan,
    all: &mut [Server<R>],
) -> TrialResult {
    let strategy = plan.strategies[0];
    run_trial(testbed, plan, async |_, trial| {
        let lost = &mut all[1..];
        join_all(lost.iter().map(Server::kill)).await;
        // Who holds the lock may still sell, as long as its lease lasts, and a busy machine answers late.
        sleep(LEASE_OVER).await;
        let mut sold = 0;
        for _ in 0..STILL_TRIES {
            let then = trial.workload.items[0].sold();
            sleep(FAULT).await;
            sold = trial.workload.items[0].sold() - then;
            if sold == 0 {
                break;
            }
        }
        trial.fault_ended();
        for restarted in join_all(lost.iter_mut().map(Server::restart)).await {
            restarted.said()?;
        }
        proven(sold == 0, format!("{sold} sold by {strategy} while most members were gone"))
    })
    .await
}

/// The link to ZooKeeper is silent for longer than a session lives.
pub async fn session(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let hosts = testbed.zookeeper.hosts();
    let port: Option<u16> = hosts.rsplit(':').next().and_then(|port| port.parse().ok());
    let wire = FaultyLink::to(port.ok_or_else(|| format!("no port in {hosts}"))?).await.said()?;
    let setup =
        testbed.setup().with("SECKILL_LOCK_ZOOKEEPER_HOSTS", format!("127.0.0.1:{}", wire.port()));
    let strategies = &["lock-zookeeper", "lock-zookeeper-spin", "mysql-atomic"];
    let mut plan = Plan::new(seed, Wanted::These(strategies), &setup);
    // The other instance has a link of its own, and goes on once the sessions are over.
    plan.setups[1] = testbed.setup();
    run_trial(testbed, plan, async |_, trial| {
        let before = wire.bites();
        Link::BlackHole.begin(&wire);
        let then = trial.workload.items[0].sold();
        // Sessions live for a lease; then the locks of the cut-off instance are free.
        sleep(LEASE_OVER).await;
        let workload = &trial.workload;
        let sold = until("the other instance to get the lock", HELD_MAX, || async {
            Some(workload.items[0].sold() - then).filter(|sold| *sold > 0)
        });
        let sold = sold.await;
        wire.mend();
        let bites = wire.bites() - before;
        let sold = sold?;
        proven(bites > 0, format!("{bites} pieces held back; the other sold {sold}"))
    })
    .await
}
