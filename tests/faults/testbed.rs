//! The testbed of all trials: private servers, a database, and how a service is started on them.

use dev_servers::{
    EtcdOptions, EtcdServer, OPERATOR, RedisOptions, RedisServer, ZookeeperOptions, ZookeeperServer,
};
use ledger::schema;
use redis::aio::MultiplexedConnection;
use seckill::config::Config;
use settings::Secret;
use shop_domain::UserId;
use sqlx::ConnectOptions;
use sqlx::mysql::{MySqlConnectOptions, MySqlSslMode};
use web::token::Tokens;

use crate::events;
use crate::prelude::*;

/// Signs the tokens of this run; the servers are thrown away after it.
pub const SECRET: &str = "a secret for fault trials, of thirty-two characters and more";
/// Independent servers for Redlock.
const REDLOCK_SERVERS: usize = 3;
/// A side connection is made within this.
const CONNECT_MAX: Duration = Duration::from_secs(10);

/// The servers of the run; they end with the process.
pub struct Testbed {
    /// The ledger's.
    pub mysql: MysqlServer,
    /// The gates', with an append-only file as the service's own dev server has it.
    pub redis: RedisServer,
    pub zookeeper: ZookeeperServer,
    pub etcd: EtcdServer,
    redlock: Vec<RedisServer>,
    /// The ledger's address for the audit of this trial, if it is not on `mysql`.
    pub ledger_elsewhere: Option<String>,
    /// How long a trial sells at least.
    pub sells: Duration,
    /// Buyers in a long waiting list.
    pub waiters: i64,
    program: PathBuf,
    tokens: Tokens,
    password: String,
    folder: PathBuf,
    /// The files of service processes, for what they say.
    said: PathBuf,
    /// Where the services' log goes in the end: beside the report, if there is one.
    log: PathBuf,
}

impl Testbed {
    /// The database of the run.
    pub const DATABASE: &str = "seckill_faults";

    /// Starts the servers and makes the schema.
    pub async fn start(options: &Options) -> Run<Self> {
        let password = format!("{:032x}", rand::random::<u128>());
        let redlock = (0..REDLOCK_SERVERS).map(|_| RedisServer::start(RedisOptions::temporary()));
        let (mysql, redis, zookeeper, etcd, redlock) = tokio::try_join!(
            MysqlServer::start(MysqlOptions::temporary().with_operator(&password)),
            RedisServer::start(RedisOptions::temporary()),
            ZookeeperServer::start(ZookeeperOptions::temporary()),
            EtcdServer::start(EtcdOptions::temporary()),
            futures::future::try_join_all(redlock),
        )
        .said()?;
        Self::migrate(&mysql.url_of(Self::DATABASE)).await?;
        let folder = std::env::temp_dir().join(format!("seckill-faults-{}", std::process::id()));
        let said = folder.join("said");
        std::fs::create_dir_all(&said).said()?;
        let beside_report = options.out.as_ref().unwrap_or(&folder);
        std::fs::create_dir_all(beside_report).said()?;
        Ok(Self {
            said,
            log: beside_report.join("services.log"),
            mysql,
            redis,
            zookeeper,
            etcd,
            redlock,
            ledger_elsewhere: None,
            sells: options.sells,
            waiters: options.waiters,
            program: options.program.clone(),
            tokens: Tokens::new(&Secret::new(SECRET), &Secret::new("")),
            password,
            folder,
        })
    }

    /// Another database that can be the ledger's.
    pub async fn ledger(&self, options: MysqlOptions) -> Run<MysqlServer> {
        let server = MysqlServer::start(options.with_operator(&self.password)).await.said()?;
        Self::migrate(&server.url_of(Self::DATABASE)).await?;
        Ok(server)
    }

    /// Makes the schema.
    pub async fn migrate(url: &str) -> Run<()> {
        let mut config = Config::defaults();
        config.database_url = Secret::new(url);
        let pool = mysql_connection::pool(&config)?;
        schema::migrate(&config, &pool).await?;
        pool.close().await;
        Ok(())
    }

