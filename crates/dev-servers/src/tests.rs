//! The promises of this module, on real servers.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{Connection, MySqlConnection};

use super::*;
use crate::home::LOG;
use crate::temporary::TemporaryDirectory;

/// Where the child of `a_killed_maker_takes_its_servers_along` keeps its data.
const CHILD_DIRECTORY: &str = "SECKILL_TEST_CHILD_DIRECTORY";

/// A database server and a Redis server.
struct Servers {
    mysql: MysqlServer,
    redis: RedisServer,
}

impl Servers {
    /// With the data in `data_dir/mysql` and `data_dir/redis`.
    async fn start(data_dir: &Path) -> Self {
        let mysql = MysqlServer::start(MysqlOptions::new(data_dir.join("mysql")));
        let redis = RedisServer::start(RedisOptions::new(data_dir.join("redis")));
        let (mysql, redis) = tokio::try_join!(mysql, redis).unwrap();
        Self { mysql, redis }
    }

    async fn start_temporary() -> Self {
        let mysql = MysqlServer::start(MysqlOptions::temporary());
        let redis = RedisServer::start(RedisOptions::temporary());
        let (mysql, redis) = tokio::try_join!(mysql, redis).unwrap();
        Self { mysql, redis }
    }

    async fn stop(&self) {
        tokio::join!(self.mysql.stop(), self.redis.stop());
    }
}

fn directory() -> TemporaryDirectory {
    TemporaryDirectory::make(Path::new(LOG)).unwrap()
}

async fn mysql_number(url: &str, sql: &str) -> i64 {
    let mut connection = MySqlConnection::connect(url).await.unwrap();
    sqlx::query_scalar(sql).fetch_one(&mut connection).await.unwrap()
}

async fn mysql_run(url: &str, sql: &str) {
    let mut connection = MySqlConnection::connect(url).await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
}

async fn redis_command(url: &str, words: &[&str]) -> ::redis::RedisResult<String> {
    let mut connection = ::redis::Client::open(url)?.get_multiplexed_async_connection().await?;
    let mut command = ::redis::cmd(words[0]);
    command.arg(&words[1..]);
    command.query_async(&mut connection).await
}

fn runs(pid: u32) -> bool {
    // A process that ended and was not reaped yet still has a directory, but no command line.
    std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|line| !line.is_empty())
}

async fn within(seconds: u64, what: &str, condition: impl Fn() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed().as_secs() < seconds, "not within {seconds} s: {what}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_second_start_finds_the_data_on_the_same_ports() {
    let home = directory();
    let servers = Servers::start(home.path()).await;
    for url in [servers.mysql.url(), servers.mysql.tcp_url()] {
        assert_eq!(mysql_number(&url, "SELECT 41 + 1").await, 42, "{url}");
    }
    mysql_run(
        &servers.mysql.url(),
        "CREATE TABLE kept (n BIGINT) ENGINE=InnoDB; INSERT INTO kept VALUES (7); \
         CREATE DATABASE seckill_other",
    )
    .await;
    for url in [servers.redis.url(), servers.redis.tcp_url()] {
        redis_command(&url, &["SET", "kept", "7"]).await.unwrap();
    }
    let ports = (servers.mysql.port(), servers.redis.port());
    servers.stop().await;
    assert!(!runs(servers.mysql.pid()) && !runs(servers.redis.pid()));
    drop(servers);

    let servers = Servers::start(home.path()).await;
    assert_eq!((servers.mysql.port(), servers.redis.port()), ports);
    assert_eq!(mysql_number(&servers.mysql.url(), "SELECT n FROM kept").await, 7);
    let other = servers.mysql.tcp_url_of("seckill_other");
    assert_eq!(mysql_number(&other, "SELECT 41 + 1").await, 42);
    let kept = redis_command(&servers.redis.url(), &["GET", "kept"]).await;
    assert_eq!(kept.unwrap(), "7");
    servers.stop().await;
}

#[tokio::test]
async fn nobody_logs_in_without_the_password() {
    let servers = Servers::start_temporary().await;
    for user in ["root", "seckill", "nobody"] {
        let url = format!("mysql://{user}@127.0.0.1:{}/", servers.mysql.port());
        let answer = MySqlConnection::connect(&url).await;
        assert!(matches!(answer, Err(sqlx::Error::Database(_))), "{user}: {answer:?}");
    }
    let url = format!("redis://127.0.0.1:{}", servers.redis.port());
    let error = redis_command(&url, &["GET", "x"]).await.unwrap_err();
    assert_eq!(error.code(), Some("NOAUTH"), "{error}");
    servers.stop().await;
}

