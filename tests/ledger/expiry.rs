//! The sweep that ends holds: whose clock it goes by, whose errors it keeps apart, and what it must
//! not overwrite.

use std::time::Instant;

use ledger::Ledger;
use ledger::order::{OrderSteps, Overdue, is_of_one_order};
use ledger::waiting_list::WaitingLine;
use sqlx::Executor;

use crate::process::program::faketime;
use crate::support::crowd::metric;
use crate::support::prelude::*;

/// The hold of the orders that must not end yet.
const HOLD_SECONDS: i64 = 900;
/// How much of it may be over when a test on a busy machine looks.
const LATE_SECONDS: i64 = 120;
/// A buyer whose id, as a parameter, is found in no request of others.
const SILENT: i64 = 0x0001_0203_0405_0607;

/// Lets instances end no hold while a test runs.
fn never_swept(config: &mut Config) {
    config.job.expire_period_ms = 3_600_000;
}

/// Buys one unit; answers the order.
async fn buy(instance: &Instance, buyer: i64, item: i64) -> Value {
    let bought = instance.buyer(buyer).buy("mysql-atomic", item).await.expect_status(201);
    bought.json
}

async fn wait_for_status(instance: &Instance, buyer: i64, order: &Value, status: &str) {
    let path = format!("/api/orders/{}", order["id"].as_str().expect("an id"));
    instance.buyer(buyer).until(&path, |seen| seen.json["status"] == status).await;
}

/// Counts the runs of the sweep that have ended so.
async fn runs(client: &Client, result: &str) -> u64 {
    let name = format!("seckill_job_runs_total{{job=\"expire\",result=\"{result}\"}} ");
    let metrics = client.get("/metrics").await.text;
    let count = metrics.lines().find_map(|line| line.strip_prefix(name.as_str())?.parse().ok());
    count.unwrap_or(0)
}

/// Waits until the sweep has begun and ended at least once from now on.
async fn wait_for_a_sweep(client: &Client) {
    let all = async || runs(client, "ok").await + runs(client, "failed").await;
    let before = all().await;
    // The first one may have begun before.
    eventually("a sweep", || async { (all().await >= before + 2).then_some(()) }).await;
}

/// The sweep runs twice a second in each instance: what it reads must not grow with the orders.
#[tokio::test]
async fn the_sweep_reads_one_order_of_each_item() {
    const ORDERS: i64 = 3_000;
    let (shop, instance) = Shop::open_with(|config| config.job.expire_period_ms = 600_000).await;
    let full = instance.make_item(json!({})).await;
    let fill = "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
         request_key, buyer_bucket, created_at, expires_at) \
         WITH RECURSIVE numbers AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n < 60) \
         SELECT UUID(), ?, high.n * 60 + low.n, 1, 1, 'pending', 'filled', \
         'filled', 0, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 1 HOUR \
         FROM numbers AS low JOIN numbers AS high WHERE high.n <= ? DIV 60";
    shop.change(sqlx::query(fill).bind(full).bind(ORDERS)).await;
    shop.pool.execute("ANALYZE TABLE items, orders").await.expect("analysed");
    let steps = steps_of(&shop);
    // The rows that are read in the order of an index.
    let before = figure(&steps, "Handler_read_next").await;
    assert_eq!(steps.overdue_items().await.expect("listed"), []);
    let read = figure(&steps, "Handler_read_next").await - before;
    assert!(read < ORDERS / 2, "{read} rows read of {ORDERS} orders");
}

/// Steps of orders that have one session.
fn steps_of(shop: &Shop) -> OrderSteps {
    let pool = mysql_connection::pool_of(&shop.config, 1).expect("the URL is fine");
    let metrics = Metrics::new();
    let breaker = Breakers::new(&metrics).mysql;
    let line = WaitingLine::new(Clock::default(), Outbox::default(), metrics, 1);
    OrderSteps { ledger: Ledger::new(pool, breaker), line }
}

/// What their session has counted.
async fn figure(steps: &OrderSteps, name: &str) -> i64 {
    let statement = format!("SHOW SESSION STATUS LIKE '{name}'");
    let read = sqlx::query_as(&statement).fetch_one(&steps.ledger.pool);
    let (_, count): (String, String) = read.await.expect("a figure of the session");
    count.parse().expect("a number")
}

