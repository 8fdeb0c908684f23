//! What comparisons and experiments stand on: the program, the servers, and what is known of them.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use serde::Serialize;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{ConnectOptions, Connection};
use std::str::FromStr;
use tokio::process::Command;
use tokio::time::timeout;

use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::instance::Maker;
use crate::options::GroundOptions;
use crate::process;
use crate::tokens::Mint;

/// Writes by which the disk's flush is measured, and their size: a commit's log record is small.
const FLUSHES: usize = 100;
const FLUSH_BYTES: usize = 4_096;
/// Connecting to a database or Redis, or one answer of Redis.
pub const ANSWER_MAX: Duration = Duration::from_secs(10);
/// What durability hangs on, as MySQL and MariaDB name it.
const DURABILITY: [&str; 7] = [
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "innodb_doublewrite",
    "innodb_flush_method",
    "innodb_buffer_pool_size",
    "transaction_isolation",
];

/// The servers and the program.
pub struct Ground {
    pub environment: Environment,
    pub maker: Maker,
    pub program: PathBuf,
    pub out: PathBuf,
}

/// What the figures depend on.
#[derive(Debug, Clone, Serialize)]
pub struct Circumstances {
    pub started_at: String,
    pub version: String,
    pub cores: usize,
    pub processor: String,
    pub memory_mib: u64,
    pub kernel: String,
    /// Mean number of programs that wanted to run before the start, over 1 and 5 minutes.
    pub load_before: String,
    pub database: String,
    /// `@@name` and its value.
    pub durability: Vec<(String, String)>,
    pub redis: String,
    /// When Redis writes to the disk.
    pub redis_persistence: String,
    /// Time of one write and flush on the disk of the report, in microseconds.
    pub flush_us_p50: u64,
    pub flush_us_p99: u64,
    pub seed: u64,
}

impl Ground {
    /// Finds the program and the servers; makes the folder of the report.
    pub fn find(options: &GroundOptions, out: &Path) -> Result<Self, CannotJudge> {
        let environment = Environment::load();
        let program = Mint::new(options.seckill.clone(), &environment).into_program();
        fs::create_dir_all(out)
            .map_err(|error| CannotJudge(format!("cannot make {}: {error}", out.display())))?;
        let maker = Maker::new(program.clone(), &environment, &out.join("logs"))?;
        Ok(Self { environment, maker, program, out: out.to_owned() })
    }

    /// A connection to the ledger's database.
    pub async fn database(&self) -> Result<MySqlConnection, CannotJudge> {
        let url = self.environment.get("DATABASE_URL").unwrap_or_default();
        let options = MySqlConnectOptions::from_str(&url)
            .map_err(|_| CannotJudge("DATABASE_URL is not a mysql:// address".to_owned()))?
            .disable_statement_logging();
        timeout(ANSWER_MAX, options.connect())
            .await
            .map_err(|_| CannotJudge("the database does not answer".to_owned()))?
            .map_err(|error| CannotJudge(format!("the database cannot be reached: {error}")))
    }

    /// A connection to the gates' Redis.
    pub async fn redis(&self) -> Result<MultiplexedConnection, CannotJudge> {
        redis_at(&self.environment.get("REDIS_URL").unwrap_or_default()).await
    }

    /// Asks everybody about themselves.
    pub async fn circumstances(&self, seed: u64) -> Result<Circumstances, CannotJudge> {
        let (flush_us_p50, flush_us_p99) = flushes(&self.out)?;
        let (database, durability) = self.durability().await?;
        let (redis, redis_persistence) = self.persistence().await;
        let now = time::OffsetDateTime::now_utc();
        Ok(Circumstances {
            started_at: now
                .format(&time::format_description::well_known::Rfc3339)
                .unwrap_or_default(),
            version: version_of(&self.program).await,
            cores: process::cores(),
            processor: first_field("/proc/cpuinfo", "model name"),
            memory_mib: memory_mib(),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            load_before: read_line("/proc/loadavg")
                .split(' ')
                .take(2)
                .collect::<Vec<_>>()
                .join(" and "),
            database,
            durability,
            redis,
            redis_persistence,
            flush_us_p50,
            flush_us_p99,
            seed,
        })
    }

