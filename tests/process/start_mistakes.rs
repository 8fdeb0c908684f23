//! Mistakes of an installation: `serve` says each in one sentence with the remedy and ends, or waits
//! within a limit and says for what; `doctor` finds the same.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;

use dev_servers::RedisServer;
use forgetful_disk::SmallDisk;

use crate::process::program::LoggedService;
use crate::support::prelude::*;
use crate::support::{own_redis, servers};

/// How long a start that is refused may take.
const REFUSAL_MAX: Duration = Duration::from_secs(60);
/// How long a start waits for a server that is not there.
const AWAY_WAIT_MS: &str = "1000";
/// How long it waits for an answer of a server that is there: on a busy machine it may come late.
const ANSWER_WAIT_MS: &str = "5000";

/// Starts `serve` with some variables; answers its exit code and what it said.
pub async fn serve(shop: &Shop, variables: &[(&str, &str)]) -> (i32, String) {
    let away = ["@127.0.0.1:9/", "@nowhere.invalid/"];
    let is_away = variables.iter().any(|(_, value)| away.iter().any(|host| value.contains(host)));
    let wait_ms = if is_away { AWAY_WAIT_MS } else { ANSWER_WAIT_MS };
    let mut serve = program(shop, &["serve"]);
    serve.env("SECKILL_LIFECYCLE_START_WAIT_MS", wait_ms).envs(variables.iter().copied());
    let output = tokio::time::timeout(REFUSAL_MAX, serve.output()).await;
    told(&output.unwrap_or_else(|_| panic!("it goes on: {variables:?}")).expect("runs"))
}

/// What `doctor --json` finds with some variables, and whether it exits as it says.
pub async fn doctor(shop: &Shop, variables: &[(&str, &str)]) -> Value {
    let mut doctor = program(shop, &["doctor", "--json"]);
    let output = doctor.envs(variables.iter().copied()).output().await.expect("runs");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let code = if found["healthy"] == true { 0 } else { 1 };
    assert_eq!(output.status.code(), Some(code), "{found}");
    found
}