/// An order whose other item is held waits for nothing, and others of its item may go on. While its own item is held,
/// none of them can: then the item is waited for, in a transaction of its own.
#[tokio::test]
async fn an_expiry_waits_for_its_own_item_alone() {
    let (shop, instance) = Shop::open_with(|config| {
        config.job.expire_period_ms = 3_600_000;
        config.mysql.lock_wait_timeout_seconds = 1;
    })
    .await;
    let items = instance.make_items(2, &json!({})).await;
    let cart = json!({ "lines": [{ "item_id": items[0] }, { "item_id": items[1] }] });
    instance.buyer(1).post("/api/reservations", &cart).await.expect_status(201);
    shop.let_holds_pass(HOLD_SECONDS).await;
    let steps = steps_of(&shop);
    let item = ItemId::new(items[0]).expect("positive");
    for (held, transactions, is_of_one) in [(items[1], 1, true), (items[0], 2, false)] {
        let holder = hold_stock_row(&shop.pool, held).await;
        let before = figure(&steps, "Com_begin").await;
        let Err(error) = steps.expire(item, Overdue::First(9)).await else { panic!("it is held") };
        assert_eq!(figure(&steps, "Com_begin").await - before, transactions, "{error}");
        assert_eq!(is_of_one_order(&error), is_of_one, "{error}");
        holder.rollback().await.expect("the row is free");
    }
}

#[tokio::test]
async fn an_order_that_cannot_expire_stops_no_other() {
    let (shop, instance) = Shop::open_with(|config| config.job.expire_period_ms = 20).await;
    // The first item of the sweep.
    let spoiled = instance.make_item(json!({})).await;
    let item = instance.make_item(json!({})).await;
    let stuck = buy(&instance, 1, spoiled).await;
    let beside_it = buy(&instance, 2, spoiled).await;
    let elsewhere = buy(&instance, 1, item).await;
    // To give back one unit more than was counted is what the table refuses.
    let count = "UPDATE buyer_limits SET bought = bought + ? WHERE item_id = ? AND user_id = 1";
    shop.change(sqlx::query(count).bind(-1).bind(spoiled)).await;
    shop.let_holds_pass(HOLD_SECONDS).await;
    wait_for_status(&instance, 1, &elsewhere, "expired").await;
    wait_for_status(&instance, 2, &beside_it, "expired").await;
    let job = instance.stranger().until_job("expire", |job| job["ok"] == false).await;
    let said = job["said"].to_string();
    assert!(said.contains("1 item failed"), "{said}");
    wait_for_status(&instance, 1, &stuck, "pending").await;
    shop.change(sqlx::query(count).bind(1).bind(spoiled)).await;
    wait_for_status(&instance, 1, &stuck, "expired").await;
    for item in [spoiled, item] {
        assert_has(&instance.audit(item).await, json!({ "held": 0, "available": 10 }));
    }
}

/// A run tries ten pages one by one. With pages of one order, ten that cannot expire fill them; also the next run, which goes
/// on behind them, tells of them.
#[tokio::test]
async fn an_order_behind_many_stuck_ones_expires() {
    const STUCK: i64 = 10;
    let (shop, instance, item) = Shop::selling_with(json!({"stock": STUCK + 1}), |config| {
        config.job.expire_period_ms = 20;
        config.job.expire_batch_max = 1;
    })
    .await;
    for buyer in 1..=STUCK {
        buy(&instance, buyer, item).await;
    }
    let behind = buy(&instance, STUCK + 1, item).await;
    let spoil = "UPDATE buyer_limits SET bought = bought - 1 WHERE item_id = ? AND user_id <= ?";
    assert_eq!(shop.change(sqlx::query(spoil).bind(item).bind(STUCK)).await, 10);
    shop.let_holds_pass(HOLD_SECONDS).await;
    wait_for_status(&instance, STUCK + 1, &behind, "expired").await;
    let stranger = instance.stranger();
    let [ok, failed] = [runs(&stranger, "ok").await, runs(&stranger, "failed").await];
    let since = Instant::now();
    until("further runs", || runs(&stranger, "failed"), |runs| *runs >= failed + 8).await;
    let ok = runs(&stranger, "ok").await - ok;
    // On a slow machine a run ends before the sweep, after a second.
    assert!(ok <= since.elapsed().as_secs() + 1, "{ok} runs told of no stuck order");
}

