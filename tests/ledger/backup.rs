//! The drill of `docs/operations.md`: back the ledger up during a sale, restore it elsewhere, audit
//! it, and compare it with the record of accepted orders.

use std::process::Output;
use std::sync::atomic::AtomicU64;

use tokio::process::Command;
use tokio::time::Instant;

use crate::support::prelude::*;

/// An account that may do what a backup needs.
const KEEPER: [&str; 2] = [
    "CREATE USER IF NOT EXISTS 'keeper'@'127.0.0.1' IDENTIFIED BY 'a-password'",
    "GRANT RELOAD, PROCESS, LOCK TABLES, BINLOG MONITOR ON *.* TO 'keeper'@'127.0.0.1'",
];
/// Buyers at once.
const BUYERS: i64 = 6;
/// Purchases before the backup, and after it.
const ENOUGH: u64 = 40;

/// An accepted order: its id, and when its purchase was sent and answered.
struct Accepted {
    id: String,
    sent: Instant,
    answered: Instant,
}

/// Runs `mariadb-backup`; fails with its words.
async fn mariadb_backup(arguments: &[String]) {
    let output = Command::new("mariadb-backup").args(arguments).output().await;
    let output = output.expect("mariadb-backup runs: `scripts/install-packages backup`");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {said}");
}

async fn back_up(server: &MysqlServer, target: &Path) {
    let target = format!("--target-dir={}", target.display());
    let port = format!("--port={}", server.port());
    let login = ["--host=127.0.0.1", &port, "--user=keeper", "--password=a-password"];
    let mut backup = vec!["--backup".to_owned(), target.clone()];
    backup.extend(login.map(str::to_owned));
    mariadb_backup(&backup).await;
    mariadb_backup(&["--prepare".to_owned(), target]).await;
}

async fn buy(
    buyer: Client,
    item: i64,
    stops: Arc<AtomicBool>,
    sold: Arc<AtomicU64>,
) -> Vec<Accepted> {
    let mut orders = Vec::new();
    while !stops.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let answer = buyer.buy("mysql-batch", item).await.expect_status(201);
        let id = answer.json["id"].as_str().expect("an id").to_owned();
        orders.push(Accepted { id, sent, answered: Instant::now() });
        sold.fetch_add(1, Ordering::Relaxed);
    }
    orders
}

fn text_of(output: &Output) -> String {
    String::from_utf8_lossy(&[&output.stdout[..], &output.stderr[..]].concat()).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backup_during_a_sale_restores_all_that_was_sold_before_it() {
    if std::env::var_os("SECKILL_MYSQLD").is_some() {
        println!("left out: mariadb-backup is for MariaDB");
        return;
    }
    let mut options = MysqlOptions::temporary();
    options.extra_statements = KEEPER.map(str::to_owned).to_vec();
    let server = own_mysql(options).await;
    let database = unique("seckill");
    let url = server.tcp_url_of(&database);
    let (shop, instance) = Shop::open_with(|config| {
        config.database_url = Secret::new(url);
        config.limits.user_per_second = 0;
    })
    .await;
    let item = instance.make_item(json!({ "stock": 1_000_000, "per_buyer_limit": 100_000 })).await;
    let (stops, sold) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut buyers = JoinSet::new();
    for id in 1..=BUYERS {
        buyers.spawn(buy(instance.buyer(id), item, stops.clone(), sold.clone()));
    }
    let has_sold = async |more: u64| {
        let before = sold.load(Ordering::Relaxed);
        let now = || async { sold.load(Ordering::Relaxed) };
        until("more sales", now, |now| *now >= before + more).await;
    };
    has_sold(ENOUGH).await;
    let folder = std::env::temp_dir().join(unique("seckill-backup"));
    std::fs::create_dir_all(&folder).expect("a folder");
    let began = Instant::now();
    back_up(&server, &folder.join("data")).await;
    let ended = Instant::now();
    has_sold(ENOUGH).await;
    stops.store(true, Ordering::Relaxed);
    let accepted: Vec<Accepted> = buyers.join_all().await.into_iter().flatten().collect();
    server.kill().await;

    // Restored elsewhere: the folder is that of another server.
    std::fs::write(folder.join("ready"), "MariaDB").expect("marked as complete");
    let restored = own_mysql(MysqlOptions::new(&folder)).await;
    let url = restored.tcp_url_of(&database);
    let audit = program(&shop, &["audit"]).env("DATABASE_URL", &url).output().await;
    let audit = audit.expect("the program runs");
    // Redis is ahead of the restored ledger, which I7 alone would tell; no strategy used it here.
    assert_eq!(audit.status.code(), Some(0), "{}", text_of(&audit));
    let restored_check = async |secret: &str, code: i32| {
        let mut check = program(&shop, &["restored"]);
        check.env("DATABASE_URL", &url).env("SECKILL_SECRET", secret);
        let output = check.output().await.expect("the program runs");
        assert_eq!(output.status.code(), Some(code), "{}", text_of(&output));
    };
    restored_check(shop.config.secret.reveal(), 1).await;
    restored_check("a new secret for tests, of thirty-two characters and more", 0).await;
    let mut config = shop.config.clone();
    config.database_url = Secret::new(url.clone());
    let pool = mysql_connection::pool(&config).expect("the URL is fine");
    let there: Vec<String> =
        sqlx::query_scalar("SELECT id FROM orders").fetch_all(&pool).await.expect("read");
    let there: BTreeSet<String> = there.into_iter().collect();
    let has = |order: &&Accepted| there.contains(&order.id);
    let before = accepted.iter().filter(|order| order.answered < began).collect::<Vec<_>>();
    let after = accepted.iter().filter(|order| order.sent > ended).collect::<Vec<_>>();
    assert!(before.len() as u64 >= ENOUGH && !after.is_empty());
    assert!(before.iter().all(has), "an order from before the backup is lost");
    assert!(!after.iter().any(has), "an order from after the backup is in it");
    pool.close().await;
    restored.stop().await;
    let _ = std::fs::remove_dir_all(&folder);
}