/// Asserts that a finding of the doctor is not fine and says the same words.
pub fn assert_found(found: &Value, words: &str) {
    let checks = found["checks"].as_array().expect("a list");
    let named = checks.iter().any(|check| {
        let text = format!("{} {}", check["found"], check["remedy"]);
        text.contains(words) && check["state"] != "ok"
    });
    assert!(named && found["healthy"] == false, "no {words:?} in {found:#}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_mistake_has_its_sentence_and_its_exit_code() {
    const NO_DATABASE: &str = "has no database of the name in DATABASE_URL; run `seckill migrate`";
    const NO_TABLES: &str = "the database has no tables of Seckill; run `seckill migrate`";
    const NO_ADDRESS: &str = "the host of DATABASE_URL, nowhere.invalid, has no address";
    let shop = Shop::new().await;
    let url = shop.config.database_url.reveal().to_owned();
    let server = servers().await.mysql;
    let (before, _) = url.split_once('@').expect("a user");
    let wrong_password = url.replacen(before, "mysql://seckill:wrong", 1);
    let no_database = server.url_of(&unique("seckill_nowhere"));
    let empty = Shop::new().await;
    for table in ["_sqlx_migrations", "schema_needs"] {
        sqlx::query(&format!("DROP TABLE {table}")).execute(&empty.pool).await.expect("dropped");
    }
    let old = Shop::new().await;
    let forget = "DELETE FROM _sqlx_migrations ORDER BY version DESC LIMIT 1";
    sqlx::query(forget).execute(&old.pool).await.expect("forgotten");
    let too_new = Shop::new().await;
    let needs = "UPDATE schema_needs SET known_version_min = 9999";
    sqlx::query(needs).execute(&too_new.pool).await.expect("it needs a newer program");
    let url_of = |shop: &Shop| shop.config.database_url.reveal().to_owned();
    let (empty, old, too_new) = (url_of(&empty), url_of(&old), url_of(&too_new));
    let cluster = lone_cluster_node().await;
    let cluster = cluster[0].url();
    // After 2 systemd makes no further start.
    let cases = [
        (2, "DATABASE_URL", &*wrong_password, "refuses the user or the password of DATABASE_URL"),
        (2, "DATABASE_URL", &*no_database, NO_DATABASE),
        (1, "DATABASE_URL", "mysql://u:p@127.0.0.1:9/seckill", "no server answers at 127.0.0.1:9"),
        (1, "DATABASE_URL", "mysql://u:p@nowhere.invalid/seckill", NO_ADDRESS),
        (1, "DATABASE_URL", &*empty, NO_TABLES),
        (1, "DATABASE_URL", &*old, "and this program needs"),
        (2, "DATABASE_URL", &*too_new, "start a newer build"),
        (2, "REDIS_URL", &*cluster, "Redis runs in cluster mode"),
    ];
    let starts = cases.map(async |(expected, name, value, sentence)| {
        let (code, text) = serve(&shop, &[(name, value)]).await;
        assert_eq!(code, expected, "{value}: {text}");
        // The last line is the sentence.
        let last = text.lines().last().unwrap_or_default();
        assert!(last.starts_with("seckill: ") && last.contains(sentence), "{value}: {text}");
        assert!(!text.contains("panicked at") && !text.contains(":wrong"), "{value}: {text}");
        let found = doctor(&shop, &[(name, value)]).await;
        assert_found(&found, sentence.split("; ").next().expect("words"));
    });
    join_all(starts).await;
    assert_found(&doctor(&shop, &[("SECKILL_SECRET", "")]).await, "SECKILL_SECRET is not set");
    assert_found(&doctor(&shop, &[("SECKILL_LOCK_LEASE_MS", "1")]).await, "lock.lease_ms");
    let fine = doctor(&shop, &[]).await;
    assert_eq!(fine["healthy"], true, "{fine:#}");
    let checks = fine["checks"].as_array().expect("a list");
    let operators = checks.iter().find(|check| check["check"] == "ledger.operators");
    assert_eq!(operators.expect("it is checked")["state"], "warning", "{fine:#}");
}

/// Exit 2 is a mistake, which another start does not heal.
#[tokio::test]
async fn migrate_may_be_tried_again_while_the_ledger_is_away() {
    let shop = Shop::new().await;
    let url = shop.config.database_url.reveal();
    let (before, _) = url.split_once('@').expect("a user");
    let wrong_password = url.replacen(before, "mysql://seckill:wrong", 1);
    let away = "mysql://u:p@127.0.0.1:9/seckill";
    for (expected, url, words) in [
        (1, away, "no server answers at 127.0.0.1:9"),
        (2, &*wrong_password, "the schema cannot be brought up to date"),
    ] {
        let ended = program(&shop, &["migrate"]).env("DATABASE_URL", url).output().await;
        let (code, text) = told(&ended.expect("it runs"));
        assert_eq!((code, text.contains(words)), (expected, true), "{text}");
    }
}

/// The doctor names what stops no start, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_doctor_names_what_a_start_waits_for_or_does_without() {
    let shop = Shop::new().await;
    for (name, value, sentence) in [
        ("REDIS_URL", "redis://127.0.0.1:9", "Redis at 127.0.0.1 does not answer"),
        ("DATABASE_URL", "postgres://u:p@127.0.0.1/seckill", "postgres"),
        ("SECKILL_HTTP_STATIC_DIR", "/nowhere", "the pages of the shop are not in"),
        ("SECKILL_HTTP_TRUSTED_PROXIES", "ADDRESSES_OF_THE_INGRESS", "http.trusted_proxies"),
        ("SECKILL_HTTP_CORS_ORIGINS", "*", "http.cors_origins"),
        ("SECKILL_EVENTS_PRIVATE_NETWORKS", "ten", "private_networks"),
        ("SECKILL_LOG_FILTER", "info,ledger=loud", "log.filter"),
    ] {
        assert_found(&doctor(&shop, &[(name, value)]).await, sentence);
    }
    // Only the strategies that lock there stand still.
    let etcd = doctor(&shop, &[("SECKILL_LOCK_ETCD_ENDPOINTS", "http://127.0.0.1:9")]).await;
    let mut checks = etcd["checks"].as_array().expect("a list").iter();
    let locks = checks.find(|check| check["check"] == "locks.servers").expect("checked");
    assert_eq!(locks["state"], "warning", "{etcd:#}");
    let drop = "ALTER TABLE buyer_limits DROP CONSTRAINT buyer_limits_within";
    sqlx::query(drop).execute(&shop.pool).await.expect("planted");
    let found = doctor(&shop, &[]).await;
    assert_found(&found, "a row that the CHECK constraints of the ledger forbid");
}