    /// How a service is started on all the servers.
    pub fn setup(&self) -> Setup {
        let redlock: Vec<String> = self.redlock.iter().map(RedisServer::url).collect();
        let variables = [
            ("DATABASE_URL", self.ledger_url()),
            ("REDIS_URL", self.redis.url()),
            ("SECKILL_SECRET", SECRET.to_owned()),
            ("SECKILL_REDIS_PREFIX", "faults:".to_owned()),
            ("SECKILL_MYSQL_POOL_MAX", "12".to_owned()),
            ("SECKILL_LOCK_ZOOKEEPER_HOSTS", self.zookeeper.hosts()),
            ("SECKILL_LOCK_ETCD_ENDPOINTS", self.etcd.url()),
            ("SECKILL_LOCK_REDLOCK_URLS", redlock.join(",")),
            // A trial is short; what waits for a lease or for an idle consumer should be too.
            ("SECKILL_LOCK_LEASE_MS", "2500".to_owned()),
            ("SECKILL_REDIS_COMMAND_TIMEOUT_MS", "500".to_owned()),
            ("SECKILL_QUEUE_CLAIM_IDLE_MS", "1000".to_owned()),
            ("SECKILL_QUEUE_POLL_MS", "100".to_owned()),
            ("SECKILL_JOB_RECONCILE_PERIOD_MS", "200".to_owned()),
            ("SECKILL_MYSQL_ACQUIRE_TIMEOUT_MS", "2000".to_owned()),
            ("SECKILL_PURCHASE_DEADLINE_MS", "4000".to_owned()),
            ("SECKILL_LOG_FILTER", "warn".to_owned()),
            ("SECKILL_DATA_DIR", "/nonexistent".to_owned()),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value));
        Setup {
            program: self.program.clone(),
            variables: variables.into(),
            files_max: None,
            said: self.said.clone(),
        }
    }

    /// How a service is started on a new ledger. Its items have the numbers of earlier ones, whose keys are in Redis.
    pub fn setup_of_new_ledger(&self) -> Setup {
        self.setup().with("SECKILL_REDIS_PREFIX", format!("faults-{:016x}:", rand::random::<u64>()))
    }

    /// The ledger's address, on the shortest way.
    pub fn ledger_url(&self) -> String {
        self.ledger_elsewhere.clone().unwrap_or_else(|| self.mysql.url_of(Self::DATABASE))
    }

    /// The ledger's address through a proxy on a port of this machine.
    pub fn ledger_url_by(&self, port: u16) -> String {
        let (here, there) = (format!(":{}/", self.mysql.port()), format!(":{port}/"));
        self.mysql.tcp_url_of(Self::DATABASE).replace(&here, &there)
    }

    /// The address of a Redis through a proxy on a port of this machine.
    pub fn redis_url_by(server: &RedisServer, port: u16) -> String {
        server.tcp_url().replace(&format!(":{}", server.port()), &format!(":{port}"))
    }

    /// A connection to the database with all privileges.
    pub async fn operator(&self) -> Run<MySqlConnection> {
        let options = MySqlConnectOptions::new()
            .host("127.0.0.1")
            .port(self.mysql.port())
            .username(OPERATOR)
            .password(&self.password)
            .database(Self::DATABASE)
            .ssl_mode(MySqlSslMode::Preferred)
            .disable_statement_logging();
        let connecting = MySqlConnection::connect_with(&options);
        let connected = timeout(CONNECT_MAX, connecting).await;
        let connected = connected.map_err(|_| "the database does not answer".to_owned())?;
        connected.map_err(|error| format!("an operator's connection: {error}"))
    }

    /// A token of a buyer, or of an operator.
    pub fn token(&self, user: i64, role: Role) -> String {
        let user = UserId::new(user).expect("a positive id");
        self.tokens.sign(user, role, OffsetDateTime::now_utc() + time::Duration::days(3))
    }

    /// A Redis of a trial's own, in a new folder whose path is known.
    pub async fn own_redis(&self, lines: &[&str]) -> Run<OwnRedis> {
        self.own_redis_by(&[], lines).await
    }

    /// Like [`own_redis`](Self::own_redis), started by a launcher program with its arguments.
    pub async fn own_redis_by(&self, launcher: &[&str], lines: &[&str]) -> Run<OwnRedis> {
        let folder = self.folder.join(format!("redis-{:016x}", rand::random::<u64>()));
        let mut options = RedisOptions::new(&folder);
        // All have one password: a client that comes after a failover knows it.
        options.password = Some(self.password.clone());
        options.extra_lines = lines.iter().map(|line| (*line).to_owned()).collect();
        options.launcher = launcher.iter().map(|word| (*word).to_owned()).collect();
        let server = RedisServer::start(options).await.said()?;
        Ok(OwnRedis { server, folder })
    }

    /// Adds to a trial that is over whether the events of its service processes are paths of their model.
    pub fn checked(&self, trial: TrialResult) -> TrialResult {
        let mut events = events::check(&self.said, &self.log)?;
        let mut trial = trial?;
        trial.broken.extend(events.unexplained.take());
        if trial.attempts > 0 && events.events == 0 {
            trial.broken.push("no service said anything of its batches".to_owned());
        }
        trial.events.add(&events);
        Ok(trial)
    }

    /// A folder that goes with the run.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Resumes or restarts servers that a failed trial has left broken.
    pub async fn repair(&mut self) -> Run<()> {
        self.ledger_elsewhere = None;
        if !self.mysql.resume() {
            self.mysql.restart().await.said()?;
        }
        if !self.redis.resume() {
            self.redis.restart().await.said()?;
        }
        if !self.zookeeper.resume() {
            self.zookeeper.restart().await.said()?;
        }
        if !self.etcd.resume() {
            self.etcd.restart().await.said()?;
        }
        Ok(())
    }

    /// Stops everything.
    pub async fn close(self) {
        tokio::join!(
            self.mysql.stop(),
            self.redis.stop(),
            self.zookeeper.stop(),
            self.etcd.stop(),
            join_all(self.redlock.iter().map(RedisServer::stop)),
        );
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A Redis of one trial.
pub struct OwnRedis {
    pub server: RedisServer,
    /// Its folder; its data are below `data`.
    pub folder: PathBuf,
}

/// A connection to a Redis.
pub async fn redis_at(server: &RedisServer) -> Run<MultiplexedConnection> {
    let client = redis::Client::open(server.url()).said()?;
    client.get_multiplexed_async_connection().await.map_err(|error| format!("redis: {error}"))
}

/// Waits until `look` answers something; says `what` when it takes too long.
pub async fn until<T, F: Future<Output = Option<T>>>(
    what: &str,
    bound: Duration,
    look: impl Fn() -> F,
) -> Run<T> {
    let end = tokio::time::Instant::now() + bound;
    loop {
        if let Some(seen) = look().await {
            return Ok(seen);
        }
        if tokio::time::Instant::now() >= end {
            return Err(format!("waited {} s in vain for {what}", bound.as_secs()));
        }
        sleep(Duration::from_millis(10)).await;
    }
}
