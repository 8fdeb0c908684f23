//! Links that die without a word: what was sent over them is swallowed, and neither end is told. New
//! connections get through, so an instance has to notice and connect again.

use gates::redis_store::RedisClient;
use mysql_connection::limits::TRANSACTION_MAX;
use mysql_connection::{is_unconfirmed, transact};
use sqlx::Executor;
use tokio::time::{Instant, sleep};

use crate::support::prelude::*;

/// How long it may take until everything is sold again: far longer than the bounds of the service,
/// since machines that test are loaded.
const RECOVERY_MAX: Duration = Duration::from_secs(45);
/// Buyers at once, so that pools have several connections.
const BUYERS: i64 = 12;
/// How long the buyers buy before the links die, at least.
const PAUSE: Duration = Duration::from_millis(100);

/// An instance behind a link to the database and one to Redis.
async fn linked_shop() -> (Shop, Instance, FaultyLink, FaultyLink) {
    let shop = Shop::new().await;
    let mysql = link_to_ledger(&shop).await;
    let redis = link_to(&redis_url().await).await;
    let set_up = |config: &mut Config| {
        config.database_url = Secret::new(mysql.url());
        config.redis_url = Secret::new(redis.url());
        config.redis.command_timeout_ms = 400;
    };
    let instance = shop.start_with(set_up).await;
    (shop, instance, mysql, redis)
}