/// A batch is too slow for one transaction. Only its first statement is held: that of a single order has another text.
#[tokio::test]
async fn orders_of_a_batch_that_is_too_slow_expire_one_by_one() {
    let (mut shop, beside, item) = Shop::selling_with(json!({}), never_swept).await;
    for buyer in [1, 2] {
        buy(&beside, buyer, item).await;
    }
    shop.let_holds_pass(HOLD_SECONDS).await;
    let link = link_before(&mut shop).await;
    link.trap(Trap::at(b"  ORDER BY expires_at LIMIT ? FOR UPDATE").hold().always());
    shop.config.job.expire_period_ms = 20;
    let _sweeping = shop.start().await;
    tokio::time::timeout(BOUND, link.holds(1)).await.expect("the sweep comes");
    // Longer than a transaction may take.
    until(2 * BOUND, || beside.audit(item), |audit| audit["held"] == 0).await;
    assert_clean(&beside, item).await;
}

/// Buyer 1 has the batch fail at once. The order behind never gets an answer, whenever its buyer's limit is asked for.
#[tokio::test]
async fn an_order_without_an_answer_stops_none_behind_it() {
    let (mut shop, beside, item) = Shop::selling_with(json!({}), never_swept).await;
    buy(&beside, 1, item).await;
    let silent = buy(&beside, SILENT, item).await;
    buy(&beside, 3, item).await;
    let spoil = "UPDATE buyer_limits SET bought = bought - 1 WHERE item_id = ? AND user_id = 1";
    assert_eq!(shop.change(sqlx::query(spoil).bind(item)).await, 1);
    shop.let_holds_pass(HOLD_SECONDS).await;
    let link = link_before(&mut shop).await;
    link.trap(Trap::at(&SILENT.to_le_bytes()).cut_server_in_silence().always());
    shop.config.job.expire_period_ms = 20;
    let _sweeping = shop.start().await;
    // Longer than a transaction may take.
    until(2 * BOUND, || beside.audit(item), |audit| audit["held"] == 2).await;
    assert!(link.caught() > 0, "it has an answer");
    link.mend();
    wait_for_status(&beside, SILENT, &silent, "expired").await;
}

/// An order of one item never gets an answer. The next sweep ends the holds of other items before this one is given up.
#[tokio::test]
async fn an_item_without_an_answer_delays_no_later_sweep() {
    let (mut shop, beside, silent) = Shop::selling_with(json!({}), never_swept).await;
    let item = beside.make_item(json!({})).await;
    let unanswered = buy(&beside, SILENT, silent).await;
    shop.let_holds_pass(HOLD_SECONDS).await;
    let link = link_before(&mut shop).await;
    link.trap(Trap::at(&SILENT.to_le_bytes()).cut_server_in_silence().always());
    shop.config.job.expire_period_ms = 20;
    let _sweeping = shop.start().await;
    eventually("the sweep to get no answer", || async { (link.caught() > 0).then_some(()) }).await;
    let later = buy(&beside, 1, item).await;
    shop.let_holds_pass(HOLD_SECONDS).await;
    wait_for_status(&beside, 1, &later, "expired").await;
    assert_eq!(link.caught(), 1, "the other item was given up, and tried again");
    link.mend();
    wait_for_status(&beside, SILENT, &unanswered, "expired").await;
}

/// How long the hold of an order still lasts by the database's clock.
async fn seconds_left(shop: &Shop, order: &Value) -> i64 {
    let left = "SELECT CAST(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), expires_at) AS SIGNED) \
         FROM orders WHERE id = ? AND status = 'pending'";
    let left = sqlx::query_scalar(left).bind(order["id"].as_str().expect("an id"));
    let left: Vec<i64> = shop.read_all(left).await;
    *left.first().unwrap_or_else(|| panic!("its hold is over: {order}"))
}