/// Whether the servers of the tests are MariaDB, which can be told to be older.
pub async fn is_mariadb(shop: &Shop) -> bool {
    let version: String = shop.read(sqlx::query_scalar("SELECT VERSION()")).await;
    version.contains("MariaDB")
}

/// A database server of the test's own, and a shop on it.
async fn on_own_server(options: MysqlOptions) -> (MysqlServer, Shop) {
    let server = own_mysql(options).await;
    let url = server.tcp_url_of(&unique("seckill_own"));
    let shop = Shop::with(|config| config.database_url = Secret::new(url)).await;
    (server, shop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_too_old_is_refused() {
    if !is_mariadb(&Shop::new().await).await {
        return println!("left out: MySQL has no option for the version that it names");
    }
    let mut options = MysqlOptions::temporary();
    options.extra_arguments = vec!["--version=10.5.9-MariaDB".to_owned()];
    let (_server, shop) = on_own_server(options).await;
    let (code, text) = serve(&shop, &[]).await;
    let sentence = "the version of MariaDB, 10.5.9-MariaDB, is too old";
    assert_eq!((code, text.contains(sentence)), (2, true), "{text}");
    assert!(text.contains("use MySQL >= 8.0.16 or MariaDB >= 10.6"), "{text}");
    assert_found(&doctor(&shop, &[]).await, sentence);
}

/// Room in MiB for a new database, its log and the tables of a shop.
const DISK_MIB: u32 = 1_024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_of_the_database_is_said_with_its_remedy() {
    let folder = std::env::temp_dir().join(unique("small-disk"));
    let Some(disk) = SmallDisk::mount(&folder, DISK_MIB) else {
        return println!("left out: only root may mount a small disk");
    };
    let (server, shop) = on_own_server(MysqlOptions::new(disk.folder().join("mysql"))).await;
    let fine = doctor(&shop, &[]).await;
    assert_eq!(fine["healthy"], true, "{fine:#}");
    disk.fill().expect("filled");
    // Rows beside the one that the checks try still fit until their page is full.
    let mut user = -10_000;
    let full = loop {
        let row =
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (-1, ?, 1, 1)";
        match sqlx::query(row).bind(user).execute(&shop.pool).await {
            Ok(_) => user += 1,
            Err(error) => break error,
        }
        assert!(user < -2, "it takes rows without end");
    };
    assert!(full.to_string().contains("1114"), "{full}");
    let sentence = "cannot write, probably because its disk is full";
    let (code, text) = serve(&shop, &[]).await;
    assert_eq!((code, text.contains(sentence)), (1, true), "{text}");
    assert!(text.contains("free some space on the disk of the database"), "{text}");
    assert_found(&doctor(&shop, &[]).await, sentence);
    let url = server.url_of(&unique("seckill_full"));
    let migrate = program(&shop, &["migrate"]).env("DATABASE_URL", &url).output().await;
    let (code, text) = told(&migrate.expect("it runs"));
    assert_eq!((code, text.contains("free some space on the disk")), (2, true), "{text}");
}

/// A server that is away fills no log, and is used as soon as it comes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_servers_waits_quietly_and_says_for_what() {
    let shop = Shop::new().await;
    let ledger = link_to_ledger(&shop).await;
    ledger.cut();
    let mut serve = program(&shop, &["serve"]);
    serve.env("DATABASE_URL", ledger.url()).env("REDIS_URL", "redis://127.0.0.1:9");
    serve.env("SECKILL_LOG_FILTER", "info");
    let service = LoggedService::start(&mut serve).await;
    let stranger = &service.stranger;
    let ready = stranger.get("/readyz").await;
    assert_ne!(ready.json["dependencies"]["mysql"], "ok", "{}", ready.text);
    // Jobs try twice a second: as many lines there would be.
    eventually("some failures of the jobs", || async {
        let metrics = stranger.get("/metrics").await.text;
        let runs = metrics.lines().find_map(|line| {
            line.strip_prefix(r#"seckill_job_runs_total{job="expire",result="failed"} "#)
        });
        runs.and_then(|runs| runs.parse::<u32>().ok()).filter(|runs| *runs >= 4)
    })
    .await;
    ledger.mend();
    stranger.until("/readyz", |seen| seen.json["dependencies"]["mysql"] == "ok").await;
    let log = service.stop().await;
    assert!(log.contains("waiting: "), "{log}");
    let mut seen = BTreeMap::new();
    for line in log.lines() {
        // Without its time.
        let line = line.split_once(' ').map_or(line, |(_, line)| line);
        *seen.entry(line.trim().to_owned()).or_insert(0) += 1;
    }
    for (line, count) in seen {
        assert!(count <= 2, "{count} times: {line}\n{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_behind_a_url_of_one_server_is_seen() {
    let cluster = lone_cluster_node().await;
    let (_shop, instance) =
        Shop::open_with(|config| config.redis_url = Secret::new(cluster[0].url())).await;
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["redis"], "cluster mode behind a single-server URL");
    assert_eq!(ready.json["dependencies"]["mysql"], json!("ok"), "{}", ready.text);
}

/// What Kubernetes and Docker make for a service named `seckill` (kubernetes#35189), and a text of another program that is
/// not in UTF-8.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_variables_of_others_stop_nothing() {
    let shop = Shop::new().await;
    let mut doctor = program(&shop, &["doctor", "--json"]);
    let variables = "SERVICE_HOST=10.96.12.7 SERVICE_PORT=80 SERVICE_PORT_HTTP=80 PORT=tcp://10.96.12.7:80 \
         PORT_80_TCP=tcp://10.96.12.7:80 PORT_80_TCP_ADDR=10.96.12.7 NAME=/web/seckill ENV_PATH=/usr/bin \
         PORT_80_TCP_PROTO=tcp PORT_80_TCP_PORT=80 PORT_53_UDP=udp://10.96.12.7:53 PORT_9_SCTP_ADDR=10.96.12.7 \
         REDIS_SERVICE_HOST=fd00:10:96::c08 REDIS_PORT=tcp://[fd00:10:96::c08]:6379 HTTP_SERVICE_PORT_METRICS=9090 \
         1_NAME=/a/b HTTP_1_PORT_8080_TCP=tcp://172.17.0.2:8080 PORT_8080_TCP_START=tcp://172.17.0.2:8080 \
         PORT_8080_TCP_PORT_END=8090 PORT_8080_TCP_END=tcp://172.17.0.2:8090";
    for (name, value) in variables.split(' ').filter_map(|it| it.split_once('=')) {
        doctor.env(format!("SECKILL_{name}"), value);
    }
    doctor.env("LS_COLORS", OsStr::from_bytes(b"\xff"));
    let output = doctor.output().await.expect("it runs");
    let found: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(found["healthy"], true, "{found:#}");
}

/// Valkey without its Lua module; elsewhere an account that may not use scripts.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_without_lua_is_said_and_waited_for() {
    let redis = own_redis(1, &["enable-module-command local"]).await.remove(0);
    let unloaded = redis.run::<()>(&["MODULE", "UNLOAD", "lua"]).await.is_ok();
    if !unloaded {
        let forbidden = ["ACL", "SETUSER", "default", "-@scripting"];
        let () = redis.run(&forbidden).await.expect("forbidden");
    }
    let shop = Shop::with(|config| config.redis_url = Secret::new(redis.url())).await;
    let found = doctor(&shop, &[]).await;
    assert_found(&found, if unloaded { "scripting engine 'lua'" } else { "the 'eval' command" });
    assert_found(&found, "these strategies cannot sell");
    assert_found(&found, "load the module lua into Valkey");

    let instance = shop.start().await;
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["redis"], "runs no Lua scripts", "{}", ready.text);
    let item = instance.make_item(json!({ "stock": 3 })).await;
    for (strategy, status) in [("redis-lua", 503), ("lock-redis", 503), ("mysql-atomic", 201)] {
        let answer = instance.buyer(1).buy(strategy, item).await;
        assert_eq!(answer.status, status, "{strategy}: {}", answer.text);
    }
    if unloaded {
        let lab = json!({ "stock": 3, "kind": "lab" });
        let lab = instance.make_item(lab).await;
        let textbook = ["lock-redis-setnx", "lock-redis-setnx-expire", "lock-redis-getset"];
        for (buyer, strategy) in (2..).zip(textbook) {
            let answer = instance.buyer(buyer).buy(strategy, lab).await;
            assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
        }
    }
    redis.stop().await;
}

