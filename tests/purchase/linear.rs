//! Linearizability of one item's units, under faults: sales, refusals and returns have an order in
//! which each happened at one moment between its request and its answer, and in which a unit is sold
//! only if one is left and "sold out" is said only if none is.
//!
//! The stock row of the ledger is judged through the purchases of several strategies, the counter in
//! Redis by itself. Strategies that read and then write are the control: they must be caught. The
//! memory of "sold out" is off, since it may be half a second old; I16 judges it (`in_time.rs`).

use std::sync::atomic::AtomicI64;

use faulty_link::FaultyLink;
use gates::redis_store::{Counters, RedisClient, Take};
use linearizability::{Recorder, Specification};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use shop_domain::{OrderId, RequestKey};
use tokio::time::{Instant, sleep};

use crate::support::prelude::*;
use crate::support::{purchase, rounds, seed};

/// Units of the item at the start.
const STOCK: i64 = 4;
/// Callers at once.
const CALLERS: u64 = 5;
/// Purchases of each caller, in the short run.
const PURCHASES: u32 = 8;
/// How often a purchase without a definite answer is sent again: while connections break on a busy machine, the breaker
/// refuses for seconds at a time.
const TRIES_MAX: u32 = 1_000;
/// How long a broken link stays broken.
const BROKEN: Duration = Duration::from_millis(60);

/// What happened to one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StockOp {
    Sold,
    SoldOut,
    GivenBack,
}

/// Units of an item.
struct StockSpec;

impl Specification for StockSpec {
    type State = i64;
    type Operation = StockOp;

    fn init() -> i64 {
        STOCK
    }

    fn apply(operation: &StockOp, left: &i64) -> (bool, i64) {
        match operation {
            StockOp::Sold => (*left > 0, left - 1),
            StockOp::SoldOut => (*left <= 0, *left),
            StockOp::GivenBack => (true, left + 1),
        }
    }
}

/// A link to a server that breaks again and again until it is dropped.
struct Breaking(Arc<AtomicBool>);

impl Breaking {
    fn start(link: FaultyLink) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&over);
        tokio::spawn(async move {
            while !stopped.load(Ordering::SeqCst) {
                link.cut();
                sleep(BROKEN).await;
                link.mend();
                sleep(BROKEN * 4).await;
            }
        });
        Self(over)
    }
}

