//! What figures depend on: the machine, the versions, the settings of durability, the disk.
//!
//! Every report carries them, because a figure without them cannot be compared with another one.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use redis::InfoDict;
use serde::Serialize;
use sqlx::Connection;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;
use tokio::process::Command;
use tokio::time::timeout;

use crate::environment::Environment;
use crate::failure::{CannotJudge, OrCannotJudge};
use crate::process;
use crate::report::summary::Latency;
use crate::servers::{self, ANSWER_MAX, database};

/// Writes by which the disk's flush is measured.
const FLUSHES: usize = 300;
/// Bytes of each of them: a commit's log record is small.
const FLUSH_BYTES: usize = 4_096;
/// The settings of MySQL and MariaDB that decide what a commit costs.
const DURABILITY: [&str; 7] = [
    "innodb_flush_log_at_trx_commit",
    "sync_binlog",
    "log_bin",
    "innodb_doublewrite",
    "innodb_flush_method",
    "innodb_buffer_pool_size",
    "transaction_isolation",
];

/// What every figure of one run depends on.
#[derive(Debug, Clone, Serialize)]
pub struct Circumstances {
    /// The machine, before the first load.
    #[serde(flatten)]
    pub machine: Machine,
    /// What the `seckill` program says of its version.
    pub version: String,
    /// Version of the database server.
    pub database: String,
    /// Settings of durability: name and value.
    pub durability: Vec<(String, String)>,
    /// Version of Redis.
    pub redis: String,
    /// When Redis writes to the disk.
    pub redis_persistence: String,
    /// Median time of one write and flush on the disk of the report, in microseconds.
    pub flush_us_p50: u64,
    /// The 99th percentile of that time, in microseconds.
    pub flush_us_p99: u64,
    /// Repeats the run; `None` when each load draws a seed of its own.
    pub seed: Option<u64>,
}

/// The machine, as it is before the first load.
#[derive(Debug, Clone, Serialize)]
pub struct Machine {
    /// UTC, RFC 3339.
    pub started_at: String,
    /// Cores that this process may use.
    pub cores: usize,
    /// The processor's model.
    pub processor: String,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// Version of the Linux kernel.
    pub kernel: String,
    /// Load average over 1 and 5 minutes.
    pub load_before: String,
}

impl Circumstances {
    /// Asks the machine, the program and both servers, and measures the disk of the folder `out`.
    pub async fn gather(
        environment: &Environment,
        program: &Path,
        out: &Path,
        seed: Option<u64>,
    ) -> Result<Self, CannotJudge> {
        let machine = Machine::gather();
        let flush = measure_flush(out)?;
        let (database, durability) = durability(environment).await?;
        let (redis, redis_persistence) = persistence(environment).await;
        let version = version_of(program).await;
        Ok(Self {
            machine,
            version,
            database,
            durability,
            redis,
            redis_persistence,
            flush_us_p50: flush.p50_us,
            flush_us_p99: flush.p99_us,
            seed,
        })
    }

    /// Names and values, for every kind of report.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let durability: Vec<String> =
            self.durability.iter().map(|(name, value)| format!("{name} = {value}")).collect();
        let mut rows = vec![
            ("started", self.machine.started_at.clone()),
            ("program", self.version.clone()),
            ("machine", self.machine.to_string()),
            (
                "shared by",
                format!(
                    "generator, service, database and Redis, all on loopback; load average before the start: {} (1 and 5 minutes)",
                    self.machine.load_before
                ),
            ),
            ("database", format!("{}; {}", self.database, durability.join(", "))),
            ("redis", format!("{}; {}", self.redis, self.redis_persistence)),
            (
                "disk",
                format!(
                    "writing and flushing {FLUSH_BYTES} bytes takes {} µs (p50), {} µs (p99)",
                    self.flush_us_p50, self.flush_us_p99
                ),
            ),
        ];
        rows.extend(self.seed.map(|seed| ("seed", seed.to_string())));
        rows
    }
}

impl Machine {
    /// Reads what the kernel says.
    pub fn gather() -> Self {
        let load_average = read_line("/proc/loadavg");
        Self {
            started_at: OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
            cores: process::cores(),
            processor: first_field("/proc/cpuinfo", "model name"),
            memory_mib: memory_mib(),
            kernel: read_line("/proc/sys/kernel/osrelease"),
            load_before: load_average.split(' ').take(2).collect::<Vec<_>>().join(" and "),
        }
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { cores, processor, memory_mib, kernel, .. } = self;
        write!(
            formatter,
            "{cores} cores of {processor}, {memory_mib} MiB of memory, Linux {kernel}"
        )
    }
}

async fn durability(
    environment: &Environment,
) -> Result<(String, Vec<(String, String)>), CannotJudge> {
    let mut connection = database(environment).await?;
    let version: String = sqlx::query_scalar("SELECT CAST(VERSION() AS CHAR)")
        .fetch_one(&mut connection)
        .await
        .or_cannot_judge("the database cannot be read")?;
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
    // Everything was read: a failure to close changes nothing.
    let _ = connection.close().await;
    Ok((version, settings))
}

async fn persistence(environment: &Environment) -> (String, String) {
    let unknown = || "unknown".to_owned();
    let Ok(mut connection) = servers::redis(environment).await else {
        return (unknown(), unknown());
    };
    let info = redis::cmd("INFO").arg("server").query_async::<InfoDict>(&mut connection).await;
    let version = info.ok().and_then(|info| info.get("redis_version")).unwrap_or_else(unknown);
    let mut settings = Vec::new();
    for name in ["appendonly", "appendfsync", "save"] {
        let pair: Vec<String> = redis::cmd("CONFIG")
            .arg("GET")
            .arg(name)
            .query_async(&mut connection)
            .await
            .unwrap_or_default();
        if let Some(value) = pair.get(1).filter(|value| !value.is_empty()) {
            settings.push(format!("{name} {value}"));
        }
    }
    (version, if settings.is_empty() { unknown() } else { settings.join(", ") })
}

/// How long it takes to write and flush a small block in a folder.
///
/// # Errors
/// The folder cannot be written.
pub fn measure_flush(folder: &Path) -> Result<Latency, CannotJudge> {
    let measured = || -> std::io::Result<Latency> {
        fs::create_dir_all(folder)?;
        let path = folder.join("flush.tmp");
        let mut file = File::create(&path)?;
        let mut times_us = Vec::with_capacity(FLUSHES);
        for _ in 0..FLUSHES {
            let begin = Instant::now();
            file.write_all(&[0x5a; FLUSH_BYTES])?;
            file.sync_data()?;
            times_us.push(u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX));
        }
        fs::remove_file(&path)?;
        Ok(Latency::of_all(&times_us))
    };
    measured().or_cannot_judge(format_args!("cannot write in {}", folder.display()))
}

/// What a program says of its version.
pub async fn version_of(program: &Path) -> String {
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
    let kib = first_field("/proc/meminfo", "MemTotal");
    kib.split(' ').next().and_then(|number| number.parse::<u64>().ok()).unwrap_or(0) / 1_024
}
