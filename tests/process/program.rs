//! The program as a process: started wrongly, run as a command, and judged by the load test. Rows of the fault matrix
//! kill and stop it.

use std::ffi::OsStr;
use std::process::{Output, Stdio};

use tokio::process::{Child, Command};

use crate::support::DRAW_KEY;
use crate::support::prelude::*;

/// How long a buyer keeps pressing: far longer than a dead instance keeps its locks.
const PRESS_MAX: Duration = Duration::from_secs(30);
const STOP_MAX: Duration = Duration::from_secs(20);

pub const PROGRAM: &str = env!("CARGO_BIN_EXE_seckill");

/// The program, or the one that `SECKILL_TEST_PROGRAM` names, with the settings of a shop and nothing of
/// this terminal's.
pub fn program(shop: &Shop, arguments: &[&str]) -> Command {
    let other = std::env::var("SECKILL_TEST_PROGRAM");
    let mut command = Command::new(other.as_deref().unwrap_or(PROGRAM));
    command
        .args(arguments)
        .env_clear()
        .env("DATABASE_URL", shop.config.database_url.reveal())
        .env("REDIS_URL", shop.config.redis_url.reveal())
        .env("SECKILL_REDIS_PREFIX", &shop.config.redis.prefix)
        .env("SECKILL_SECRET", shop.config.secret.reveal())
        .env("SECKILL_DRAW_SIGNING_KEY", DRAW_KEY)
        .env("SECKILL_QUEUE_POLL_MS", shop.config.queue.poll_ms.to_string())
        .env("SECKILL_QUEUE_CLAIM_IDLE_MS", shop.config.queue.claim_idle_ms.to_string())
        .env("SECKILL_LOG_FILTER", "warn")
        .env("SECKILL_DATA_DIR", "/nonexistent")
        // Not the default: a shop of `make run` may listen there.
        .env("SECKILL_HTTP_ADDR", "127.0.0.1:0")
        .current_dir(std::env::temp_dir())
        .stdin(Stdio::null())
        .kill_on_drop(true);
    // `scripts/test-mysql-engines` accepts there what Galera may lose.
    if let Ok(risks) = std::env::var("SECKILL_ACCEPT_RISKS") {
        command.env("SECKILL_ACCEPT_RISKS", risks);
    }
    command
}

/// A program of the machine, with the settings of [`program`].
pub fn beside(shop: &Shop, other: impl AsRef<OsStr>) -> Command {
    let ours = program(shop, &[]);
    let settings = ours.as_std().get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut command = Command::new(other);
    command.env_clear().envs(settings).envs(std::env::var_os("PATH").map(|path| ("PATH", path)));
    command.stdin(Stdio::null()).kill_on_drop(true);
    command
}

pub async fn run(shop: &Shop, arguments: &[&str]) -> (i32, String) {
    told(&program(shop, arguments).output().await.expect("the program runs"))
}

/// Runs the program, which must end with this code and these words, and returns all that it says.
pub async fn run_says(shop: &Shop, arguments: &[&str], (expected, words): (i32, &str)) -> String {
    let (code, text) = run(shop, arguments).await;
    assert_eq!((code, text.contains(words)), (expected, true), "{arguments:?}: {text}");
    text
}

pub fn told(output: &Output) -> (i32, String) {
    let text = [&output.stdout[..], &output.stderr[..]].concat();
    (output.status.code().unwrap_or(-1), String::from_utf8_lossy(&text).into_owned())
}

/// A free address of the loopback.
pub fn free_addr() -> String {
    format!("127.0.0.1:{}", dev_servers::free_port().expect("a port"))
}

/// Serves in a process of its own, with further settings; returns when it answers.
pub async fn serve(shop: &Shop, addr: &str, settings: &[(&str, &str)]) -> Child {
    let mut serve = program(shop, &["serve"]);
    serve.env("SECKILL_HTTP_ADDR", addr).envs(settings.iter().copied());
    let child = serve.spawn().expect("started");
    Client::new(addr.parse().expect("an address"), None).until_answered().await;
    child
}

/// A process that serves, and whose log is read at its end.
pub struct LoggedService {
    pub stranger: Client,
    process: u32,
    output: tokio::task::JoinHandle<std::io::Result<Output>>,
}

