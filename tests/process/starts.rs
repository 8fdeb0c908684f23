//! Starts that meet each other, and starts on servers that are set up wrongly.

use ledger::schema;

use crate::process::program::signal;
use crate::process::start_mistakes::{assert_found, doctor, serve};
use crate::support::prelude::*;
use crate::support::{files_below, servers};

/// Starts at once; more than two, so that they meet in every step.
const STARTS: usize = 5;
/// How long a start that is refused may take.
const REFUSAL_MAX: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_migrations_of_an_empty_database_at_once_all_succeed() {
    let shop = Shop::new().await;
    let name = unique("seckill_migrated");
    let url = servers().await.mysql.url_of(&name);
    let starts =
        (0..STARTS).map(|_| program(&shop, &["migrate"]).env("DATABASE_URL", &url).output());
    for ended in join_all(starts).await {
        let (code, text) = told(&ended.expect("the program runs"));
        assert_eq!(code, 0, "{text}");
    }
    let mut config = shop.config.clone();
    config.database_url = Secret::new(url);
    let pool = mysql_connection::pool(&config).expect("the URL is fine");
    let state = schema::schema_state(&pool).await.expect("it answers");
    assert!(state.is_usable(), "{state:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_that_demands_another_password_is_said_in_a_sentence() {
    let (shop, instance) = Shop::open().await;
    instance.make_item(json!({})).await;
    let url = redis_url().await;
    let (scheme, rest) = url.split_once("://").expect("a URL");
    let (_, host) = rest.split_once('@').expect("it has a password");
    // Without its password, and with another one.
    for url in [format!("{scheme}://{host}"), format!("{scheme}://:wrong@{host}")] {
        let starts = ["serve", "audit", "dev"].map(async |command| {
            let mut start = program(&shop, &[command]);
            start.env("REDIS_URL", &url).env("RUST_BACKTRACE", "1");
            let dir = std::env::temp_dir().join(unique("dev"));
            start.env("SECKILL_DATA_DIR", &dir);
            let ended = tokio::time::timeout(REFUSAL_MAX, start.output()).await;
            let ended = ended.unwrap_or_else(|_| panic!("{command} goes on")).expect("it runs");
            let (code, text) = told(&ended);
            let _ = std::fs::remove_dir_all(&dir);
            assert_eq!(code, 2, "{command}: {text}");
            assert!(!text.contains("panicked") && !text.contains("backtrace"), "{command}: {text}");
            assert_eq!(text.matches("the password of REDIS_URL").count(), 1, "{command}: {text}");
            assert!(!text.contains("wrong@"), "{command} shows the password: {text}");
        });
        join_all(starts).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_redis_whose_password_changes_while_it_runs_is_away_and_nothing_panics() {
    let shop = Shop::new().await;
    let redis = crate::support::own_redis(1, &[]).await;
    let instance = shop.start_with(|config| config.redis_url = Secret::new(redis[0].url())).await;
    let item = instance.make_item(json!({ "stock": 100, "per_buyer_limit": 100 })).await;
    assert_eq!(instance.buyer(1).buy("redis-lua", item).await.status, 201);
    let client = redis::Client::open(redis[0].url()).expect("a URL");
    let mut own = client.get_multiplexed_async_connection().await.expect("a connection");
    let set = redis::cmd("CONFIG").arg("SET").arg("requirepass").arg("another").to_owned();
    let () = set.query_async(&mut own).await.expect("the password is another one");
    // Only who connects anew is asked for it.
    let kill = redis::cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").to_owned();
    let killed: i64 = kill.query_async(&mut own).await.expect("the connections are killed");
    assert!(killed >= 1, "{killed}");
    let ask = || async { instance.buyer(1).buy("redis-lua", item).await };
    let away = until("Redis to be away", ask, |answer| answer.status == 503).await;
    assert!(away.text.contains("redis"), "{}", away.text);
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201, "the ledger sells");
}

/// An account that may do everything, beside the one of the shop, which may not write where the
/// server is read-only.
const KEEPER: [&str; 2] = [
    "CREATE USER IF NOT EXISTS 'keeper'@'127.0.0.1' IDENTIFIED BY 'a-password'",
    "GRANT ALL PRIVILEGES ON *.* TO 'keeper'@'127.0.0.1'",
];

async fn keeper(server: &MysqlServer) -> Database {
    let url = format!("mysql://keeper:a-password@127.0.0.1:{}/seckill", server.port());
    sqlx::MySqlPool::connect(&url).await.expect("it answers").into()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_read_only_ledger_is_said_to_be_read_only() {
    let mut options = MysqlOptions::temporary();
    options.extra_statements = KEEPER.map(str::to_owned).to_vec();
    let server = own_mysql(options).await;
    let url = server.tcp_url_of("seckill_read_only");
    let (shop, instance) = Shop::open_with(|config| config.database_url = Secret::new(url)).await;
    let item = instance.make_item(json!({ "stock": 1_000, "per_buyer_limit": 1_000 })).await;
    let order = instance.buyer(1).buy("mysql-atomic", item).await.expect_status(201);
    let id = order.json["id"].as_str().expect("an id").to_owned();
    assert_eq!(instance.stranger().get("/readyz").await.status, 200);

    let root = keeper(&server).await;
    sqlx::raw_sql("SET GLOBAL read_only = 1").execute(&root).await.expect("read-only");
    for strategy in ["mysql-atomic", "mysql-batch", "lock-redis", "redis-lua"] {
        let answer = instance.buyer(2).buy(strategy, item).await;
        assert_eq!(answer.brief(), (503, "dependency_unavailable"), "{strategy}: {}", answer.text);
        assert_eq!(answer.json["outcome"], "none", "{strategy}: {}", answer.text);
        let detail = answer.json["detail"].as_str().unwrap_or_default();
        assert!(detail.contains("takes no writes"), "{strategy}: {}", answer.text);
    }
    let body = json!({ "username": "somebody", "password": "a long password of somebody" });
    let signed_up = instance.stranger().post("/api/users", &body).await.expect_status(503);
    assert_eq!(signed_up.json["outcome"], "none", "{}", signed_up.text);
    assert!(signed_up.text.contains("takes no writes"), "{}", signed_up.text);
    let paid = instance.buyer(1).step(&id, "payment").await;
    assert_eq!((paid.status, &paid.json["outcome"]), (503, &json!("none")), "{}", paid.text);
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql"], "read-only", "{}", ready.text);
    // A start waits for it within a limit.
    let (code, text) = serve(&shop, &[]).await;
    assert_eq!((code, text.contains("MySQL is read-only")), (1, true), "{text}");
    assert_found(&doctor(&shop, &[]).await, "read-only");

    sqlx::raw_sql("SET GLOBAL read_only = 0").execute(&root).await.expect("writable");
    instance.buyer(2).until_sold("mysql-atomic", item).await;
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql"], "ok", "{}", ready.text);
}

/// A client of the shop that writes this file for a second terminal.
async fn stranger_of(file: &Path) -> Client {
    let url = eventually("the file for a second terminal", || async {
        let text = std::fs::read_to_string(file).ok()?;
        let url = text.lines().find_map(|line| line.strip_prefix("SECKILL_URL=http://"))?;
        Some(url.replace("0.0.0.0", "127.0.0.1"))
    });
    Client::new(url.await.parse().expect("an address"), None)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn started_in_an_empty_folder_dev_serves_every_page() {
    let shop = Shop::new().await;
    let folder = TestFolder::new("empty");
    let mut dev = program(&shop, &["dev"]);
    dev.current_dir(&*folder).env("SECKILL_DATA_DIR", "data");
    let mut dev = dev.spawn().expect("started");
    let stranger = stranger_of(&folder.join("data/env")).await;
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("static");
    let mut count = 0;
    for kind in ["html", "js", "css", "svg"] {
        for path in files_below("static", kind) {
            let name = path.strip_prefix(&root).expect("below static").display().to_string();
            let answer = stranger.get(&format!("/{name}")).await;
            let text = std::fs::read_to_string(&path).expect("text");
            // The checking page is put into one file.
            let is_same = answer.text == text || name == "verify.html";
            assert!(answer.status == 200 && is_same, "{name}: {}", answer.status);
            count += 1;
        }
    }
    assert!(count > 50, "{count} pages");
    let start = std::fs::read_to_string(root.join("index.html")).expect("text");
    assert_eq!(stranger.get("/").await.text, start);
    assert_eq!(stranger.get("/no-such-page.html").await.status, 404);
    let id = dev.id().expect("it runs");
    signal(id, "INT").await;
    assert_eq!(dev.wait().await.expect("it ends").code(), Some(0));
}

/// Their passwords are in README: other machines can use them only where the operator says so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn demo_accounts_are_public_only_if_asked() {
    let shop = Shop::new().await;
    let folder = TestFolder::new("public");
    for (arguments, expected) in [("dev", 401), ("dev --public-demo-accounts", 200), ("dev", 401)] {
        let mut dev = program(&shop, &arguments.split(' ').collect::<Vec<_>>());
        dev.env("SECKILL_HTTP_ADDR", "0.0.0.0:0").env("SECKILL_DATA_DIR", &*folder);
        let mut dev = dev.spawn().expect("started");
        let stranger = stranger_of(&folder.join("env")).await;
        let password = json!({ "username": "operator", "password": "operator-password" });
        let answer = stranger.post("/api/session", &password).await;
        assert_eq!(answer.status, expected, "{arguments}: {}", answer.text);
        signal(dev.id().expect("it runs"), "INT").await;
        assert_eq!(dev.wait().await.expect("it ends").code(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_without_pages_is_refused_before_servers_start() {
    let shop = Shop::new().await;
    for command in ["dev", "serve"] {
        let mut start = program(&shop, &[command]);
        start.env("SECKILL_HTTP_STATIC_DIR", "no-such-folder");
        let dir = std::env::temp_dir().join(unique("dev"));
        start.env("SECKILL_DATA_DIR", &dir);
        let output = tokio::time::timeout(REFUSAL_MAX, start.output()).await;
        let (code, said) = told(&output.expect("it ends").expect("the program runs"));
        assert_eq!(code, 2, "{command}: {said}");
        let sentence = "the pages of the shop are not in http.static_dir";
        assert!(said.contains(sentence), "{command}: {said}");
        assert!(said.contains("leave SECKILL_HTTP_STATIC_DIR empty"), "{command}: {said}");
        assert!(!dir.join("env").exists(), "{command}");
    }
}