#[tokio::test]
async fn a_hold_lasts_by_the_databases_clock_whatever_an_instances_says() {
    let shop = Shop::with(|config| config.job.expire_period_ms = 20).await;
    let (right, ahead, behind) = (shop.start().await, shop.start().await, shop.start().await);
    ahead.clock.shift(time::Duration::HOUR);
    behind.clock.shift(-time::Duration::HOUR);
    let since = OffsetDateTime::now_utc() - time::Duration::hours(3);
    let since = since.format(&Rfc3339).expect("a time");
    let body = json!({ "hold_seconds": HOLD_SECONDS, "starts_at": since, "stock": 100 });
    let item = right.make_item(body).await;
    // One that is really wrong, not only the clock that tests can move.
    let addr = free_addr();
    let library = faketime();
    let settings = [
        ("SECKILL_JOB_EXPIRE_PERIOD_MS", "20"),
        ("LD_PRELOAD", library.to_str().expect("a path")),
        ("FAKETIME", "+3600s"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let _process = serve(&shop, &addr, &settings).await;
    let addr = addr.parse().expect("an address");
    // Good for an hour by its clock, too.
    let process = |buyer| Client::new(addr, Some(ahead.token(buyer, Role::Buyer)));

    let strategies = ["mysql-atomic", "mysql-batch", "redis-stream", "lock-redis"];
    let mut orders = Vec::new();
    for (number, strategy) in (1_i64..).zip(strategies) {
        let buyers = [
            right.buyer(number * 10),
            ahead.buyer(number * 10 + 1),
            behind.buyer(number * 10 + 2),
            process(number * 10 + 3),
        ];
        for buyer in buyers {
            let told = buyer.buy(strategy, item).await;
            assert!([201, 202].contains(&told.status), "{strategy}: {}", told.text);
            let written = buyer.outcome(told.clone()).await;
            // What the buyer is shown is what counts.
            for field in ["created_at", "expires_at"] {
                let kept = buyer.get(&format!("/api/orders/{}", order_id(&told))).await;
                assert_eq!(kept.json[field], told.json[field], "{strategy}: {field}");
            }
            orders.push(written.json);
        }
    }
    for client in [right.stranger(), ahead.stranger(), behind.stranger(), process(1)] {
        wait_for_a_sweep(&client).await;
    }
    for order in &orders {
        let left = seconds_left(&shop, order).await;
        let expected = HOLD_SECONDS - LATE_SECONDS..=HOLD_SECONDS;
        assert!(expected.contains(&left), "{left} s are left of {HOLD_SECONDS}: {order}");
    }
    // And it does end.
    shop.let_holds_pass(HOLD_SECONDS).await;
    right.until_audit(item, "held", 0).await;
}

#[tokio::test]
async fn a_payment_is_stamped_by_the_databases_clock() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let order = buy(&instance, 1, item).await;
    instance.clock.shift(time::Duration::HOUR);
    let id = order["id"].as_str().expect("an id");
    let paid = instance.buyer(1).step(id, "payment").await.expect_status(200);
    let ahead = "SELECT CAST(TIMESTAMPDIFF(SECOND, UTC_TIMESTAMP(6), paid_at) AS SIGNED) \
         FROM orders WHERE id = ?";
    let ahead: i64 = shop.read(sqlx::query_scalar(ahead).bind(id)).await;
    assert!((-LATE_SECONDS..=0).contains(&ahead), "paid {ahead} s from now");
    let kept = instance.buyer(1).get(&format!("/api/orders/{id}")).await.json;
    assert_eq!(kept["paid_at"], paid.json["paid_at"]);
}

#[tokio::test]
async fn an_expiry_that_locked_nothing_does_not_overwrite_a_payment() {
    let (mut shop, beside, item) = Shop::selling_with(json!({}), never_swept).await;
    let (paid, unpaid) = (buy(&beside, 1, item).await, buy(&beside, 2, item).await);
    shop.let_holds_pass(HOLD_SECONDS).await;
    // An engine without SKIP LOCKED: the sweep reads, and locks nothing.
    let link = link_before(&mut shop).await;
    link.blank(b"FOR UPDATE SKIP LOCKED");
    link.trap(Trap::at(b"UPDATE orders SET status").hold().always());
    shop.config.job.expire_period_ms = 20;
    let sweeping = shop.start().await;
    // It has read both orders as pending, and has changed none.
    tokio::time::timeout(BOUND, link.holds(1)).await.expect("the sweep comes");
    beside.buyer(1).step(paid["id"].as_str().expect("an id"), "payment").await.expect_status(200);
    link.mend();
    wait_for_status(&beside, 2, &unpaid, "expired").await;
    wait_for_a_sweep(&sweeping.stranger()).await;
    wait_for_status(&beside, 1, &paid, "paid").await;
    let audit = beside.audit(item).await;
    let figures = (&audit["sold"], &audit["available"], &audit["clean"]);
    assert_eq!(figures, (&json!(1), &json!(9), &json!(true)), "{audit}");
}

/// Batches take the rows of `buyer_limits` in the order of the buyers. The sweep takes them in the
/// same order, whichever of the orders ends first.
#[tokio::test]
async fn the_sweep_takes_buyers_in_the_order_of_the_batches() {
    let (shop, maker, item) = Shop::selling_with(json!({}), |config| {
        config.job.expire_period_ms = 3_600_000;
        config.mysql.lock_wait_timeout_seconds = 20;
    })
    .await;
    // The order of buyer 9 ends first.
    let (last, first) = (buy(&maker, 9, item).await, buy(&maker, 3, item).await);
    shop.let_holds_pass(HOLD_SECONDS).await;
    // A batch with both buyers has counted the first of them.
    let count = "UPDATE buyer_limits SET allowed = allowed WHERE item_id = ? AND user_id = ?";
    let mut batch = shop.hold(sqlx::query(count).bind(item).bind(3)).await;
    let sweeping = shop.start_with(|config| config.job.expire_period_ms = 20).await;
    until_running(&shop.pool, "UPDATE buyer_limits SET bought = bought - %", 1).await;
    let counted = sqlx::query(count).bind(item).bind(9).execute(&mut *batch).await;
    counted.expect("the batch and the sweep wait for each other in a circle");
    batch.commit().await.expect("committed");
    wait_for_status(&sweeping, 3, &first, "expired").await;
    wait_for_status(&sweeping, 9, &last, "expired").await;
}

/// The count of deadlocks that a server has seen.
async fn deadlocks(shop: &Shop) -> i64 {
    let statement = "SELECT CAST(COUNT AS SIGNED) FROM information_schema.INNODB_METRICS \
                     WHERE NAME = 'lock_deadlocks'";
    shop.number(statement).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_expiry_and_cancellation_do_not_deadlock() {
    const BUYERS: i64 = 32;
    // A server of its own, since only the server counts deadlocks.
    let server = own_mysql(MysqlOptions::temporary()).await;
    let rounds = if is_whole() { 12 } else { 4 };
    let url = server.url_of("seckill_deadlocks");
    let shop = Shop::with(|config| {
        config.database_url = Secret::new(url.as_str());
        config.job.expire_period_ms = 5;
    })
    .await;
    let instances = [shop.start().await, shop.start().await];
    let item = json!({ "stock": 100_000, "per_buyer_limit": 10_000, "hold_seconds": HOLD_SECONDS });
    let item = instances[0].make_item(item).await;
    let press = async |round: usize, buyer: i64| {
        let turn = round + usize::try_from(buyer).expect("positive");
        let client = instances[turn % 2].buyer(buyer);
        // A busy machine may say: try again.
        let bought = client.until_sold("mysql-batch", item).await;
        if buyer % 4 == 0 {
            client.step(&order_id(&bought), "cancellation").await;
        }
    };
    let expired = async || {
        let mut sum = 0.0;
        for instance in &instances {
            sum += metric(instance, "seckill_orders_expired_total").await;
        }
        sum
    };
    for round in 0..rounds {
        // Whoever has the highest number ends first, against the order of the batches.
        let turned_around = "UPDATE orders SET expires_at = UTC_TIMESTAMP(6) - INTERVAL user_id SECOND \
                             WHERE status = 'pending'";
        let end_holds = async {
            tokio::time::sleep(Duration::from_millis(3)).await;
            let _ = sqlx::query(turned_around).execute(&shop.pool).await;
        };
        tokio::join!(join_all((1..=BUYERS).map(|buyer| press(round, buyer))), end_holds);
    }
    assert!(expired().await > 0.0, "no order has expired meanwhile");
    assert_eq!(deadlocks(&shop).await, 0);
    assert_clean(&instances[0], item).await;
}
