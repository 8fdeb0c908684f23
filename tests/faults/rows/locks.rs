//! Locks: a lease that runs out while its holder is frozen, quorums and sessions that are lost.

use std::time::Duration;

use futures::future::join_all;
use hyper::body::Bytes;
use seckill::dev::{EtcdServer, ZookeeperEnsemble};
use seckill::session::Role;
use serde_json::{Value, json};
use tokio::time::sleep;

use super::{FAULT, bit};
use crate::Tried;
use crate::service::Service;
use crate::shop::{Plan, Wanted, make_item, sell_through};
use crate::stage::{Stage, until};
use crate::wire::{Link, Wire};

/// Locks with a lease and a fence, over one trial's choice.
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
/// Locks that one trial freezes, each once with the arbiter and once without.
const FROZEN_AT_ONCE: usize = 2;
/// Units, and buyers who come while the holder is frozen.
const STOCK: i64 = 5;
const BUYERS: i64 = 8;
/// The lease of these trials: another one gets the lock after it.
const LEASE_MS: &str = "1500";
const STRANGERS: i64 = 8_000_000;
/// How long a purchase may take to come to its write.
const HELD_MAX: Duration = Duration::from_secs(10);

/// A holder is stopped right before its write, longer than its lease.
pub async fn outlived(stage: &mut Stage, seed: u64) -> Tried {
    let wire = Wire::to(stage.mysql.port()).await?;
    let setup = stage.setup().with("SECKILL_LOCK_LEASE_MS", LEASE_MS);
    let held = setup.clone().with("DATABASE_URL", stage.ledger_url_by(wire.port));
    let mut plan = Plan::new(seed, Wanted::These(&["mysql-atomic"]), &setup);
    plan.control = false;
    let first = usize::try_from(seed).unwrap_or_default() * FROZEN_AT_ONCE;
    let chosen: Vec<_> = FENCED.iter().cycle().skip(first % 8).take(FROZEN_AT_ONCE).collect();
    let mut caught = (0, 0);
    let trial = sell_through(stage, plan, async |stage, shop| {
        let (mut fenced, mut words) = (0.0, Vec::new());
        for lock in chosen {
            for arbiter in ["on", "off"] {
                let frozen = Service::start(&held).await?;
                let sold = freeze(stage, &wire, &frozen, &shop.services[1], lock, arbiter).await?;
                shop.injections += 1;
                if arbiter == "off" {
                    caught = (caught.0 + u32::from(sold > STOCK), caught.1 + 1);
                } else {
                    let refused =
                        frozen.metric("seckill_arbiter_refusals_by_reason_total", "fenced").await;
                    fenced += refused;
                    words.push(format!("{lock}: {refused}"));
                    if sold != STOCK {
                        return Err(format!("{lock}: {sold} sold of {STOCK}"));
                    }
                }
            }
        }
        shop.mended();
        bit(fenced > 0.0, format!("stale writes refused by the fence: {}", words.join(", ")))
    });
    let mut trial = trial.await?;
    trial.controls = caught;
    Ok(trial)
}

/// Units sold in the end.
async fn freeze(
    stage: &Stage,
    wire: &Wire,
    frozen: &Service,
    other: &Service,
    lock: &str,
    arbiter: &str,
) -> crate::Run<i64> {
    let more = json!({ "stock": STOCK, "arbiter": arbiter });
    let item = make_item(stage, other, false, &more).await?;
    let path = format!("/api/seckill/{lock}/{item}");
    let press = async |service: &Service, buyer: i64| {
        let token = stage.token(STRANGERS + buyer, Role::Buyer);
        service.ask("POST", &path, Some(&token), Bytes::new()).await.map_or(0, |reply| reply.status)
    };
    // Whatever it needs at the first time is there before.
    let _ = frozen.get("/api/items", None).await;
    let bites = wire.bites();
    wire.set(Link::HoldsBegins);
    let late = press(frozen, 0);
    let rest = async {
        let held = until("a purchase at its write", HELD_MAX, || async {
            (wire.bites() > bites).then_some(())
        });
        let held = held.await;
        frozen.signal("STOP").await?;
        for _ in 0..5 {
            join_all((1..=BUYERS).map(|buyer| press(other, buyer))).await;
        }
        wire.set(Link::Works);
        frozen.signal("CONT").await?;
        held
    };
    let (_, rest) = tokio::join!(late, rest);
    wire.set(Link::Works);
    rest?;
    let token = stage.token(1, Role::Admin);
    let reply = other.get(&format!("/api/admin/items/{item}/audit"), Some(&token)).await?;
    let audit: Value = serde_json::from_slice(&reply.body).unwrap_or_default();
    audit["held"].as_i64().ok_or_else(|| format!("no audit: {audit}"))
}

