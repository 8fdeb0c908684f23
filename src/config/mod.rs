//! Every setting: [`Config`] mirrors `defaults.toml`, which documents each key.
//!
//! Defaults are compiled in, an optional TOML file overrides them, environment variables override
//! both. Settings that contradict each other refuse to start (`check.rs`).

mod check;
mod environment;
mod load;
mod runtime_count;

use std::path::PathBuf;
use std::time::Duration;

use gates::redis_store::RedisOptions;
use ledger::schema::SchemaOptions;
use mysql_connection::PoolOptions;
use serde::Deserialize;
use settings::{Secret, Sections, sections};
use shop_domain::item::word_enum;
use shop_traces::TraceOptions;
use web::listen_address::{ListenAddress, SocketMode};

pub use check::SECRET_LENGTH_MIN;
pub use environment::{DEFAULTS, process_variables};
pub use runtime_count::RuntimeCount;

/// Time of a transaction beside its wait for a row, and of its answer on the way to the buyer.
const ANSWER_MARGIN: Duration = Duration::from_millis(500);
/// A gate may wait at least for the deadline of a purchase divided by this.
const GATE_SHARE_MIN: u32 = 4;

/// All settings; sections and keys as in `defaults.toml`.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    pub secret: Secret,
    pub secret_previous: Secret,
    pub database_url: Secret,
    pub redis_url: Secret,
    pub accept_risks: String,
    pub http: Http,
    pub limits: Limits,
    pub mysql: Mysql,
    pub redis: Redis,
    pub session: Session,
    pub purchase: Purchase,
    pub waiting_room: WaitingRoom,
    pub waiting_list: WaitingList,
    pub lock: Lock,
    pub queue: Queue,
    pub job: Job,
    pub live: Live,
    #[serde(default)]
    pub events: OutboxSwitch,
    #[serde(default)]
    pub payment: ShopCurrency,
    pub lifecycle: Lifecycle,
    pub data: Data,
    pub log: Log,
    pub traces: TraceOptions,
    /// All sections, of which each extension reads its own.
    #[serde(skip)]
    pub sections: Sections,
    /// Whether demo accounts may sign in. No file or variable sets it: only `seckill dev` does.
    #[serde(skip)]
    pub demo_accounts: bool,
}

/// What the core reads of the section of the extension `events`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct OutboxSwitch {
    /// Whether each change of an order is written as an event.
    pub enabled: bool,
}

/// What the core reads of the section of the extension `payment`.
#[derive(Clone, Debug, Deserialize)]
#[serde(default)]
pub struct ShopCurrency {
    /// The currency of items that name none.
    pub currency: String,
}

/// That of a shop without the extension.
impl Default for ShopCurrency {
    fn default() -> Self {
        Self { currency: "USD".to_owned() }
    }
}

word_enum! {
    /// A risk with which `serve` refuses to start unless the operator accepts it, by its name in `accept_risks`.
    Risk {
        /// The secret that signs tokens is published.
        SampleSecret = "sample-secret",
        /// A server on another machine has no password.
        EmptyPassword = "empty-password",
        /// MySQL may forget what it has committed.
        VolatileDatabase = "volatile-database",
        /// A database host that takes over may lack committed orders.
        LossyFailover = "lossy-failover",
        /// Redis may forget any key when its memory is full.
        EvictingRedis = "evicting-redis",
    }
}