/// Strands `link` while many buyers buy by `strategies`, and waits until each of them sells again.
async fn sells_again(strategies: &[&'static str], instance: &Instance, link: &FaultyLink) {
    let item = json!({ "stock": 1_000_000, "per_buyer_limit": 100_000 });
    let mut items = Vec::new();
    for &strategy in strategies {
        let item = instance.make_item(item.clone()).await;
        let first = instance.buyer(1).buy(strategy, item).await;
        assert!([201, 202].contains(&first.status), "{strategy}: {}", first.text);
        items.push((strategy, item));
    }
    let mut buyers = JoinSet::new();
    for &(strategy, item) in &items {
        for id in 2..2 + BUYERS {
            let buyer = instance.buyer(id);
            buyers.spawn(async move {
                loop {
                    let answer = buyer.buy(strategy, item).await;
                    if ![201, 202].contains(&answer.status) {
                        sleep(PAUSE).await;
                    }
                }
            });
        }
    }
    sleep(PAUSE).await;
    link.strand();
    let until = Instant::now() + RECOVERY_MAX;
    for (strategy, item) in items {
        let mut in_a_row = 0;
        let mut last = String::new();
        while in_a_row < 3 {
            assert!(Instant::now() < until, "{strategy} sells no more: {last}");
            let answer = instance.buyer(1).buy(strategy, item).await;
            let sold = [201, 202].contains(&answer.status);
            in_a_row = if sold { in_a_row + 1 } else { 0 };
            if !sold {
                last = answer.text;
                sleep(PAUSE).await;
            }
        }
    }
    buyers.abort_all();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_link_to_redis_is_left() {
    let (_shop, instance, _mysql, redis) = linked_shop().await;
    let strategies = ["redis-lua", "lock-redis", "redis-watch", "redis-stream"];
    sells_again(&strategies, &instance, &redis).await;
}

/// Many buyers fill the link, which the kernel notices after a while. A few commands do not.
#[tokio::test]
async fn a_few_commands_in_vain_are_enough_to_leave_a_link() {
    const IN_VAIN_MAX: u32 = 20;
    let link = link_to(&redis_url().await).await;
    let mut config = Config::defaults();
    config.redis_url = Secret::new(link.url().to_owned());
    config.redis.command_timeout_ms = 400;
    let redis = RedisClient::new(&config).expect("the URL is fine");
    redis.ping().await.expect("the link works");
    link.strand();
    let mut in_vain = 0;
    while redis.ping().await.is_err() {
        in_vain += 1;
        assert!(in_vain < IN_VAIN_MAX, "the link is not left");
    }
    assert!(in_vain > 0, "the link was not silent");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_link_to_the_ledger_is_left() {
    let (_shop, instance, mysql, _redis) = linked_shop().await;
    sells_again(&["mysql-batch", "mysql-atomic", "lock-redis"], &instance, &mysql).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_other_instances_are_heard_again_after_a_silent_cut() {
    let (shop, instance, _mysql, redis) = linked_shop().await;
    let other = shop.start().await;
    let item = instance.make_item(json!({ "stock": 10_000, "per_buyer_limit": 10_000 })).await;
    let buyer = instance.buyer(1);
    let mut events = buyer.events("/api/orders/events").await;
    redis.strand();
    let stranded = redis.connections();
    // Until the connection on which events come is made anew, they are lost.
    let until = Instant::now() + RECOVERY_MAX;
    let mut orders = Vec::new();
    loop {
        orders.push(json!(order_id(&other.buyer(1).buy("mysql-atomic", item).await)));
        if events.seek(PAUSE, |event| orders.contains(&event.data["id"])).await.is_ok() {
            break;
        }
        assert!(Instant::now() < until, "the stream tells of none of {} orders", orders.len());
    }
    assert_ne!(redis.connections(), stranded, "the link was not left");
}

#[tokio::test]
async fn the_server_ends_sessions_that_it_hears_no_more_of() {
    let shop = Shop::new().await;
    let idle: u64 = shop.read(sqlx::query_scalar("SELECT @@SESSION.wait_timeout")).await;
    assert_eq!(idle, 20);
}

/// A caller that goes away while BEGIN is on its way leaves a transaction of which sqlx does not know.
#[tokio::test]
async fn a_transaction_that_nobody_knows_of_ends_when_its_connection_is_given_back() {
    let shop = Shop::new().await;
    let pool = mysql_connection::pool_of(&shop.config, 1).expect("a pool");
    let mut left = pool.acquire().await.expect("a connection");
    left.execute(sqlx::raw_sql("START TRANSACTION")).await.expect("begun");
    drop(left);
    pool.execute("INSERT INTO redis_queues (item_id) VALUES (7)").await.expect("inserted");
    let committed = shop.number("SELECT COUNT(*) FROM redis_queues WHERE item_id = 7").await;
    assert_eq!(committed, 1, "what was answered as written is committed");
}

/// A caller that goes away while the server prepares its statement leaves an answer of which sqlx does not know.
#[tokio::test]
async fn an_answer_that_nobody_waits_for_is_nobody_elses() {
    let mut shop = Shop::new().await;
    let link = link_before(&mut shop).await;
    let pool = mysql_connection::pool_of(&shop.config, 1).expect("a pool");
    let statements =
        ["SELECT user_id, id FROM orders WHERE id IN (''", "DELETE FROM orders WHERE id IN (''"];
    for (statement, parameters) in
        statements.into_iter().flat_map(|one| (0..=6).map(move |count| (one, count)))
    {
        let statement = format!("{statement}{})", ", ?".repeat(parameters));
        link.trap(Trap::at(b"FROM orders").hold());
        let on = pool.clone();
        let sent = statement.clone();
        let given_up = tokio::spawn(async move {
            let query = (0..parameters).fold(sqlx::query(&sent), |query, _| query.bind(""));
            query.fetch_all(&on).await.map(drop)
        });
        link.until_sprung().await;
        given_up.abort();
        let _ = given_up.await;
        link.mend();
        for number in 1..=3_i64 {
            let asked = sqlx::query_scalar::<_, i64>("SELECT CAST(? AS SIGNED)").bind(number);
            let said = asked.fetch_one(&pool).await.map_err(|error| error.to_string());
            assert_eq!(said, Ok(number), "after {statement}");
        }
    }
}

/// The work has had half of a transaction's time when its COMMIT is sent, and nobody answers: the change may be made.
#[tokio::test]
async fn a_commit_after_long_work_has_a_time_of_its_own() {
    let mut shop = Shop::new().await;
    let link = link_before(&mut shop).await;
    let pool = mysql_connection::pool_of(&shop.config, 1).expect("a pool");
    link.trap(Trap::at(b"\x03COMMIT").hold());
    let ended = transact(&pool, |_| {
        Box::pin(async {
            sleep(TRANSACTION_MAX / 2).await;
            Ok::<_, sqlx::Error>(())
        })
    });
    let error = ended.await.expect_err("nobody answers");
    assert!(link.caught() == 1 && is_unconfirmed(&error), "{error:?}");
}