impl LoggedService {
    /// Serves with these settings at a free address; returns when it answers.
    pub async fn start(serve: &mut Command) -> Self {
        let addr = free_addr();
        serve.env("SECKILL_HTTP_ADDR", &addr).stderr(Stdio::piped());
        let child = serve.spawn().expect("started");
        let process = child.id().expect("running");
        let output = tokio::spawn(child.wait_with_output());
        let stranger = Client::new(addr.parse().expect("an address"), None);
        stranger.until_answered().await;
        Self { stranger, process, output }
    }

    /// Stops it; returns its log.
    pub async fn stop(self) -> String {
        signal(self.process, "TERM").await;
        let output = self.output.await.expect("no panic").expect("ended");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

/// The library that gives a process a wrong clock.
pub fn faketime() -> PathBuf {
    dev_servers::libfaketime().expect("libfaketime: scripts/install-packages lab installs it")
}

/// One press of a buyer, tried again with the same key until it is answered for good.
pub async fn press(client: Client, path: String, key: String) -> (Option<String>, u16) {
    let mut first = None;
    let until = tokio::time::Instant::now() + PRESS_MAX;
    while tokio::time::Instant::now() < until {
        let request = client.request(Method::POST, &path).header("idempotency-key", &key);
        let Ok(response) = request.send().await else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let status = response.status().as_u16();
        let body: Value = response.json().await.unwrap_or_default();
        if status == 201 || status == 202 {
            let id = body["id"].as_str().expect("an id").to_owned();
            // What was once accepted stays that very order.
            assert_eq!(*first.get_or_insert_with(|| id.clone()), id);
            return (Some(id), status);
        }
        if body["retryable"] != true {
            return (None, status);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    (None, 0)
}

/// Stops a process of ours, within a limit and with a clean end.
pub async fn stop(mut child: Child) {
    signal(child.id().expect("running"), "TERM").await;
    let ended = tokio::time::timeout(STOP_MAX, child.wait()).await.expect("it stops in time");
    assert_eq!(ended.expect("ended").code(), Some(0), "a clean stop");
}

/// Sends a signal to a process of ours.
pub async fn signal(pid: u32, name: &str) {
    // The shell's own kill: a bare machine has no program of that name.
    let sent = Command::new("sh").args(["-c", &format!("kill -{name} {pid}")]).status();
    assert!(sent.await.expect("a shell runs").success());
}

#[tokio::test]
async fn a_wrong_start_is_explained_in_a_sentence() {
    let shop = Shop::new().await;
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let addr = taken.local_addr().expect("an address").to_string();
    let sample = ["demo-only"; 4].join("-");
    let cases = [
        ("SECKILL_SECRET", "", "SECKILL_SECRET is not set"),
        ("SECKILL_SECRET", "short", "at least 32"),
        ("SECKILL_SECRET", sample.as_str(), "SECKILL_ACCEPT_RISKS=sample-secret"),
        ("DATABASE_URL", "mysql://root@db.example/seckill", "SECKILL_ACCEPT_RISKS=empty-password"),
        ("REDIS_URL", "redis://cache.example:6379", "SECKILL_ACCEPT_RISKS=empty-password"),
        ("SECKILL_ACCEPT_RISKS", "everything", "accept_risks takes sample-secret"),
        ("SECKILL_HTTP_TRUSTED_PROXIES", "the proxy", "http.trusted_proxies"),
        ("DATABASE_URL", "", "DATABASE_URL is not set"),
        ("DATABASE_URL", "mysql://root@localhost", "names no database"),
        ("DATABASE_URL", "postgres://u:p@db/seckill", "DATABASE_URL begins with postgres://"),
        ("REDIS_URL", "http://cache.example", "REDIS_URL cannot be read"),
        ("REDIS_URL", "nonsense", "REDIS_URL cannot be read"),
        ("SECKILL_HTTP_ADDR", addr.as_str(), "another program listens on"),
        ("SECKILL_HTTP_ADR", "x", "SECKILL_HTTP_ADR is set, but there is no such setting"),
        ("SECKILL_LOCK_LEASE_MS", "100", "lock.lease_ms"),
        ("SECKILL_MYSQL_POOL_MAX", "many", "whole number"),
    ];
    let starts = cases.map(async |(name, value, sentence)| {
        let mut serve = program(&shop, &["serve"]);
        let (code, text) = told(&serve.env(name, value).output().await.expect("runs"));
        assert!(text.contains(sentence), "{name}={value}: {text}");
        assert!(!text.contains("panicked"), "{name}={value}: {text}");
        assert_eq!(code, 2, "{name}={value}: {text}");
    });
    join_all(starts).await;
}

#[tokio::test]
async fn a_database_that_ignores_its_checks_is_refused() {
    let shop = Shop::new().await;
    // As such a server made the table: it reads the constraint and forgets it.
    for name in ["buyer_limits_within", "buyer_limits_positive"] {
        let statement = format!("ALTER TABLE buyer_limits DROP CONSTRAINT {name}");
        sqlx::query(&statement).execute(&shop.pool).await.expect("dropped");
    }
    let mut serve = program(&shop, &["serve"]);
    let output = tokio::time::timeout(Duration::from_secs(30), serve.output()).await;
    let (code, text) = told(&output.expect("it serves all the same").expect("runs"));
    assert_eq!(code, 2, "{text}");
    assert!(text.contains("MySQL >= 8.0.16") && text.contains("MariaDB >= 10.6"), "{text}");
    assert!(!text.contains("panicked"), "{text}");
    let rows = shop.number("SELECT COUNT(*) FROM buyer_limits").await;
    assert_eq!(rows, 0, "the forbidden row stayed");
}

#[tokio::test]
async fn the_audit_command_says_clean_broken_or_nothing_read() {
    let (shop, instance) = Shop::open().await;
    assert_eq!(run(&shop, &["audit"]).await.0, 2, "an audit of nothing proves nothing");
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("default", item).await.status, 201);
    let text =
        run_says(&shop, &["audit", "--item", &item.to_string()], (0, "clean, 0 units oversold"))
            .await;
    // Each column begins below its name.
    let rows: Vec<&str> = text.lines().filter(|line| line.starts_with("  ")).collect();
    let at = rows[0].find("invariant").expect("a name");
    let is_aligned = |row: &&str| row[..at].ends_with("  ") && !row[at..].starts_with(' ');
    assert!(rows.len() > 20 && rows.iter().all(is_aligned), "{text}");
    shop.change(sqlx::query("DELETE FROM orders WHERE item_id = ?").bind(item)).await;
    run_says(&shop, &["audit"], (1, "I1    BROKEN")).await;
    // Its stock is left.
    shop.change(sqlx::query("DELETE FROM items WHERE id = ?").bind(item)).await;
    run_says(&shop, &["audit"], (1, &format!("item {item}: BROKEN"))).await;
    assert_eq!(run(&shop, &["audit", "--item", "4711"]).await.0, 2);
    let mut unreachable = program(&shop, &["audit"]);
    unreachable.env("DATABASE_URL", "mysql://seckill:x@127.0.0.1:9/seckill");
    assert_eq!(told(&unreachable.output().await.expect("runs")).0, 2);
}

/// Each ends as other tools do before `head`: without a word, and with the exit code of SIGPIPE.
#[tokio::test]
async fn a_closed_pipe_ends_a_command_quietly() {
    let (shop, _instance, _item) = Shop::selling(json!({})).await;
    let ended = async |arguments: &[&str], output: Stdio| {
        let mut command = program(&shop, arguments);
        let child = command.stdout(output).stderr(Stdio::piped()).spawn().expect("it starts");
        told(&child.wait_with_output().await.expect("it ends"))
    };
    let commands =
        ["audit", "openapi", "doctor", "doctor --json", "export sales", "token --user 7"];
    for arguments in commands {
        let arguments: Vec<&str> = arguments.split(' ').collect();
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        assert_eq!(ended(&arguments, writer.into()).await, (141, String::new()), "{arguments:?}");
    }
    let full = std::fs::File::options().write(true).open("/dev/full").expect("a full disk");
    let (code, text) = ended(&["openapi"], full.into()).await;
    assert!(code == 2 && text.contains("the output is not written"), "{code}: {text}");
}

#[tokio::test]
async fn tokens_are_printed_one_a_line_and_work() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let (code, text) = run(&shop, &["token", "--user", "1..=3"]).await;
    assert_eq!((code, text.lines().count()), (0, 3));
    for token in text.lines() {
        let buyer = instance.stranger().with_token(token);
        assert_eq!(buyer.buy("default", item).await.status, 201);
    }
    let mut token = program(&shop, &["token", "--user", "1", "--role", "admin"]);
    let made = token.env("SECKILL_LOG_FILTER", "info").output().await.expect("runs");
    // Whoever has the secret may make any token: the log says who did.
    let log = String::from_utf8_lossy(&made.stderr);
    assert!(log.contains("tokens made by a command") && log.contains("uid "), "{log}");
    assert!(log.contains("users=1..=1") && log.contains("admin"), "{log}");
    let admin = String::from_utf8_lossy(&made.stdout);
    let operator = instance.stranger().with_token(admin.trim());
    assert_eq!(operator.get(&format!("/api/admin/items/{item}/audit")).await.status, 200);
}

/// The load test of a shop, to be told what and where.
pub fn load_test(shop: &Shop) -> Command {
    let mut command = Command::new(built_beside_ours("loadtest"));
    command
        .args(["run", "--seckill", PROGRAM])
        .env("DATABASE_URL", shop.config.database_url.reveal())
        .env("SECKILL_SECRET", shop.config.secret.reveal())
        .stdin(Stdio::null());
    command
}

/// A program of the workspace, in the folder of `seckill`.
fn built_beside_ours(name: &str) -> PathBuf {
    let path = PathBuf::from(PROGRAM).with_file_name(name);
    assert!(path.is_file(), "build the whole workspace first: cargo test --workspace");
    path
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_load_test_judges_two_instances() {
    let shop = Shop::new().await;
    let (one, two) = (shop.start().await, shop.start().await);
    let urls = format!("http://{},http://{}", one.addr, two.addr);
    let fire = async |strategy: &str, arbiter: &str, more: &[&str]| {
        let output = load_test(&shop)
            .args(["--stock", "50", "--buyers", "500", "--requests", "500"])
            .args(["--concurrency", "100", "--strategy", strategy, "--arbiter", arbiter])
            .args(["--url", &urls])
            .args(more)
            .output();
        told(&output.await.expect("the load test runs"))
    };
    let all = "lock-redis,lock-redis?store=redis,mysql-atomic,mysql-version,redis-watch,mysql-naive,redis-naive";
    let (code, text) = fire(all, "on", &[]).await;
    assert_eq!(code, 0, "{text}");
    let (code, text) = fire("lock-redis", "off", &[]).await;
    assert_eq!(code, 0, "{text}");
    // Units come back, and readers see orders: so all rules about time have something to judge.
    let readers = ["--readers", "3", "--change-percent", "30", "--retry", "20"];
    let (code, text) = fire("mysql-batch,lock-redis,redis-lua,mysql-atomic", "on", &readers).await;
    assert_eq!(code, 0, "{text}");
    for rule in ["I16", "I17", "I18", "I19"] {
        assert!(text.contains(&format!("{rule}  holds")), "{rule}: {text}");
    }
    for control in ["mysql-naive", "redis-naive"] {
        let (code, text) = fire(control, "off", &[]).await;
        assert_eq!(code, 1, "{control} was not caught: {text}");
        let (code, text) = fire(control, "off", &["--expect-oversell"]).await;
        assert_eq!(code, 0, "{control}: {text}");
    }
    let (code, text) = fire("mysql-atomic", "on", &["--expect-oversell"]).await;
    assert_eq!(code, 1, "a control that is none must not pass: {text}");
    one.stop().await;
    two.stop().await;
    assert_eq!(fire("lock-redis", "on", &[]).await.0, 2, "nobody answers");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_bench_measures_and_audits_ten_items() {
    let (shop, instance) = Shop::open().await;
    let out = std::env::temp_dir().join(format!("seckill-bench-{}", std::process::id()));
    let output = Command::new(built_beside_ours("service-bench"))
        .args(["--rounds", "1", "--seconds", "0.2", "--only", " 10 items", "--out"])
        .arg(&out)
        .env("SECKILL_URL", format!("http://{}", instance.addr))
        .env("DATABASE_URL", shop.config.database_url.reveal())
        .env("REDIS_URL", shop.config.redis_url.reveal())
        .env("SECKILL_SECRET", shop.config.secret.reveal())
        .stdin(Stdio::null())
        .output();
    let (code, text) = told(&output.await.expect("the bench runs"));
    assert_eq!(code, 0, "{text}");
    let report = std::fs::read_to_string(out.join("report.md")).expect("the report");
    for row in ["| P10 10 | ", ", 10 items | new | ", "every load was audited"] {
        assert!(report.contains(row), "{row}: {report}");
    }
    assert!(out.join("report.json").is_file(), "{text}");
    std::fs::remove_dir_all(out).expect("the folder of the report");
}
