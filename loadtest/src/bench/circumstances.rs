//! What the figures depend on: the machine, the versions, the durability settings, the disk.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::time::Instant;

use hdrhistogram::Histogram;
use serde::Serialize;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{ConnectOptions, Connection, Row};
use std::str::FromStr;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::BenchOptions;
use crate::environment::Environment;
use crate::failure::CannotJudge;
use crate::process;

/// Writes of 4 KiB that measure the disk.
const SYNCS: u32 = 300;

/// What the figures depend on.
#[derive(Debug, Clone, Serialize)]
pub struct Circumstances {
    pub started_at: String,
    pub version: &'static str,
    pub rounds: u32,
    pub seconds: f64,
    pub cores: usize,
    pub processor: String,
    pub kernel: String,
    pub database: String,
    /// Settings that decide what a commit costs.
    pub durability: Vec<(String, String)>,
    pub redis: String,
    /// 4 KiB written and synced, in microseconds, on the disk of the report.
    pub fsync_p50_us: f64,
    pub fsync_p99_us: f64,
}

impl Circumstances {
    /// Looks around.
    pub async fn gather(
        environment: &Environment,
        options: &BenchOptions,
    ) -> Result<Self, CannotJudge> {
        let (database, durability) = database(environment).await?;
        let (fsync_p50_us, fsync_p99_us) = measure_sync(&options.out)?;
        Ok(Self {
            started_at: OffsetDateTime::now_utc().format(&Rfc3339).unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            rounds: options.rounds,
            seconds: options.seconds,
            cores: process::cores(),
            processor: line_of("/proc/cpuinfo", "model name"),
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease")
                .unwrap_or_default()
                .trim()
                .to_owned(),
            database,
            durability,
            redis: redis(environment).await?,
            fsync_p50_us,
            fsync_p99_us,
        })
    }
}

async fn database(
    environment: &Environment,
) -> Result<(String, Vec<(String, String)>), CannotJudge> {
    let url = environment.get("DATABASE_URL").unwrap_or_default();
    let unreadable = |error: sqlx::Error| CannotJudge(format!("the database's settings: {error}"));
    let options = MySqlConnectOptions::from_str(&url)
        .map_err(|_| CannotJudge("DATABASE_URL is not a mysql:// address".to_owned()))?;
    let mut connection: MySqlConnection =
        options.disable_statement_logging().connect().await.map_err(unreadable)?;
    let version: String = sqlx::query_scalar("SELECT CAST(VERSION() AS CHAR)")
        .fetch_one(&mut connection)
        .await
        .map_err(unreadable)?;
    let rows = sqlx::query(
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('innodb_flush_log_at_trx_commit', \
         'sync_binlog', 'log_bin', 'innodb_doublewrite', 'innodb_flush_method', \
         'innodb_buffer_pool_size')",
    )
    .fetch_all(&mut connection)
    .await
    .map_err(unreadable)?;
    // Only closing is left.
    let _ = connection.close().await;
    Ok((version, rows.iter().map(|row| (row.get(0), row.get(1))).collect()))
}

async fn redis(environment: &Environment) -> Result<String, CannotJudge> {
    let unreadable = |error: redis::RedisError| CannotJudge(format!("Redis's settings: {error}"));
    let url = environment.get("REDIS_URL").unwrap_or_default();
    let client = redis::Client::open(url).map_err(unreadable)?;
    let mut connection = client.get_multiplexed_async_connection().await.map_err(unreadable)?;
    let server: String =
        redis::cmd("INFO").arg("server").query_async(&mut connection).await.map_err(unreadable)?;
    let version =
        server.lines().find_map(|line| line.strip_prefix("redis_version:")).unwrap_or("?");
    let settings: Vec<String> = redis::cmd("CONFIG")
        .arg("GET")
        .arg("append*")
        .query_async(&mut connection)
        .await
        .unwrap_or_default();
    let sync =
        settings.chunks(2).find(|pair| pair[0] == "appendfsync").map_or("?", |pair| &*pair[1]);
    Ok(format!("{} (appendfsync {sync})", version.trim()))
}

/// Median and p99 of writing and syncing 4 KiB.
fn measure_sync(folder: &Path) -> Result<(f64, f64), CannotJudge> {
    let failed = |error: std::io::Error| CannotJudge(format!("{}: {error}", folder.display()));
    fs::create_dir_all(folder).map_err(failed)?;
    let path = folder.join("sync-probe");
    let mut file = OpenOptions::new().create(true).append(true).open(&path).map_err(failed)?;
    let mut spans = Histogram::<u64>::new(3).expect("three digits are allowed");
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&[7; 4_096]).and_then(|()| file.sync_data()).map_err(failed)?;
        spans.saturating_record(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    fs::remove_file(&path).map_err(failed)?;
    Ok((spans.value_at_quantile(0.5) as f64, spans.value_at_quantile(0.99) as f64))
}

fn line_of(path: &str, name: &str) -> String {
    let text = fs::read_to_string(path).unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with(name));
    line.and_then(|line| line.split_once(':'))
        .map_or_else(String::new, |(_, value)| value.trim().to_owned())
}
