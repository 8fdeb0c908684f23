//! Trouble with one item, or with one server, stays there: the others are sold and paid for.

use leaselock::redis::subscriber::Subscriber;
use leaselock::{AcquireOptions, Guard, LockName, Wait, redis as redis_locks};

use super::draw::{drawn_item, enter};
use crate::support::crowd::until_figure;
use crate::support::prelude::*;

/// Buyers who press at once: more than a breaker needs to see.
const BUYERS: i64 = 40;

/// Waits that end soon, and a long time between the end of a gate's wait and that of the buyer's:
/// machines that test are loaded.
fn impatient(config: &mut Config) {
    config.purchase.deadline_ms = 8_000;
    config.mysql.lock_wait_timeout_seconds = 4;
    config.redis.command_timeout_ms = 3_000;
}

/// Takes the lock that `lock-redis` would sell the item under.
async fn hold_lock(shop: &Shop, item: i64) -> Guard {
    let redis = shop.redis_client();
    let (prefix, tasks) = (&shop.config.redis.prefix, TaskTracker::new());
    let subscriber = Subscriber::start(redis.shared(), prefix, &tasks).expect("a prefix");
    let mutex = redis_locks::token::notified(redis.shared(), &subscriber, prefix, &tasks);
    let mutex = mutex.expect("a prefix");
    let name = LockName::new(&format!("{{item:{item}}}")).expect("a name");
    let options = AcquireOptions { lease: Duration::from_secs(30), wait: Wait::Never };
    mutex.acquire(&name, options).await.expect("nobody else has it")
}

/// Purchases of many buyers, beginning with buyer `first`.
async fn many_buyers(instance: &Instance, strategy: &str, item: i64, first: i64) -> Vec<Answer> {
    let buyers = first..first + BUYERS;
    join_all(buyers.map(async |id| instance.buyer(id).buy(strategy, item).await)).await
}

/// While many buyers wait for an item that cannot be had, and after they were answered, others are sold
/// and paid for.
async fn others_go_on(
    instance: &Instance,
    many_buyers: impl Future<Output = Vec<Answer>>,
) -> Vec<Answer> {
    let other = instance.make_item(json!({ "stock": 100 })).await;
    let sell = async |buyers: std::ops::Range<i64>| {
        for id in buyers {
            let buyer = instance.buyer(id);
            let sold = buyer.buy("mysql-atomic", other).await.expect_status(201);
            buyer.step(&order_id(&sold), "payment").await.expect_status(200);
        }
    };
    let (answers, ()) = tokio::join!(many_buyers, sell(1..11));
    assert!(!is_breaker_open(instance, "mysql").await, "the ledger was blamed");
    sell(11..21).await;
    assert_clean(instance, other).await;
    answers
}

/// Each of the answers is one of these.
fn assert_told(answers: &[Answer], told: &[(u16, &str)]) {
    for answer in answers {
        assert!(told.contains(&answer.brief()), "{}", answer.text);
    }
}

fn assert_contended(answers: &[Answer]) {
    for answer in answers {
        assert_eq!(answer.brief(), (503, "contended"), "{}", answer.text);
        assert_eq!(answer.json["outcome"], "none");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_that_somebody_holds_is_the_trouble_of_its_item_alone() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 1_000 }), impatient).await;
    let guard = hold_lock(&shop, item).await;
    let answers = others_go_on(&instance, many_buyers(&instance, "lock-redis", item, 100)).await;
    assert!(!guard.is_lost(), "the lock was not held all the time");
    assert_contended(&answers);
    let _ = guard.release().await;
    assert_eq!(instance.buyer(1).buy("lock-redis", item).await.status, 201);
    assert_eq!(assert_clean(&instance, item).await["orders"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lane_whose_row_somebody_holds_is_the_trouble_of_its_item_alone() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 1_000 }), impatient).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    for strategy in ["mysql-atomic", "mysql-batch", "lock-redis"] {
        let buyers = many_buyers(&instance, strategy, item, 100);
        // Also those whose batch waits for the row: it tries none of them again after their time.
        assert_contended(&others_go_on(&instance, buyers).await);
    }
    holder.rollback().await.expect("the row is free");
    for strategy in ["mysql-batch", "lock-redis", "mysql-atomic"] {
        let ask = || async { instance.buyer(1).buy(strategy, item).await };
        until("the lane to go on", ask, |answer| answer.status != 503).await;
    }
    assert_clean(&instance, item).await;
}