/// An earlier build next to a later one: `schema_needs` says whether it may work.
#[tokio::test]
async fn a_schema_that_is_too_new_makes_an_instance_unready() {
    let (shop, instance) = Shop::open().await;
    let later = "INSERT INTO _sqlx_migrations \
                 (version, description, installed_on, success, checksum, execution_time) \
                 VALUES (9998, 'a later one', NOW(), TRUE, '', 0)";
    sqlx::query(later).execute(&shop.pool).await.expect("migrated by a later build");
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!((ready.status, &ready.json["status"]), (200, &json!("ready")), "{}", ready.text);
    let (code, text) = run(&shop, &["migrate"]).await;
    assert_eq!(code, 0, "an earlier build has nothing to do: {text}");
    let needs = "UPDATE schema_needs SET known_version_min = 9998";
    sqlx::query(needs).execute(&shop.pool).await.expect("changed");
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!((ready.status, &ready.json["status"]), (503, &json!("schema is too new")));
    assert!(ready.json["dependencies"].is_object(), "{}", ready.text);
}

/// As `/tmp/.data/env`, which anybody may make.
#[tokio::test]
async fn a_file_of_settings_that_others_may_write_is_refused() {
    let shop = Shop::new().await;
    let folder = TestFolder::new("shared");
    let below = folder.join("a/b");
    std::fs::create_dir_all(folder.join(".data")).expect("a folder");
    std::fs::create_dir_all(&below).expect("a folder");
    let file = folder.join(".data/env");
    std::fs::write(&file, format!("SECKILL_SECRET={}\n", "planted-".repeat(8))).expect("written");
    for (mode, code) in [(0o600, 0), (0o666, 2), (0o660, 2)] {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).expect("set");
        let mut token = program(&shop, &["token", "--user", "1"]);
        token.current_dir(&below).env_remove("SECKILL_DATA_DIR").env_remove("SECKILL_SECRET");
        let (ended, said) = told(&token.output().await.expect("runs"));
        assert_eq!(ended, code, "{mode:o}: {said}");
        let is_refused = said.contains(".data/env is not read: others may write it");
        assert_eq!(is_refused, code == 2, "{mode:o}: {said}");
    }
}

/// A Redis server that belongs to a cluster of which it knows no slot.
async fn lone_cluster_node() -> Vec<RedisServer> {
    let bus = format!("cluster-port {}", dev_servers::free_port().expect("a port"));
    own_redis(1, &["cluster-enabled yes", "cluster-config-file nodes.conf", &bus]).await
}
