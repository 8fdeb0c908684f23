//! The ledger on engines that choose their writer themselves: Group Replication, Galera and Vitess.
//!
//! Three servers for a test are slow: `make test-all` runs them. `make test-engines` runs the walk of all strategies on
//! each of them, and `writer.rs` a pair in every `make test`.

use dev_servers::{Replication, VitessServer};
use leaselock::mysql::named;
use leaselock::{AcquireOptions, LockName, ReleaseOutcome, Wait};
use ledger::rows::audit;
use ledger::schema;
use mysql_connection::begin_snapshot;
use mysql_connection::engine::Engine;
use sqlx::{Connection, MySqlPool};
use tokio::time::timeout;

use crate::support::crowd::{Crowd, ENOUGH, assert_nothing_lost, metric, on, until_figure};
use crate::support::prelude::*;

/// What an instance says of a keyspace of one shard.
const SERVES: &str = "Vitess, 1 of 1 primaries serve";

/// The writer is killed, another member takes over, and the killed one comes back.
async fn sells_on_without_its_writer(engine: Replication) {
    let (mut set, shop, instance) = on(engine).await;
    let said = Engine::read(&shop.pool).await.expect("it answers").to_string();
    let name = if engine == Replication::Galera { "Galera, 3 nodes" } else { "3 of 3 members" };
    assert!(said.contains(name), "{said}");
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    let old = set.writer();
    set.member(old).kill().await;
    set.take_over().await.expect("another member takes over");
    crowd.has_bought(ENOUGH).await;
    assert!(metric(&instance, "seckill_ledger_writer_changes_total").await >= 1.0);
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql_replication"], "ok", "{}", ready.text);
    set.member(old).restart().await.expect("it starts again");
    set.rejoin(old).await.expect("it gets what it lacks");
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
    // Each node of Galera takes writes, and the service stays with the first of them.
    let wanted = if engine == Replication::Galera { 3.0 } else { 1.0 };
    let all = |writers: f64| (writers - wanted).abs() < 0.5;
    until_figure(&instance, "seckill_ledger_writers", all).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: make test-all"]
async fn galera_sells_on_without_its_first_node() {
    sells_on_without_its_writer(Replication::Galera).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: make test-all"]
async fn a_group_sells_on_without_its_primary() {
    // Debian's stable releases have no MySQL.
    if let Err(missing) = Replication::Group.program() {
        return println!("not tested: {missing}");
    }
    sells_on_without_its_writer(Replication::Group).await;
}

/// A named lock outlives its lease. For these locks a vtgate has a connection of its own, which a renewal has to ask.
async fn assert_a_named_lock_is_renewed(shop: &Shop) {
    let pool = shop.pool.clone();
    let tasks = TaskTracker::new();
    let server = move || MySqlPool::connect_options(&pool);
    let mutex = named::mutex(server, "engines", named::SESSION_IDLE_MIN, &tasks);
    let name = LockName::new("item").expect("a name");
    let options = AcquireOptions { lease: Duration::from_secs(2), wait: Wait::Never };
    let guard = mutex.acquire(&name, options).await.expect("granted");
    let granted_until = guard.deadline();
    eventually("a renewal", || async {
        assert!(!guard.is_lost(), "the renewal does not find the lock");
        when(guard.deadline() > granted_until, ())
    })
    .await;
    assert_eq!(guard.release().await, ReleaseOutcome::Released);
}

/// What reads one snapshot leaves no session behind that reads one, too: a step of an order reads after it has waited.
async fn assert_snapshots_end(shop: &Shop) {
    let pool = mysql_connection::pool_of(&shop.config, 1).expect("the URL is fine");
    let none = audit::facts(&pool, ItemId::new(1).expect("an id")).await.expect("it answers");
    assert!(none.is_none(), "{none:?}");
    drop(begin_snapshot(&pool).await.expect("it begins"));
    let level = sqlx::query_scalar("SELECT CAST(@@transaction_isolation AS CHAR)");
    let level: String = level.fetch_one(&pool).await.expect("it answers");
    assert_eq!(level, "READ-COMMITTED");
    pool.close().await;
}

/// A change of a table ends soon when others use the table, so purchases do not wait behind it. A vtgate sets no such
/// limit of the server.
async fn assert_a_change_delays_no_purchase(
    vitess: &VitessServer,
    shop: &Shop,
    instance: &Instance,
) {
    let item = instance.make_item(json!({})).await;
    let mut holder = vitess.operator().await.expect("it answers");
    let mut look = vitess.operator().await.expect("it answers");
    let of_earlier_builds = "ALTER TABLE seckill.stock ADD COLUMN archive TINYINT UNSIGNED NULL";
    sqlx::query(of_earlier_builds).execute(&mut holder).await.expect("as before");
    let mut held = holder.begin().await.expect("begun");
    let using = "SELECT COUNT(*) FROM seckill.stock";
    sqlx::query(using).fetch_one(&mut *held).await.expect("it is used");
    let buys = async {
        let waits = "SELECT COUNT(*) FROM information_schema.PROCESSLIST \
             WHERE INFO LIKE 'alter%stock%' AND STATE LIKE '%metadata lock%'";
        let mut waiting: i64 = 0;
        while waiting == 0 {
            waiting = sqlx::query_scalar(waits).fetch_one(&mut look).await.expect("counted");
        }
        let bought = instance.buyer(1).buy_for_good("mysql-atomic", item).await;
        held.rollback().await.expect("no longer used");
        bought
    };
    let contract = timeout(RECOVERY_MAX, schema::contract(&shop.config, &shop.pool));
    let (contracted, bought) = tokio::join!(contract, timeout(RECOVERY_MAX, buys));
    let bought = bought.expect("the change is tried");
    assert_eq!(bought.status, 201, "{}", bought.text);
    contracted.expect("it ends").expect("the column is gone");
}

/// A keyspace of one shard sells through vtgate, and sells on when vtgate, and when the MySQL server behind it, was
/// killed and has come back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "slow: make test-all"]
async fn a_keyspace_of_vitess_sells_on() {
    // It is built from its Go module.
    if let Err(missing) = VitessServer::programs() {
        return println!("not tested: {missing}");
    }
    let mut vitess = VitessServer::start_temporary().await.expect("it starts");
    let shop = Shop::with(|config| {
        config.database_url = Secret::new(vitess.url());
        // Refused purchases are repeated at once.
        config.limits.user_per_second = 0;
    })
    .await;
    let said = Engine::read(&shop.pool).await.expect("it answers").to_string();
    assert!(said.contains(SERVES), "{said}");
    assert_a_named_lock_is_renewed(&shop).await;
    assert_snapshots_end(&shop).await;
    let instance = shop.start().await;
    let ready = instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql_replication"], "ok", "{}", ready.text);
    let said = ready.json["ledger"].as_str().unwrap_or_default();
    assert!(said.contains(SERVES), "{}", ready.text);
    assert_a_change_delays_no_purchase(&vitess, &shop, &instance).await;
    let crowd = Crowd::enters(&instance).await;
    crowd.has_bought(ENOUGH).await;
    vitess.gate().kill().await;
    vitess.gate().restart().await.expect("vtgate starts again");
    crowd.has_bought(ENOUGH).await;
    vitess.mysql().kill().await;
    vitess.mysql().restart().await.expect("the server behind starts again");
    crowd.has_bought(ENOUGH).await;
    assert_nothing_lost(&shop, &instance, &crowd.leaves().await).await;
}