    async fn durability(&self) -> Result<(String, Vec<(String, String)>), CannotJudge> {
        let mut connection = self.database().await?;
        let version: String = sqlx::query_scalar("SELECT CAST(VERSION() AS CHAR)")
            .fetch_one(&mut connection)
            .await
            .map_err(|error| CannotJudge(format!("the database cannot be read: {error}")))?;
        let mut settings = Vec::new();
        for name in DURABILITY {
            // Not every server has every setting.
            let value: Result<String, _> =
                sqlx::query_scalar(&format!("SELECT CAST(@@GLOBAL.{name} AS CHAR)"))
                    .fetch_one(&mut connection)
                    .await;
            if let Ok(value) = value {
                settings.push((name.to_owned(), value));
            }
        }
        let _ = connection.close().await;
        Ok((version, settings))
    }

    async fn persistence(&self) -> (String, String) {
        let unknown = || "unknown".to_owned();
        let Ok(mut connection) = self.redis().await else { return (unknown(), unknown()) };
        let info: String =
            redis::cmd("INFO").arg("server").query_async(&mut connection).await.unwrap_or_default();
        let version = info
            .lines()
            .find_map(|line| line.strip_prefix("redis_version:"))
            .map_or_else(unknown, |version| version.trim().to_owned());
        let mut told = Vec::new();
        for name in ["appendonly", "appendfsync", "save"] {
            let pair: Vec<String> = redis::cmd("CONFIG")
                .arg("GET")
                .arg(name)
                .query_async(&mut connection)
                .await
                .unwrap_or_default();
            if let Some(value) = pair.get(1).filter(|value| !value.is_empty()) {
                told.push(format!("{name} {value}"));
            }
        }
        (version, if told.is_empty() { unknown() } else { told.join(", ") })
    }
}

/// A connection to some Redis. The address is not printed: it holds a password.
pub async fn redis_at(url: &str) -> Result<MultiplexedConnection, CannotJudge> {
    let client = redis::Client::open(url)
        .map_err(|_| CannotJudge("REDIS_URL is not an address of Redis".to_owned()))?;
    timeout(ANSWER_MAX, client.get_multiplexed_async_connection())
        .await
        .map_err(|_| CannotJudge("Redis does not answer".to_owned()))?
        .map_err(|error| CannotJudge(format!("Redis cannot be reached: {error}")))
}

/// Writes and flushes a file some times; gives the median and the 99th percentile in microseconds.
fn flushes(folder: &Path) -> Result<(u64, u64), CannotJudge> {
    let path = folder.join("flush.tmp");
    let failed = |error| CannotJudge(format!("cannot write in {}: {error}", folder.display()));
    let mut file = fs::File::create(&path).map_err(failed)?;
    let mut times_us = Vec::with_capacity(FLUSHES);
    for _ in 0..FLUSHES {
        let begin = Instant::now();
        file.write_all(&[0x5a; FLUSH_BYTES]).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        times_us.push(u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    fs::remove_file(&path).map_err(failed)?;
    times_us.sort_unstable();
    Ok((times_us[FLUSHES / 2], times_us[FLUSHES * 99 / 100]))
}

async fn version_of(program: &Path) -> String {
    let output = timeout(ANSWER_MAX, Command::new(program).arg("--version").output()).await;
    match output {
        Ok(Ok(output)) => String::from_utf8_lossy(&output.stdout).trim().to_owned(),
        _ => "unknown".to_owned(),
    }
}

fn read_line(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().lines().next().unwrap_or_default().to_owned()
}

fn first_field(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default();
    line.split_once(':').map_or("unknown", |(_, value)| value).trim().to_owned()
}

fn memory_mib() -> u64 {
    let kib: u64 = first_field("/proc/meminfo", "MemTotal")
        .split(' ')
        .next()
        .and_then(|number| number.parse().ok())
        .unwrap_or(0);
    kib / 1_024
}

impl Circumstances {
    /// Names and values, for every kind of report.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let durability: Vec<String> =
            self.durability.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        vec![
            ("started", self.started_at.clone()),
            ("program", self.version.clone()),
            (
                "machine",
                format!(
                    "{} cores of {}, {} MiB of memory, Linux {}",
                    self.cores, self.processor, self.memory_mib, self.kernel
                ),
            ),
            (
                "shared by",
                format!(
                    "generator, service, database and Redis, all on loopback; load average before the start: {} (1 and 5 minutes)",
                    self.load_before
                ),
            ),
            ("database", format!("{}; {}", self.database, durability.join(", "))),
            ("redis", format!("{}; {}", self.redis, self.redis_persistence)),
            (
                "disk",
                format!(
                    "a write of {FLUSH_BYTES} bytes with its flush takes {} µs (p50), {} µs (p99)",
                    self.flush_us_p50, self.flush_us_p99
                ),
            ),
            ("seed", self.seed.to_string()),
        ]
    }
}