impl Drop for Breaking {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// One caller: buys, and cancels half of what it got.
struct Caller {
    instances: Arc<Vec<Instance>>,
    item: i64,
    strategy: &'static str,
    history: Recorder<StockOp>,
    random: StdRng,
}

impl Caller {
    /// Buys with a key until the answer is definite, on either instance. The order, if it was sold.
    async fn buy(&mut self, buyer: i64) -> Option<String> {
        let called = Instant::now();
        for _ in 0..TRIES_MAX {
            let client = self.any().buyer(buyer);
            let answer = client.buy_with_key(self.strategy, self.item, "k").await;
            match (answer.status, answer.json["code"].as_str()) {
                (200 | 201, _) => {
                    self.history.done(StockOp::Sold, called);
                    return Some(answer.json["id"].as_str().expect("an id").to_owned());
                }
                (409, Some("sold_out")) => {
                    self.history.done(StockOp::SoldOut, called);
                    return None;
                }
                _ => sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("{}: no definite answer", self.strategy);
    }

    /// Cancels until it is answered.
    async fn cancel(&mut self, buyer: i64, order: &str) {
        let called = Instant::now();
        for _ in 0..TRIES_MAX {
            if self.any().buyer(buyer).step(order, "cancellation").await.status == 200 {
                return self.history.done(StockOp::GivenBack, called);
            }
            sleep(Duration::from_millis(10)).await;
        }
        panic!("{}: not cancelled", self.strategy);
    }

    fn any(&mut self) -> &Instance {
        &self.instances[self.random.random_range(0..self.instances.len())]
    }
}

/// Takes a history of an item that is sold by two instances, one of which loses its ledger again and
/// again.
async fn history_of(strategy: &'static str, arbiter: &str) -> Recorder<StockOp> {
    let shop = Shop::with(|config| config.purchase.sold_out_ms = 0).await;
    let link = link_to_ledger(&shop).await;
    let second = shop.start_with(|config| config.database_url = Secret::new(link.url())).await;
    let instances = Arc::new(vec![shop.start().await, second]);
    let item = instances[0].make_item(json!({ "stock": STOCK, "arbiter": arbiter })).await;
    let breaking = Breaking::start(link);
    let (history, seed, mut callers) = (Recorder::default(), seed(), JoinSet::new());
    for number in 0..CALLERS {
        let mut caller = Caller {
            instances: Arc::clone(&instances),
            item,
            strategy,
            history: history.clone(),
            random: StdRng::seed_from_u64(seed ^ number),
        };
        callers.spawn(async move {
            for round in 0..PURCHASES * rounds(1).min(10) {
                let buyer = i64::from(round) * 1_000 + i64::try_from(number).expect("small") + 1;
                if let Some(order) = caller.buy(buyer).await
                    && caller.random.random()
                {
                    caller.cancel(buyer, &order).await;
                }
            }
        });
    }
    callers.join_all().await;
    drop(breaking);
    history
}

async fn is_linearizable_under_faults(strategy: &'static str) {
    let history = history_of(strategy, "on").await;
    for wanted in [StockOp::Sold, StockOp::SoldOut] {
        assert!(history.count(|one| *one == wanted) > 0, "{wanted:?}: {history:#?}");
    }
    assert!(history.is_linearizable::<StockSpec>(), "{history:#?}");
}

macro_rules! linearizable {
    ($($test:ident: $strategy:literal,)*) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $test() {
                is_linearizable_under_faults($strategy).await;
            }
        )*
    };
}

linearizable! {
    mysql_atomic_is_linearizable: "mysql-atomic",
    mysql_batch_is_linearizable: "mysql-batch",
    mysql_for_update_is_linearizable: "mysql-for-update",
    mysql_version_is_linearizable: "mysql-version",
    lock_redis_is_linearizable: "lock-redis",
    redis_lua_is_linearizable: "redis-lua",
    redis_bucket_is_linearizable: "redis-bucket",
}

/// The control: a gate that reads and then writes, without the arbiter. One history may be a lucky
/// one.
async fn is_caught(strategy: &'static str) {
    const HISTORIES_MAX: u32 = 10;
    for number in 1..=HISTORIES_MAX {
        let history = history_of(strategy, "off").await;
        if !history.is_linearizable::<StockSpec>() {
            return println!("{strategy}: caught in history {number}");
        }
    }
    panic!("{strategy}: not caught in {HISTORIES_MAX} histories");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mysql_naive_is_caught() {
    is_caught("mysql-naive").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn redis_naive_is_caught() {
    is_caught("redis-naive").await;
}

/// An item's counter in Redis, behind a link that breaks.
struct CounterTestbed {
    history: Recorder<StockOp>,
    purchase: Purchase,
    item: ItemId,
    /// Through the link.
    takes: Counters,
    /// Beside it: a return whose answer is lost is not repeated.
    gives: Counters,
    _shop: Shop,
    _instance: Instance,
}

impl CounterTestbed {
    async fn new() -> (Arc<Self>, FaultyLink) {
        let (shop, instance) =
            Shop::open_with(|config| config.job.reconcile_period_ms = 3_600_000).await;
        let item = json!({ "stock": STOCK, "per_buyer_limit": 1_000 });
        let item = ItemId::new(instance.make_item(item).await).expect("positive");
        let link = link_to(&redis_url().await).await;
        let mut config = shop.config.clone();
        config.redis_url = Secret::new(redis_url().await);
        let gives = RedisClient::new(&config).expect("a URL");
        config.redis_url = Secret::new(link.url());
        let takes = RedisClient::new(&config).expect("a URL");
        let counters = |redis| Counters::new(redis, shop.pool.clone(), Metrics::new());
        let testbed = Self {
            history: Recorder::default(),
            purchase: purchase(&shop, item, 1, ("redis-lua", "k")).await,
            item,
            takes: counters(takes),
            gives: counters(gives),
            _shop: shop,
            _instance: instance,
        };
        testbed.gives.read(item, in_a_minute()).await.expect("loaded");
        (Arc::new(testbed), link)
    }

    /// Takes a unit, once, however often it has to be asked; whether it was there.
    async fn take(&self) -> bool {
        let called = Instant::now();
        let order_id = OrderId::generate();
        let key = RequestKey::of_order(order_id);
        let purchase = Purchase { order_id, key, ..self.purchase.clone() };
        for _ in 0..TRIES_MAX {
            match self.takes.take_once(&purchase, in_a_minute()).await {
                Ok(Take::First(_) | Take::Again) => {
                    self.history.done(StockOp::Sold, called);
                    return true;
                }
                Ok(Take::NothingLeft) => {
                    self.history.done(StockOp::SoldOut, called);
                    return false;
                }
                Ok(other) => panic!("{other:?}"),
                Err(_) => sleep(Duration::from_millis(10)).await,
            }
        }
        panic!("Redis does not answer");
    }

    async fn give_back(&self) {
        let called = Instant::now();
        let counter = self.gives.read(self.item, in_a_minute()).await.expect("Redis answers");
        self.gives.give_back(self.item, counter.epoch, 1).await;
        self.history.done(StockOp::GivenBack, called);
    }

    /// The textbook's take: read, compare, write.
    async fn take_badly(&self) -> bool {
        let called = Instant::now();
        let left =
            self.gives.read(self.item, in_a_minute()).await.expect("Redis answers").available;
        let is_left = left > 0;
        if is_left {
            tokio::task::yield_now().await;
            self.gives.overwrite(self.item, left - 1).await.expect("Redis answers");
        }
        self.history.done(if is_left { StockOp::Sold } else { StockOp::SoldOut }, called);
        is_left
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_counter_in_redis_is_linearizable_although_answers_are_lost() {
    let (testbed, link) = CounterTestbed::new().await;
    let _breaking = Breaking::start(link);
    let mut callers = JoinSet::new();
    for _ in 0..CALLERS {
        let testbed = Arc::clone(&testbed);
        callers.spawn(async move {
            for round in 0..PURCHASES * 2 * rounds(1).min(10) {
                if testbed.take().await && round % 2 == 0 {
                    sleep(Duration::from_millis(5)).await;
                    testbed.give_back().await;
                }
            }
        });
    }
    callers.join_all().await;
    assert!(testbed.history.count(|one| *one == StockOp::SoldOut) > 0);
    assert!(testbed.history.is_linearizable::<StockSpec>(), "{:#?}", testbed.history);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_is_read_and_then_written_is_caught() {
    const HISTORIES_MAX: u32 = 20;
    for number in 1..=HISTORIES_MAX {
        let (testbed, _link) = CounterTestbed::new().await;
        let (mut callers, sold) = (JoinSet::new(), Arc::new(AtomicI64::new(0)));
        for _ in 0..CALLERS {
            let (testbed, sold) = (Arc::clone(&testbed), Arc::clone(&sold));
            callers.spawn(async move {
                while testbed.take_badly().await {
                    sold.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        callers.join_all().await;
        let is_linearizable = testbed.history.is_linearizable::<StockSpec>();
        assert_eq!(is_linearizable, sold.load(Ordering::SeqCst) <= STOCK, "{:#?}", testbed.history);
        if !is_linearizable {
            return println!("caught in history {number}");
        }
    }
    panic!("not caught in {HISTORIES_MAX} histories");
}
