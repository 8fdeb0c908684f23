//! The private servers of this run, each started when a test first asks for it, and small helpers.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dev_servers::{
    Certificates, DATABASE, EtcdOptions, EtcdServer, MysqlOptions, MysqlServer, RedisCluster,
    RedisClusterOptions, RedisOptions, RedisSentinels, RedisServer, ZookeeperOptions,
    ZookeeperServer,
};
use faulty_link::FaultyLink;
use futures::future::join_all;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rustix::process::{Resource, getrlimit, setrlimit};
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Connection, Executor, MySqlConnection, MySqlPool};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::OnceCell;
use tokio::time::{Instant, sleep};

/// How many connections a test's pool may have.
const POOL_MAX: u32 = 16;

/// The servers live on a runtime of their own, since each test's runtime ends with the test. They
/// end with the process.
static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    // All tests share the open files of one process.
    let mut files = getrlimit(Resource::Nofile);
    files.current = files.maximum;
    setrlimit(Resource::Nofile, files).expect("a process may use its whole limit");
    let mut runtime = Builder::new_multi_thread();
    runtime.worker_threads(1).enable_all().build().expect("a runtime for the servers")
});

/// Starts a server on [`RUNTIME`].
async fn start<S: Send + 'static, E: std::fmt::Debug + Send + 'static>(
    starting: impl Future<Output = Result<S, E>> + Send + 'static,
) -> S {
    RUNTIME.spawn(starting).await.expect("no panic").expect("the private server starts")
}

/// The TCP address of the run's Redis, which a proxy can stand in front of; or of the shape that
/// `SECKILL_TEST_REDIS` names: `tls`, `sentinel`, `cluster`, or `scripts`, a Valkey 9 without its own compare-and-delete.
pub async fn redis_url() -> String {
    match std::env::var("SECKILL_TEST_REDIS").as_deref() {
        Ok("cluster") => cluster().await.url(),
        Ok("sentinel") => {
            static SENTINELS: OnceCell<RedisSentinels> = OnceCell::const_new();
            SENTINELS.get_or_init(|| start(RedisSentinels::start(None))).await.url()
        }
        Ok("tls") => {
            static TLS: OnceCell<RedisServer> = OnceCell::const_new();
            let options = RedisOptions {
                certificates: Some(CERTIFICATES.clone()),
                ..RedisOptions::temporary()
            };
            TLS.get_or_init(|| start(RedisServer::start(options))).await.tcp_url()
        }
        shape => {
            static REDIS: OnceCell<RedisServer> = OnceCell::const_new();
            let mut options = RedisOptions::temporary();
            if shape == Ok("scripts") {
                options.extra_lines.push("rename-command DELIFEQ \"\"".to_owned());
            }
            REDIS.get_or_init(|| start(RedisServer::start(options))).await.tcp_url()
        }
    }
}

static CERTIFICATES: LazyLock<Certificates> =
    LazyLock::new(|| Certificates::make(true).expect("random numbers"));

/// The certificates for a server with TLS.
pub fn certificates() -> redis_connection::Certificates {
    let Certificates { root, client, client_key, .. } = &*CERTIFICATES;
    let client = Some((client.clone().into_bytes(), client_key.clone().into_bytes()));
    redis_connection::Certificates { roots: Some(root.clone().into_bytes()), client }
}

/// The run's cluster, whose nodes nobody stops.
pub async fn cluster() -> &'static RedisCluster {
    static CLUSTER: OnceCell<RedisCluster> = OnceCell::const_new();
    CLUSTER.get_or_init(|| start(RedisCluster::start(RedisClusterOptions::default()))).await
}

/// A cluster of a test's own: three primaries, with or without replicas.
pub async fn own_cluster(replicas: usize) -> RedisCluster {
    let options = RedisClusterOptions { replicas, ..RedisClusterOptions::default() };
    start(RedisCluster::start(options)).await
}

/// A primary with Sentinels of a test's own.
pub async fn own_sentinels() -> RedisSentinels {
    start(RedisSentinels::start(None)).await
}