/// Whoever waits for a held stock row in vain is told 503 `contended`: nothing changed, and no server is blamed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_row_makes_every_change_of_its_item_contended() {
    let (shop, instance) =
        Shop::open_with(|config| config.mysql.lock_wait_timeout_seconds = 1).await;
    let item = instance.make_item(json!({ "stock": 1 })).await;
    let others = instance.make_items(2, &json!({})).await;
    let order = order_id(&instance.buyer(1).buy("mysql-atomic", item).await);
    let admin = instance.admin();
    let held = hold_stock_row(&shop.pool, item).await;
    let beside = hold_stock_row(&shop.pool, others[1]).await;
    let path = format!("/api/items/{item}/waiting");
    let cart = json!({ "lines": [{ "item_id": others[0] }, { "item_id": others[1] }] });
    let buyer = instance.buyer(2);
    let (cancelled, joined, edited, reserved) = tokio::join!(
        async { instance.buyer(1).step(&order, "cancellation").await },
        async { buyer.post(&path, &json!({})).await },
        async { admin.edit(item, json!({ "stock_delta": 1 })).await },
        async { instance.buyer(3).post("/api/reservations", &cart).await },
    );
    assert_contended(&[cancelled, joined, edited, reserved]);
    assert!(!is_breaker_open(&instance, "mysql").await, "the ledger was blamed");
    held.rollback().await.expect("the row is free");
    beside.rollback().await.expect("the row is free");
    assert_eq!(instance.buyer(1).step(&order, "cancellation").await.status, 200);
    assert_clean(&instance, item).await;
}

/// Entries into a draw whose row is held take no connection from others.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_into_a_draw_whose_row_is_held_are_the_trouble_of_its_item_alone() {
    let (shop, instance) = Shop::open_with(impatient).await;
    let drawn = drawn_item(&instance, 1, 300).await;
    let holder = hold_stock_row(&shop.pool, drawn).await;
    let entries = join_all((100..160).map(async |id| enter(&instance.buyer(id), drawn).await));
    assert_contended(&others_go_on(&instance, entries).await);
    holder.rollback().await.expect("the row is free");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_holds_takes_no_permit_of_mysql_version_from_other_items() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 1_000 }), |config| {
        impatient(config);
        // Those of the held row wait until the test lets go of it.
        config.purchase.deadline_ms = 30_000;
        config.lifecycle.drain_ms = 30_000;
    })
    .await;
    let other = instance.make_item(json!({ "stock": 100 })).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let others = async {
        let waiting = usize::try_from(BUYERS).expect("a few");
        until_in_flight(&instance, waiting).await;
        for id in 1..5 {
            instance.buyer(id).buy("mysql-version", other).await.expect_status(201);
        }
        // They did not wait until those of the first item had given up.
        until_in_flight(&instance, waiting).await;
        holder.rollback().await.expect("the row is free");
    };
    let buyers = many_buyers(&instance, "mysql-version", item, 100);
    let (answers, ()) = tokio::join!(buyers, others);
    assert_told(&answers, &[(201, ""), (503, "contended")]);
    assert_clean(&instance, other).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_that_somebody_holds_does_not_use_up_the_purchases_that_may_run() {
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 1_000 }), |config| {
        impatient(config);
        config.purchase.in_flight_max = 20;
    })
    .await;
    let other = instance.make_item(json!({ "stock": 100 })).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let others = async {
        until_figure(&instance, "seckill_purchases_shed_total", |shed| shed >= 1.0).await;
        instance.buyer(1).buy("mysql-atomic", other).await.expect_status(201);
    };
    let buyers = many_buyers(&instance, "mysql-atomic", item, 100);
    let (answers, ()) = tokio::join!(buyers, others);
    assert_told(&answers, &[(503, "contended"), (503, "overloaded")]);
    holder.rollback().await.expect("the row is free");
    assert_clean(&instance, other).await;
}