sections! {
    Http {
        addr: ListenAddress,
        socket_mode: SocketMode,
        connections_max: usize,
        runtimes: RuntimeCount,
        head_timeout_ms: u64,
        body_timeout_ms: u64,
        write_timeout_ms: u64,
        body_bytes_max: usize,
        static_dir: PathBuf,
        cookie_secure: bool,
        trusted_proxies: String,
        hosts: String,
        cors_origins: String,
    }
    Limits {
        user_per_second: u32,
        user_burst: u32,
        address_per_second: u32,
        address_burst: u32,
        address_connections_max: usize,
        user_streams_max: usize,
        address_streams_max: usize,
        loopback_exempt: bool,
    }
    Mysql {
        pool_max: u32,
        batch_connections_max: u32,
        shared_queues: u32,
        order_routine: bool,
        acquire_timeout_ms: u64,
        lock_wait_timeout_seconds: u32,
    }
    Redis {
        prefix: String,
        command_timeout_ms: u64,
        retry_ms_max: u64,
        root_file: PathBuf,
        client_file: PathBuf,
        client_key_file: PathBuf,
    }
    Session {
        token_hours: u32,
        revocation_period_ms: u64,
        hashing_max: usize,
        own_accounts: bool,
    }
    Purchase {
        in_flight_max: usize,
        item_in_flight_percent: u8,
        wait_ms_max: u64,
        deadline_ms: u64,
        item_age_ms_max: u64,
        sold_out_ms: u64,
    }
    WaitingRoom {
        per_second: u32,
        inside_max: u32,
        ticket_seconds: u32,
        silent_seconds: u32,
        line_max: u64,
        proof_bits_max: u8,
    }
    WaitingList {
        line_max: u64,
        sweep_ms: u64,
    }
    Lock {
        lease_ms: u64,
        zookeeper_hosts: String,
        redlock_urls: Secret,
        etcd_endpoints: String,
    }
    Queue {
        backlog_max: usize,
        poll_ms: u64,
        claim_idle_ms: u64,
        deliveries_max: u64,
        replicas_min: u32,
        replicas_wait_ms_max: u64,
    }
    Job {
        expire_period_ms: u64,
        expire_batch_max: u32,
        reconcile_period_ms: u64,
        audit_period_ms: u64,
    }
    Live {
        poll_ms: u64,
        streams_max: usize,
        streams_kept_percent: usize,
    }
    Lifecycle {
        drain_ms: u64,
        start_wait_ms: u64,
    }
    Data {
        dir: PathBuf,
    }
    Log {
        filter: String,
        format: String,
    }
}

impl Config {
    /// The defaults without a file or the environment, for tests.
    ///
    /// # Panics
    /// Never: a unit test reads the same text.
    pub fn defaults() -> Self {
        let table = toml::from_str(&DEFAULTS).expect("the defaults are TOML");
        Self::of_table(table).expect("the defaults fit")
    }

    /// Returns whether the operator accepts a risk.
    pub fn accepts(&self, risk: Risk) -> bool {
        self.accepted_risks().any(|name| name == risk.as_str())
    }

    /// The names in `accept_risks`.
    fn accepted_risks(&self) -> impl Iterator<Item = &str> {
        self.accept_risks.split(',').map(str::trim).filter(|name| !name.is_empty())
    }

    /// How long a buyer waits for an answer.
    pub fn purchase_deadline(&self) -> Duration {
        Duration::from_millis(self.purchase.deadline_ms)
    }

    /// The longest wait of a gate, and the time within which a transaction may begin: it can then
    /// wait for a row and still end before the deadline, so that the buyer gets its result.
    pub fn gate_wait(&self) -> Duration {
        let deadline = self.purchase_deadline();
        deadline.saturating_sub(self.transaction_margin()).max(deadline / GATE_SHARE_MIN)
    }

    /// The time of a transaction whose wait for a row times out.
    fn transaction_margin(&self) -> Duration {
        Duration::from_secs(self.mysql.lock_wait_timeout_seconds.into()) + ANSWER_MARGIN
    }
}

impl From<&Config> for PoolOptions {
    fn from(config: &Config) -> Self {
        Self {
            url: config.database_url.reveal().to_owned(),
            connections_max: config.mysql.pool_max,
            lock_wait_timeout_seconds: config.mysql.lock_wait_timeout_seconds,
            one_shard: false,
            acquire_timeout_ms: config.mysql.acquire_timeout_ms,
        }
    }
}

impl From<&Config> for SchemaOptions {
    fn from(config: &Config) -> Self {
        Self {
            url: config.database_url.reveal().to_owned(),
            order_routine: config.mysql.order_routine,
        }
    }
}

impl From<&Config> for RedisOptions {
    fn from(config: &Config) -> Self {
        Self {
            url: config.redis_url.reveal().to_owned(),
            prefix: config.redis.prefix.clone(),
            command_timeout_ms: config.redis.command_timeout_ms,
            retry_ms_max: config.redis.retry_ms_max,
            root_file: config.redis.root_file.clone(),
            client_file: config.redis.client_file.clone(),
            client_key_file: config.redis.client_key_file.clone(),
        }
    }
}