/// The address of the run's etcd.
pub async fn etcd_url() -> String {
    static ETCD: OnceCell<EtcdServer> = OnceCell::const_new();
    ETCD.get_or_init(|| start(EtcdServer::start(EtcdOptions::temporary()))).await.url()
}

/// The address of the run's ZooKeeper.
pub async fn zookeeper_hosts() -> String {
    static ZOOKEEPER: OnceCell<ZookeeperServer> = OnceCell::const_new();
    let starting = || start(ZookeeperServer::start(ZookeeperOptions::temporary()));
    ZOOKEEPER.get_or_init(starting).await.hosts()
}

/// Five Redis servers that know nothing of each other.
pub async fn independent_redis() -> &'static [RedisServer] {
    static FIVE: OnceCell<Vec<RedisServer>> = OnceCell::const_new();
    FIVE.get_or_init(|| own_redis(5, &[])).await
}

/// Redis servers of a test's own, with further lines for their configuration.
pub async fn own_redis(count: usize, extra_lines: &[&str]) -> Vec<RedisServer> {
    let started = (0..count).map(|_| {
        let mut options = RedisOptions::temporary();
        options.extra_lines = extra_lines.iter().map(|line| (*line).to_owned()).collect();
        start(RedisServer::start(options))
    });
    join_all(started).await
}

/// A link to the server of a URL, which a test can break. It counts the calls of scripts.
pub async fn link_to(url: &str) -> FaultyLink {
    let link = FaultyLink::to_url(url).await.expect("a link");
    link.count(b"EVALSHA");
    link
}

/// A database of one test, with the table of locks.
pub struct Database {
    pub url: String,
    pub pool: MySqlPool,
}

impl Database {
    pub async fn new() -> Self {
        static MYSQL: OnceCell<MysqlServer> = OnceCell::const_new();
        let mut options = MysqlOptions::temporary();
        // No test cuts the power.
        options.extra_arguments.push("--loose-debug-no-sync".to_owned());
        let server = MYSQL.get_or_init(|| start(MysqlServer::start(options)));
        // The server's account may make databases whose names begin so.
        let (server, name) = (server.await, unique(DATABASE));
        let mut connection = MySqlConnection::connect(&server.url()).await.expect("connected");
        connection.execute(&*format!("CREATE DATABASE {name}")).await.expect("CREATE DATABASE");
        let url = server.url_of(&name);
        let pool = MySqlPoolOptions::new().max_connections(POOL_MAX).connect(&url).await;
        let pool = pool.expect("connected");
        pool.execute(leaselock::mysql::SCHEMA).await.expect("CREATE TABLE");
        Self { url, pool }
    }
}

/// The random choices of a test, from `SECKILL_TEST_SEED` or a new seed. The seed is printed, so that
/// a failed test shows it.
pub fn random() -> StdRng {
    let asked = std::env::var("SECKILL_TEST_SEED").ok();
    let seed = asked.map_or_else(rand::random, |text| text.parse().expect("the seed is a number"));
    println!("SECKILL_TEST_SEED={seed} repeats it");
    StdRng::seed_from_u64(seed)
}

/// How often a test repeats what must come out the same every time: `SECKILL_TEST_ROUNDS`, else a
/// few times.
pub fn rounds(few: u32) -> u32 {
    let asked = std::env::var("SECKILL_TEST_ROUNDS").ok();
    asked.map_or(few, |text| text.parse().expect("SECKILL_TEST_ROUNDS is a number"))
}

/// A name that no other test of this run has.
pub fn unique(word: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{word}_{}_{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// How long a test waits for a state before it gives up.
const PATIENCE: Duration = Duration::from_secs(15);
/// How often it looks meanwhile.
const LOOK_PERIOD: Duration = Duration::from_millis(25);

/// Waits until `look` answers something; fails with `what` when it takes too long.
pub async fn eventually<T, F: Future<Output = Option<T>>>(what: &str, look: impl Fn() -> F) -> T {
    let until = Instant::now() + PATIENCE;
    loop {
        if let Some(seen) = look().await {
            return seen;
        }
        assert!(Instant::now() < until, "waited in vain for {what}");
        sleep(LOOK_PERIOD).await;
    }
}