#[tokio::test]
async fn a_server_can_be_frozen_and_killed() {
    let redis = RedisServer::start(RedisOptions::temporary()).await.unwrap();
    assert!(redis.pause());
    let url = redis.url();
    let frozen = redis_command(&url, &["GET", "x"]);
    assert!(tokio::time::timeout(Duration::from_millis(300), frozen).await.is_err());
    assert!(redis.resume());
    redis.kill().await;
    assert!(!runs(redis.pid()));
    assert!(!redis.pause(), "an ended server cannot be paused");
    let ended = redis.ended().await.to_string();
    assert!(ended.contains("ended (exit status: 137)"), "{ended}");

    let frozen = RedisServer::start(RedisOptions::temporary()).await.unwrap();
    assert!(frozen.pause());
    frozen.stop().await;
    assert!(!runs(frozen.pid()), "a frozen server can be stopped all the same");
}

#[tokio::test]
async fn a_killed_maker_takes_its_servers_along() {
    let home = directory();
    let mut maker = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::be_a_maker", "--ignored", "--nocapture"])
        .env(CHILD_DIRECTORY, home.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let pids: Vec<u32> = BufReader::new(maker.stdout.take().unwrap())
        .lines()
        .map_while(Result::ok)
        .find_map(|line| {
            let (_, numbers) = line.split_once("server pids ")?;
            Some(numbers.split(' ').map(|pid| pid.parse().unwrap()).collect())
        })
        .expect("the child starts its servers");
    assert!(pids.len() == 2 && pids.iter().all(|pid| runs(*pid)));
    maker.kill().unwrap();
    maker.wait().unwrap();
    within(60, "both servers end", || !pids.iter().any(|pid| runs(*pid))).await;
    // Also right after, when the old servers may still be on their way out.
    Servers::start(home.path()).await.stop().await;
}

#[tokio::test]
#[ignore = "the child of a_killed_maker_takes_its_servers_along"]
async fn be_a_maker() {
    let Some(home) = std::env::var_os(CHILD_DIRECTORY) else {
        return;
    };
    let servers = Servers::start(Path::new(&home)).await;
    println!("server pids {} {}", servers.mysql.pid(), servers.redis.pid());
    std::future::pending::<()>().await;
}

#[tokio::test]
async fn an_incomplete_directory_is_made_again_and_an_unknown_one_left_alone() {
    let home = directory();
    let data = home.path().join("data");
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("ibdata1"), "half").unwrap();
    let start = || MysqlServer::start(MysqlOptions::new(home.path()));

    let error = start().await.unwrap_err().to_string();
    assert!(error.contains("move it away or delete it"), "{error}");
    assert!(data.join("ibdata1").exists());

    std::fs::write(home.path().join("initialising"), "interrupted").unwrap();
    start().await.unwrap().stop().await;

    std::fs::write(home.path().join("ready"), "Oracle").unwrap();
    let error = start().await.unwrap_err().to_string();
    assert!(error.contains("was made by Oracle"), "{error}");
}

#[tokio::test]
async fn a_used_directory_is_named() {
    let home = directory();
    let first = RedisServer::start(RedisOptions::new(home.path())).await.unwrap();
    let error = RedisServer::start(RedisOptions::new(home.path())).await.unwrap_err().to_string();
    assert!(error.contains("another Redis is running on"), "{error}");
    assert!(runs(first.pid()));
    first.stop().await;
}

#[tokio::test]
async fn a_server_that_refuses_to_start_shows_its_log() {
    let mut options = RedisOptions::temporary();
    options.extra_lines.push("no-such-setting yes".into());
    let error = RedisServer::start(options).await.unwrap_err().to_string();
    assert!(error.contains("no-such-setting"), "{error}");

    let mut options = MysqlOptions::temporary();
    options.program = Some(PathBuf::from("/bin/true"));
    let error = MysqlServer::start(options).await.unwrap_err().to_string();
    assert!(error.contains("/bin/true is not a usable"), "{error}");
}

#[tokio::test]
async fn long_paths_with_blanks_work_and_temporary_ones_go() {
    let home = directory();
    let long = home.path().join("a \"blank\" and ümlaut").join("x".repeat(90));
    let servers = Servers::start(&long).await;
    assert_eq!(mysql_number(&servers.mysql.url(), "SELECT 41 + 1").await, 42);
    assert!(redis_command(&servers.redis.url(), &["SET", "a", "b"]).await.is_ok());
    servers.stop().await;
    drop(servers);

    let gone = home.path().to_path_buf();
    drop(home);
    within(60, "the directory goes", || !gone.exists()).await;
}