/// Connections that all wait for rows, and items that find none: more of them than a breaker needs to see.
const CONNECTIONS: u32 = 5;
const ITEMS_WITHOUT: usize = 24;
/// Rounds of purchases and reads: in one of them, most find no connection.
const ROUNDS_MAX: i64 = 4;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchases_that_find_all_connections_in_use_blame_no_server() {
    let (shop, instance) = Shop::open_with(|config| {
        config.mysql.pool_max = CONNECTIONS;
        config.mysql.acquire_timeout_ms = 1_500;
        config.mysql.lock_wait_timeout_seconds = 5;
        config.purchase.deadline_ms = 30_000;
        // The items are known, and not read again.
        config.purchase.item_age_ms_max = 600_000;
    })
    .await;
    let item = json!({ "stock": 100 });
    let held = instance.make_items(CONNECTIONS as usize, &item).await;
    let others = instance.make_items(ITEMS_WITHOUT, &item).await;
    let mut orders = Vec::new();
    for item in &others {
        orders.push(order_id(&instance.buyer(1).buy("mysql-atomic", *item).await));
    }
    let mut holder = hold_stock_row(&shop.pool, held[0]).await;
    for item in &held {
        let lock = sqlx::query("SELECT available FROM stock WHERE item_id = ? FOR UPDATE");
        lock.bind(item).execute(&mut *holder).await.expect("the row is locked");
    }
    let buy = async |id: i64, item: i64| instance.buyer(id).buy("mysql-atomic", item).await;
    let waiting = join_all(held.iter().map(|item| buy(2, *item)));
    let round = async |buyer: i64| {
        let reader = instance.buyer(buyer);
        let reads = join_all((0..ITEMS_WITHOUT).map(|_| reader.get("/api/orders")));
        let purchases = join_all(others.iter().map(|item| buy(buyer, *item)));
        let (answers, reads) = tokio::join!(purchases, reads);
        assert_told(&answers, &[(201, ""), (503, "overloaded")]);
        let refused = |answers: &[Answer]| answers.iter().filter(|one| one.status == 503).count();
        [refused(&answers), refused(&reads)]
    };
    let beside = async {
        // All connections wait for a row.
        until_running(&shop.pool, "%", CONNECTIONS.into()).await;
        // One that waits for its row may give up and let another one have its connection for a moment: then once more.
        let mut refused = [0; 2];
        for buyer in 3..3 + ROUNDS_MAX {
            refused = round(buyer).await;
            if refused.iter().all(|count| *count > ITEMS_WITHOUT / 2) {
                break;
            }
        }
        let are_most = refused.iter().all(|count| *count > ITEMS_WITHOUT / 2);
        assert!(are_most, "{refused:?} purchases and reads without a connection");
        let payment = instance.buyer(1).step(&orders[0], "payment").await;
        assert!(!is_breaker_open(&instance, "mysql").await, "the ledger was blamed");
        holder.rollback().await.expect("the rows are free");
        payment
    };
    let (waiting, payment) = tokio::join!(waiting, beside);
    assert_told(&[payment], &[(200, ""), (503, "overloaded")]);
    for answer in waiting {
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    assert_all_clean(&instance, &others).await;
}

/// Seconds that a session idles before the test ends it.
const IDLE_SECONDS: u64 = 3;

/// Ends the sessions of the shop's ledger that have idled, as the server does after its `wait_timeout`;
/// returns their number.
async fn end_idle_sessions(shop: &Shop) -> usize {
    tokio::time::sleep(Duration::from_secs(IDLE_SECONDS)).await;
    let idle = "SELECT CAST(ID AS UNSIGNED) FROM information_schema.PROCESSLIST \
         WHERE DB = DATABASE() AND COMMAND = 'Sleep' AND TIME >= ? AND ID <> CONNECTION_ID()";
    let idle: Vec<u64> = shop.read_all(sqlx::query_scalar(idle).bind(IDLE_SECONDS - 1)).await;
    for id in &idle {
        // It may have ended by itself.
        let _ = sqlx::raw_sql(&format!("KILL {id}")).execute(&shop.pool).await;
    }
    idle.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_the_ledger_has_closed_while_lock_redis_idled_are_no_failure() {
    let (shop, instance) = Shop::open().await;
    let items = instance.make_items(10, &json!({ "stock": 100 })).await;
    // One buyer has one lock, so each item has buyers of its own.
    let buyers_of = |item: i64| (item + 1) * 100;
    for item in &items[1..] {
        instance.buyer(1).buy("lock-redis", *item).await.expect_status(201);
    }
    let ended = end_idle_sessions(&shop).await;
    assert!(ended > 0, "no session idled");
    let crowds =
        items.iter().map(|item| many_buyers(&instance, "lock-redis", *item, buyers_of(*item)));
    let crowds = async { join_all(crowds).await.into_iter().flatten().collect::<Vec<_>>() };
    for answer in others_go_on(&instance, crowds).await {
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
    assert_all_clean(&instance, &items).await;
}