/// Two of three members of etcd are killed.
pub async fn etcd_quorum(stage: &mut Stage, seed: u64) -> Tried {
    let mut members = EtcdServer::start_cluster(3).await.map_err(|error| error.to_string())?;
    let urls: Vec<String> = members.iter().map(EtcdServer::url).collect();
    let setup = stage.setup().with("SECKILL_LOCK_ETCD_ENDPOINTS", urls.join(","));
    let plan = Plan::new(seed, Wanted::These(&["lock-etcd", "mysql-atomic", "redis-lua"]), &setup);
    sell_through(stage, plan, async |_, shop| {
        let (first, second) = members.split_at_mut(1);
        tokio::join!(first[0].kill_hard(), second[0].kill_hard());
        shop.injections += 1;
        sleep(Duration::from_millis(300)).await;
        let then = shop.crowd.goods[0].sold();
        sleep(FAULT).await;
        let sold = shop.crowd.goods[0].sold() - then;
        shop.mended();
        let restarts = tokio::join!(first[0].restart(), second[0].restart());
        restarts.0.and(restarts.1).map_err(|error| error.to_string())?;
        bit(sold == 0, format!("{sold} sold by lock-etcd while two of three were gone"))
    })
    .await
}

/// Two of three members of ZooKeeper are killed.
pub async fn zookeeper_quorum(stage: &mut Stage, seed: u64) -> Tried {
    let ensemble = ZookeeperEnsemble::start_temporary(3).await;
    let mut ensemble = ensemble.map_err(|error| error.to_string())?;
    let setup = stage.setup().with("SECKILL_LOCK_ZOOKEEPER_HOSTS", ensemble.hosts());
    let strategies = &["lock-zookeeper", "lock-zookeeper-spin", "mysql-atomic", "redis-lua"];
    let plan = Plan::new(seed, Wanted::These(strategies), &setup);
    sell_through(stage, plan, async |_, shop| {
        let (first, second) = ensemble.members.split_at_mut(1);
        tokio::join!(first[0].kill_hard(), second[0].kill_hard());
        shop.injections += 1;
        sleep(Duration::from_millis(300)).await;
        let then = shop.crowd.goods[0].sold();
        sleep(FAULT).await;
        let sold = shop.crowd.goods[0].sold() - then;
        shop.mended();
        let restarts = tokio::join!(first[0].restart(), second[0].restart());
        restarts.0.and(restarts.1).map_err(|error| error.to_string())?;
        bit(sold == 0, format!("{sold} sold by lock-zookeeper while two of three were gone"))
    })
    .await
}

/// The link to ZooKeeper is silent for longer than a session lives.
pub async fn session(stage: &mut Stage, seed: u64) -> Tried {
    let hosts = stage.zookeeper.hosts();
    let port = hosts.rsplit(':').next().and_then(|port| port.parse().ok());
    let wire = Wire::to(port.ok_or_else(|| format!("no port in {hosts}"))?).await?;
    let setup =
        stage.setup().with("SECKILL_LOCK_ZOOKEEPER_HOSTS", format!("127.0.0.1:{}", wire.port));
    let strategies = &["lock-zookeeper", "lock-zookeeper-spin", "mysql-atomic"];
    let mut plan = Plan::new(seed, Wanted::These(strategies), &setup);
    // The other instance has a link of its own, and goes on once the sessions are over.
    plan.setups[1] = stage.setup();
    sell_through(stage, plan, async |_, shop| {
        let before = wire.bites();
        wire.set(Link::BlackHole);
        shop.injections += 1;
        let then = shop.crowd.goods[0].sold();
        // Sessions live for a lease; then the locks of the cut-off instance are free.
        sleep(Duration::from_secs(4)).await;
        let sold = shop.crowd.goods[0].sold() - then;
        wire.set(Link::Works);
        shop.mended();
        let bites = wire.bites() - before;
        bit(bites > 0 && sold > 0, format!("{bites} pieces held back; the other sold {sold}"))
    })
    .await
}
