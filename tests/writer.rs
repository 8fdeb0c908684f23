//! The ledger on two servers that replicate: the writer is lost, and its replica takes over.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use dev_servers::MysqlPair;
use seckill::config::Secret;
use seckill::store::mysql::replication::{Replication, read_from};
use serde_json::json;
use sqlx::Executor;
use tokio::task::JoinSet;

use crate::support::{Client, Instance, Shop, assert_clean, eventually, unique, when};

/// How long a new writer may take until everything is sold again, on a busy machine.
const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Buyers at once for each strategy.
const BUYERS: i64 = 6;
/// Purchases that are accepted before the fault, and after it.
const ENOUGH: u64 = 60;
/// The strategies of these sales: single transactions, batches, and a lock.
const STRATEGIES: [&str; 3] = ["mysql-atomic", "mysql-batch", "lock-redis"];

/// A pair of servers, a shop on it, and an instance.
async fn on_a_pair() -> (MysqlPair, Shop, Instance) {
    let pair = MysqlPair::start_temporary().await.expect("the pair starts");
    let url = pair.url_of(&unique("seckill"));
    let shop = Shop::with(|config| {
        config.database_url = Secret::new(url);
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
    })
    .await;
    let instance = shop.start().await;
    (pair, shop, instance)
}

/// Buyers who buy without a pause and repeat each purchase until its answer is definite.
struct Crowd {
    stops: Arc<AtomicBool>,
    sold: Arc<AtomicU64>,
    buyers: JoinSet<(i64, Vec<String>)>,
    items: Vec<i64>,
}

impl Crowd {
    async fn enters(instance: &Instance) -> Self {
        let (stops, sold) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let (mut buyers, mut items) = (JoinSet::new(), Vec::new());
        for strategy in STRATEGIES {
            let settings = json!({ "stock": 1_000_000, "per_buyer_limit": 100_000 });
            let item = instance.make_item(settings).await;
            items.push(item);
            for id in 1..=BUYERS {
                let (buyer, stops, sold) = (instance.buyer(id), stops.clone(), sold.clone());
                buyers.spawn(async move {
                    let mut orders = Vec::new();
                    while !stops.load(Ordering::Relaxed) {
                        orders.push(buy_for_sure(&buyer, strategy, item).await);
                        sold.fetch_add(1, Ordering::Relaxed);
                    }
                    (item, orders)
                });
            }
        }
        Self { stops, sold, buyers, items }
    }

    /// Waits until `more` purchases were accepted from now on.
    async fn has_bought(&self, more: u64) {
        let before = self.sold.load(Ordering::Relaxed);
        eventually(RECOVERY_MAX, || async {
            let sold = self.sold.load(Ordering::Relaxed) - before;
            when(sold >= more, sold)
        })
        .await;
    }

    /// Ends the sale; the accepted orders of each item.
    async fn leaves(mut self) -> Vec<(i64, Vec<String>)> {
        self.stops.store(true, Ordering::Relaxed);
        let mut all: Vec<(i64, Vec<String>)> =
            self.items.iter().map(|item| (*item, Vec::new())).collect();
        while let Some(ended) = self.buyers.join_next().await {
            let (item, orders) = ended.expect("a buyer does not panic");
            let mine = all.iter_mut().find(|(of, _)| *of == item).expect("its item");
            mine.1.extend(orders);
        }
        all
    }
}

