//! What tests have in common: private servers that all share, and a service of one's own.

mod client;
mod counters;
pub mod crowd;
pub mod event_stream;
mod files;
pub mod h2;
pub mod identity_keys;
pub mod identity_provider;
mod instance;
pub mod ledger_copy;
pub mod nginx;
pub mod payment_provider;
pub mod prelude;
mod purchase;
pub mod raw;
mod rows;
pub mod shards;
pub mod strategies;
pub mod trace_collector;
mod waiting;
pub mod webhook_receiver;

use std::fmt::Debug;
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use dev_servers::{
    Certificates, EtcdOptions, EtcdServer, MysqlOptions, MysqlServer, MysqlSet, RedisCluster,
    RedisClusterOptions, RedisOptions, RedisSentinels, RedisServer, Replication, VitessServer,
    ZookeeperOptions, ZookeeperServer,
};
use futures::future::join_all;
use tokio::sync::OnceCell;
use tokio::time::Instant;
use tokio_util::task::AbortOnDropHandle;

use self::shards::SharedCluster;

pub use client::{Answer, Client, assert_has, assert_problem, available, order_id, purchase_path};
pub use counters::redis_of;
pub use faulty_link::FaultyLink;
pub use files::{PROJECT, TestFolder, files_below, project};
pub use instance::{
    DRAW_KEY, Instance, Shop, changed, hold_stock_row, item_body, patient, patient_transaction,
    statements_running, until_running,
};
pub use purchase::{
    is_breaker_open, purchase, purchase_of, send_and_leave, until_in_flight, until_metric,
    write_batch,
};
pub use waiting::{BOUND, assert_all_clean, assert_clean, eventually, until, when};

/// The servers of this run. They end with the process.
///
/// They live on a runtime of their own, since each test's runtime ends with the test.
static RUNTIME: LazyLock<tokio::runtime::Runtime> = LazyLock::new(|| {
    // All tests, and the services that they start within, share one process.
    seckill::open_files::raise_limit();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime for the servers")
});

/// Starts a server beside the tests' own runtimes.
async fn started<T: Send + 'static, E: Debug + Send + 'static>(
    start: impl Future<Output = Result<T, E>> + Send + 'static,
) -> T {
    RUNTIME.spawn(start).await.expect("no panic").expect("the private server starts")
}

/// The database server and the Redis of this run.
pub struct Servers {
    pub mysql: &'static MysqlServer,
    pub redis: &'static RedisServer,
}

/// The database server and the Redis of this run, started when the first test asks.
pub async fn servers() -> Servers {
    let (mysql, redis) = tokio::join!(mysql(), redis());
    Servers { mysql, redis }
}

/// The database server of this run, started when the first test asks.
async fn mysql() -> &'static MysqlServer {
    static MYSQL: OnceCell<MysqlServer> = OnceCell::const_new();
    let start = async || {
        let mut options = MysqlOptions::temporary();
        // Each test makes all tables, and a file for each would cost more than the tables do.
        options.extra_arguments.push("--loose-innodb-file-per-table=OFF".to_owned());
        own_mysql(options).await
    };
    MYSQL.get_or_init(start).await
}

/// The Redis of this run, started when the first test asks.
async fn redis() -> &'static RedisServer {
    static REDIS: OnceCell<RedisServer> = OnceCell::const_new();
    REDIS.get_or_init(|| async { own_redis(1, &[]).await.remove(0) }).await
}

/// Five more Redis servers that know nothing of each other, started when the first test asks.
pub async fn independent_redis() -> &'static [RedisServer] {
    static FIVE: OnceCell<Vec<RedisServer>> = OnceCell::const_new();
    FIVE.get_or_init(|| own_redis(5, &[])).await
}

/// Redis servers of a test's own, with further lines for their configuration.
pub async fn own_redis(count: usize, extra_lines: &[&str]) -> Vec<RedisServer> {
    let start = (0..count).map(|_| {
        let mut options = RedisOptions::temporary();
        options.extra_lines = extra_lines.iter().map(|line| (*line).to_owned()).collect();
        started(RedisServer::start(options))
    });
    join_all(start).await
}

/// A database server of a test's own. It never waits for the disk, where most of a run's time would go: the tests kill
/// servers, and what a dead server has written stays, because they never cut the power.
pub async fn own_mysql(mut options: MysqlOptions) -> MysqlServer {
    // MySQL has no such option.
    options.extra_arguments.push("--loose-debug-no-sync".to_owned());
    started(MysqlServer::start(options)).await
}

/// How often a test repeats what must come out the same every time: `SECKILL_TEST_ROUNDS`, else a
/// few times.
pub fn rounds(few: u32) -> u32 {
    let asked = std::env::var("SECKILL_TEST_ROUNDS").ok();
    asked.map_or(few, |text| text.parse().expect("SECKILL_TEST_ROUNDS is a number"))
}

/// How long a test without an end of its own goes on: `SECKILL_TEST_SECONDS`, else a few seconds.
pub fn seconds(few: u64) -> Duration {
    let asked = std::env::var("SECKILL_TEST_SECONDS").ok();
    let number = |text: String| text.parse().expect("SECKILL_TEST_SECONDS is a number");
    Duration::from_secs(asked.map_or(few, number))
}

/// Whether the whole of a test that has a small form is asked for: `make test-all` sets `SECKILL_TEST_ALL`.
pub fn is_whole() -> bool {
    std::env::var_os("SECKILL_TEST_ALL").is_some()
}

/// The variable that makes a randomised test repeat its choices.
pub const SEED_VARIABLE: &str = "SECKILL_TEST_SEED";

