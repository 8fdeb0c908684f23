//! Buyers who go on while the writer of the ledger is replaced, and what becomes of their orders.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use dev_servers::{MysqlSet, Replication};
use seckill::config::Config;
use serde_json::{Value, json};
use settings::Secret;
use tokio::task::JoinSet;

use super::{Client, Instance, Shop, assert_clean, eventually, unique, until, when};

/// How long a new writer may take until everything is sold again, on a busy machine.
pub const RECOVERY_MAX: Duration = Duration::from_secs(60);
/// Buyers at once for each strategy.
const BUYERS: i64 = 6;
/// Purchases that are accepted before the fault, and after it.
pub const ENOUGH: u64 = 60;
/// The strategies of these sales: single transactions, batches, and a lock.
const STRATEGIES: [&str; 3] = ["mysql-atomic", "mysql-batch", "lock-redis"];

/// Servers that replicate, a shop on them, and an instance.
pub async fn on(engine: Replication) -> (MysqlSet, Shop, Instance) {
    on_with(engine, |_| {}).await
}

/// Servers that replicate, a shop with other settings on them, and an instance.
pub async fn on_with(
    engine: Replication,
    set_up: impl FnOnce(&mut Config),
) -> (MysqlSet, Shop, Instance) {
    let set = MysqlSet::start_temporary(engine).await.expect("the servers start");
    let url = set.url_of(&unique("seckill"));
    let (shop, instance) = Shop::open_with(|config| {
        config.database_url = Secret::new(url);
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
        set_up(config);
    })
    .await;
    (set, shop, instance)
}

/// Buyers who buy and repeat each purchase until its answer is definite.
pub struct Crowd {
    stops: Arc<AtomicBool>,
    sales: Vec<Arc<Sale>>,
    buyers: JoinSet<(i64, Vec<String>)>,
}

/// The sale of an item.
struct Sale {
    item: i64,
    strategy: &'static str,
    /// After each purchase.
    pause: Duration,
    /// Accepted purchases.
    sold: AtomicU64,
    /// The longest wait for an accepted purchase since somebody asked.
    longest_ms: AtomicU64,
}

impl Crowd {
    pub async fn enters(instance: &Instance) -> Self {
        let mut sales = Vec::new();
        for strategy in STRATEGIES {
            sales.push((strategy, instance.make_item(endless()).await));
        }
        Self::of(instance, sales)
    }

    /// The buyers of these sales.
    pub fn of(instance: &Instance, sales: Vec<(&'static str, i64)>) -> Self {
        Self::slow(instance, sales, Duration::ZERO)
    }

    /// The buyers of these sales, who pause after each purchase: for a test that takes long.
    pub fn slow(instance: &Instance, sales: Vec<(&'static str, i64)>, pause: Duration) -> Self {
        let stops = Arc::new(AtomicBool::new(false));
        let mut buyers = JoinSet::new();
        let start = |(strategy, item)| {
            let (sold, longest_ms) = (AtomicU64::new(0), AtomicU64::new(0));
            let sale = Arc::new(Sale { item, strategy, pause, sold, longest_ms });
            for id in 1..=BUYERS {
                buyers.spawn(sale.clone().buys(instance.buyer(id), stops.clone()));
            }
            sale
        };
        let sales = sales.into_iter().map(start).collect();
        Self { stops, sales, buyers }
    }

    /// Waits until `more` purchases were accepted from now on, of each item its part.
    pub async fn has_bought(&self, more: u64) {
        let each = more.div_ceil(self.sales.len() as u64);
        let sold = || self.sales.iter().map(|sale| sale.sold.load(Ordering::Relaxed));
        let before: Vec<u64> = sold().collect();
        eventually(RECOVERY_MAX, || async {
            let since: Vec<u64> = sold().zip(&before).map(|(now, before)| now - before).collect();
            when(since.iter().all(|sold| *sold >= each), since)
        })
        .await;
    }

    /// Waits until some more purchases were accepted, and prints the longest waits since the last step.
    pub async fn sells_on(&self, step: &str) {
        self.has_bought(ENOUGH).await;
        println!("{step}, the longest waits: {}", self.longest_waits());
    }

    /// The longest wait for an accepted purchase of each item since the last call.
    pub fn longest_waits(&self) -> String {
        let longest = |sale: &Arc<Sale>| {
            let Sale { item, strategy, longest_ms, .. } = &**sale;
            format!("{strategy} {item}: {} ms", longest_ms.swap(0, Ordering::Relaxed))
        };
        self.sales.iter().map(longest).collect::<Vec<_>>().join(", ")
    }

    /// Ends the sale; the accepted orders of each item.
    pub async fn leaves(mut self) -> Vec<(i64, Vec<String>)> {
        self.stops.store(true, Ordering::Relaxed);
        let mut all: Vec<(i64, Vec<String>)> =
            self.sales.iter().map(|sale| (sale.item, Vec::new())).collect();
        while let Some(ended) = self.buyers.join_next().await {
            let (item, orders) = ended.expect("a buyer does not panic");
            let mine = all.iter_mut().find(|(of, _)| *of == item).expect("its item");
            mine.1.extend(orders);
        }
        all
    }
}

impl Sale {
    /// Buys until it stops; the accepted orders.
    async fn buys(self: Arc<Self>, buyer: Client, stops: Arc<AtomicBool>) -> (i64, Vec<String>) {
        let mut orders = Vec::new();
        while !stops.load(Ordering::Relaxed) {
            let begin = Instant::now();
            let order = buy_for_sure(&buyer, self.strategy, self.item).await;
            orders.push(order.expect("its item does not sell out"));
            self.longest_ms.fetch_max(begin.elapsed().as_millis() as u64, Ordering::Relaxed);
            self.sold.fetch_add(1, Ordering::Relaxed);
            if !self.pause.is_zero() {
                tokio::time::sleep(self.pause).await;
            }
        }
        (self.item, orders)
    }
}

/// An item that does not sell out.
pub fn endless() -> Value {
    json!({ "stock": 1_000_000, "per_buyer_limit": 100_000 })
}

/// Buys one unit, with one key until the answer is definite; the order's id, or none when all is sold.
pub async fn buy_for_sure(buyer: &Client, strategy: &str, item: i64) -> Option<String> {
    let key = format!("{:032x}", rand::random::<u128>());
    loop {
        let answer = buyer.buy_with_key(strategy, item, &key).await;
        if answer.status == 201 {
            return Some(answer.json["id"].as_str().expect("an id").to_owned());
        }
        if answer.brief() == (409, "sold_out") {
            return None;
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
pub async fn assert_nothing_lost(
    shop: &Shop,
    instance: &Instance,
    accepted: &[(i64, Vec<String>)],
) {
    assert_eq!(lost(shop, accepted).await, Vec::<String>::new(), "accepted orders are lost");
    for (item, _) in accepted {
        assert_clean(instance, *item).await;
    }
}

/// Waits until a metric of an instance is as wanted, and answers it.
pub async fn until_figure(instance: &Instance, name: &str, is_wanted: impl Fn(f64) -> bool) -> f64 {
    until(RECOVERY_MAX, || metric(instance, name), |figure| is_wanted(*figure)).await
}

/// A metric of an instance.
pub async fn metric(instance: &Instance, name: &str) -> f64 {
    let text = instance.stranger().get("/metrics").await.text;
    let line = text.lines().find(|line| line.split(' ').next() == Some(name));
    line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).expect("the metric is there")
}