/// Buys one unit, with one key until the answer is 201; the order's id.
async fn buy_for_sure(buyer: &Client, strategy: &str, item: i64) -> String {
    let key = format!("{:032x}", rand::random::<u128>());
    loop {
        let answer = buyer.buy_with_key(strategy, item, &key).await;
        if answer.status == 201 {
            return answer.json["id"].as_str().expect("an id").to_owned();
        }
        assert!([409, 503, 504].contains(&answer.status), "{strategy}: {}", answer.text);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// The accepted orders that are not in the ledger of the present writer.
async fn lost(shop: &Shop, accepted: &[(i64, Vec<String>)]) -> Vec<String> {
    let mut lost = Vec::new();
    for (item, orders) in accepted {
        let there: Vec<String> = eventually(RECOVERY_MAX, || async {
            let read = sqlx::query_scalar("SELECT id FROM orders WHERE item_id = ?").bind(item);
            read.fetch_all(&shop.pool).await
        })
        .await;
        let there: BTreeSet<String> = there.into_iter().collect();
        lost.extend(orders.iter().filter(|id| !there.contains(*id)).cloned());
    }
    lost
}

/// Asserts that each accepted order is in the ledger, and that the ledger is in order.
async fn assert_nothing_lost(shop: &Shop, instance: &Instance, accepted: &[(i64, Vec<String>)]) {
    assert_eq!(lost(shop, accepted).await, Vec::<String>::new(), "accepted orders are lost");
    for (item, _) in accepted {
        assert_clean(instance, *item).await;
    }
}

async fn metric(instance: &Instance, name: &str) -> f64 {
    let text = instance.stranger().get("/metrics").await.text;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the metric is there")
}

async fn execute(pair: &MysqlPair, place: usize, statement: &str) {
    let mut operator = pair.operator(place).await.expect("it answers");
    operator.execute(sqlx::raw_sql(statement)).await.expect(statement);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_is_killed_and_its_replica_loses_no_accepted_order() {
    let (mut pair, shop, instance) = on_a_pair().await;
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 0.0);
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    pair.member(0).kill().await;
    pair.promote().await.expect("the replica takes over");
    crowd.has_bought(ENOUGH).await;
    // It comes back as a replica of the new writer, and takes no writes.
    pair.member(0).restart().await.expect("it starts again");
    pair.rejoin().await.expect("it replicates");
    crowd.has_bought(ENOUGH).await;
    // The way back.
    pair.member(1).kill().await;
    pair.promote().await.expect("the first one takes over again");
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 2.0);
    assert_eq!(metric(&instance, "seckill_ledger_writer").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_writer_is_demoted_by_hand_and_the_sale_goes_on_at_its_replica() {
    let (mut pair, shop, instance) = on_a_pair().await;
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    execute(&pair, 0, "SET GLOBAL read_only = 1").await;
    // What was committed before is on its way to the replica.
    pair.promote().await.expect("the replica takes over");
    crowd.has_bought(ENOUGH).await;
    pair.rejoin().await.expect("the old writer replicates");
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    assert_eq!(metric(&instance, "seckill_ledger_writers").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_writer_that_wakes_up_after_its_replacement_is_not_followed() {
    let (mut pair, shop, instance) = on_a_pair().await;
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    assert!(pair.member(0).pause());
    pair.promote().await.expect("the replica takes over");
    crowd.has_bought(ENOUGH).await;
    // It still believes that it is the writer: nobody could tell it.
    assert!(pair.member(0).resume());
    eventually(RECOVERY_MAX, || async {
        let writers = metric(&instance, "seckill_ledger_writers").await;
        when(writers > 1.5, writers)
    })
    .await;
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    assert_eq!(metric(&instance, "seckill_ledger_writer").await, 2.0);
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_fallback_to_asynchronous_replication_is_shown_and_its_loss_can_be_named() {
    let (mut pair, shop, instance) = on_a_pair().await;
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql_replication"], "ok", "{}", ready.text);
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    execute(&pair, 1, "STOP SLAVE").await;
    // The first commits wait for the replica; then the writer goes on without it.
    crowd.has_bought(ENOUGH).await;
    let ready = instance.stranger().get("/readyz").await;
    let said = ready.json["dependencies"]["mysql_replication"].as_str().unwrap_or_default();
    assert!(said.starts_with("asynchronous"), "{}", ready.text);
    eventually("the metric", || async {
        let fault = metric(&instance, "seckill_ledger_replication_fault").await;
        when(fault > 0.5, fault)
    })
    .await;
    let unacknowledged = match read_from(&shop.pool).await.expect("it answers") {
        Replication::SemiSynchronous { active: false, unacknowledged, .. } => unacknowledged,
        other => panic!("{other}"),
    };
    assert!(unacknowledged > 0);
    crowd.has_bought(ENOUGH).await;
    let accepted = crowd.leaves().await;
    pair.member(0).kill().await;
    pair.promote().await.expect("the replica takes over");
    // The ledger of the replica is older, and in order. Exactly the accepted orders are missing
    // that were committed after it was cut off.
    let lost = lost(&shop, &accepted).await;
    let all: usize = accepted.iter().map(|(_, orders)| orders.len()).sum();
    assert!(!lost.is_empty() && lost.len() < all, "{} of {all} are lost", lost.len());
    for (item, _) in &accepted {
        let audit = eventually(RECOVERY_MAX, || async {
            let audit = instance.audit(*item).await;
            when(audit["findings"].is_array(), audit)
        })
        .await;
        let findings: Vec<_> = audit["findings"].as_array().into_iter().flatten().collect();
        let is_clean = findings.iter().all(|one| one["holds"] != false || one["invariant"] == "I7");
        assert!(is_clean, "{audit}");
    }
}