/// The seed of a randomised test: that of [`SEED_VARIABLE`], else a new one. It is printed, so that a
/// failed test shows it.
pub fn seed() -> u64 {
    let asked = std::env::var(SEED_VARIABLE).ok();
    let seed = asked.map_or_else(rand::random, |text| text.parse().expect("the seed is a number"));
    println!("{SEED_VARIABLE}={seed} repeats it");
    seed
}

/// The address of the run's etcd, started when the first test asks.
pub async fn etcd_url() -> String {
    static ETCD: OnceCell<EtcdServer> = OnceCell::const_new();
    ETCD.get_or_init(|| started(EtcdServer::start(EtcdOptions::temporary()))).await.url()
}

/// The TCP address of the run's Redis, which a proxy can stand in front of.
pub async fn redis_url() -> String {
    redis().await.tcp_url()
}

/// The run's Redis with TLS, for `SECKILL_TEST_REDIS=tls`, started when the first test asks.
pub async fn tls_redis() -> &'static RedisServer {
    static TLS: OnceCell<RedisServer> = OnceCell::const_new();
    let start = async || {
        let certificates = Some(Certificates::make(true).expect("random numbers"));
        let options = RedisOptions { certificates, ..RedisOptions::temporary() };
        started(RedisServer::start(options)).await
    };
    TLS.get_or_init(start).await
}

/// The run's Redis with Sentinels, started when the first test asks.
pub async fn sentinels() -> &'static RedisSentinels {
    static SENTINELS: OnceCell<RedisSentinels> = OnceCell::const_new();
    SENTINELS.get_or_init(|| started(RedisSentinels::start(None))).await
}

/// The run's Redis Cluster, started when the first test asks.
pub async fn cluster() -> &'static RedisCluster {
    static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
    let start = || started(RedisCluster::start(RedisClusterOptions::default()));
    CLUSTER.get_or_init(start).await
}

/// The address of a database on the run's replicated database servers, for `SECKILL_TEST_MYSQL`,
/// started when the first test asks.
pub async fn replicated_url(engine: Replication, database: &str) -> String {
    static SET: OnceCell<MysqlSet> = OnceCell::const_new();
    let start = async || {
        // Waits on a thread of its own: the start cannot move between threads.
        let start = move || RUNTIME.block_on(MysqlSet::start_temporary(engine));
        let started = RUNTIME.spawn_blocking(start).await;
        started.expect("no panic").expect("the private servers start")
    };
    SET.get_or_init(start).await.url_of(database)
}

/// The run's Vitess, started when the first test asks.
pub async fn vitess() -> &'static VitessServer {
    static VITESS: OnceCell<VitessServer> = OnceCell::const_new();
    VITESS.get_or_init(|| started(VitessServer::start_temporary())).await
}

/// The run's cluster of Vitess with the items in two shards, started when the first test asks. All shops share its
/// tables, which are emptied for each one, so tests run there one after the other.
pub async fn sharded_vitess() -> &'static SharedCluster {
    static CLUSTER: OnceCell<SharedCluster> = OnceCell::const_new();
    let start = async || {
        let start = || RUNTIME.block_on(SharedCluster::start());
        RUNTIME.spawn_blocking(start).await.expect("no panic")
    };
    CLUSTER.get_or_init(start).await
}

/// Whether the items of all shops are in shards.
pub fn has_shards() -> bool {
    std::env::var("SECKILL_TEST_MYSQL").is_ok_and(|engine| engine == "vitess-shards")
}

/// The address of the run's ZooKeeper, started when the first test asks.
pub async fn zookeeper_hosts() -> String {
    static ZOOKEEPER: OnceCell<ZookeeperServer> = OnceCell::const_new();
    let start = || started(ZookeeperServer::start(ZookeeperOptions::temporary()));
    ZOOKEEPER.get_or_init(start).await.hosts()
}

/// A link to the server of a URL, which a test can break.
pub async fn link_to(url: &str) -> FaultyLink {
    FaultyLink::to_url(url).await.expect("a link")
}

/// Serves these routes on a free port of this machine, until the task is dropped.
pub async fn serve_routes(routes: Router) -> (SocketAddr, AbortOnDropHandle<()>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let addr = listener.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        let _ = axum::serve(listener, routes).await;
    });
    (addr, AbortOnDropHandle::new(task))
}

/// Changes the shop's settings: new instances reach its ledger through the link.
pub async fn link_before(shop: &mut Shop) -> FaultyLink {
    let link = link_to_ledger(shop).await;
    shop.config.database_url = settings::Secret::new(link.url());
    link
}

/// A link to the ledger of a shop, which a test can break.
pub async fn link_to_ledger(shop: &Shop) -> FaultyLink {
    let options = shop.pool.connect_options();
    let database = options.get_database().expect("a name");
    if let Some((user, port)) = replicated_writer(shop) {
        return link_to(&format!("{user}@127.0.0.1:{port}/{database}")).await;
    }
    if std::env::var("SECKILL_TEST_MYSQL").is_ok_and(|engine| engine.starts_with("vitess")) {
        return link_to(shop.config.database_url.reveal()).await;
    }
    link_to(&mysql().await.tcp_url_of(database)).await
}

/// The account in a URL with several hosts, and the port of the first of them, which writes.
fn replicated_writer(shop: &Shop) -> Option<(&str, &str)> {
    let (user, hosts) = shop.config.database_url.reveal().rsplit_once('@')?;
    let (first, _) = hosts.split_once(',')?;
    Some((user, first.rsplit_once(':')?.1))
}

/// A deadline that no step of a test comes near.
pub fn in_a_minute() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

/// A name that no other test of this run has.
pub fn unique(word: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{word}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}
