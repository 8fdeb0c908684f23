//! An item whose row is held, and an item with a long line: what the others notice of it.

use ledger::rows;
use ledger::waiting_list::{WaitingLine, Waitlist};
use ledger::{ItemPermit, Ledger};
use shop_domain::Item;
use sqlx::MySqlConnection;

use super::*;

/// Buyers of a line that is long for the ledger, and short enough for a test.
const LONG: i64 = 5_000;
/// The first buyer of such a line.
const FIRST: i64 = 100_000;

/// Puts buyers into a line as if each had joined.
async fn fill_line(pool: &Database, item: i64, buyers: i64) {
    let fill = "INSERT INTO waiting_list (item_id, user_id, status, live, joined_at) \
         WITH RECURSIVE numbers AS (SELECT 0 AS n UNION ALL SELECT n + 1 FROM numbers WHERE n + 1 < 1000) \
         SELECT ?, ? + high.n * 1000 + low.n, 'waiting', 1, UTC_TIMESTAMP(6) \
         FROM numbers AS low JOIN numbers AS high WHERE high.n * 1000 + low.n < ? \
         ORDER BY high.n, low.n";
    let fill = sqlx::query(fill).bind(item).bind(FIRST).bind(buyers);
    fill.execute(pool).await.expect("the line is filled");
}

async fn waiting(shop: &Shop, item: i64) -> i64 {
    let count = "SELECT COUNT(*) FROM waiting_list WHERE item_id = ? AND status = 'waiting'";
    shop.read(sqlx::query_scalar(count).bind(item)).await
}

async fn pay(client: &Client, order: &str) -> u16 {
    client.step(order, "payment").await.status
}

/// Joins, leaves, cancellations and late payments of an item whose row is held wait for each other; another
/// item sells all the time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn steps_of_an_item_whose_row_is_held_leave_connections_to_other_items() {
    let (shop, instance) = Shop::open_with(|config| {
        config.mysql.pool_max = 8;
        config.job.expire_period_ms = 20;
    })
    .await;
    let late = instance.make_item(json!({ "stock": 12, "strategy": "mysql-atomic" })).await;
    let mut overdue = Vec::new();
    for buyer in 1..=12 {
        overdue.push(order_id(&instance.buyer(buyer).buy("default", late).await));
    }
    shop.let_holds_pass(1_000).await;
    let path = format!("/api/orders/{}", overdue[11]);
    instance.buyer(12).until(&path, |seen| seen.json["status"] == "expired").await;
    let (item, orders) = sold_out(&instance, 12, json!({})).await;
    let free = instance.make_item(json!({ "stock": 100 })).await;
    let held = hold_stock_row(&shop.pool, item).await;
    let held_too = hold_stock_row(&shop.pool, late).await;
    let clients: Vec<_> = (1..=60).map(|buyer| instance.buyer(buyer)).collect();
    let steps = async {
        let cancelled = (0..12).map(|at| clients[at].step(&orders[at], "cancellation"));
        let paid = (0..12).map(|at| pay(&clients[at], &overdue[at]));
        let joined = (20..40).map(|at| join(&clients[at], item));
        let left = (40..50).map(|at| leave(&clients[at], item));
        tokio::join!(join_all(cancelled), join_all(paid), join_all(joined), join_all(left))
    };
    let sales = async {
        until_running(&shop.pool, "%stock%", 1).await;
        let mut sold = Vec::new();
        for buyer in 200..240 {
            sold.push(instance.buyer(buyer).buy("mysql-atomic", free).await.brief().0);
        }
        sold
    };
    let ((cancelled, paid, joined, left), sold) = tokio::join!(steps, sales);
    assert_eq!(sold, [201; 40], "the other item sells");
    assert!(!is_breaker_open(&instance, "mysql").await, "the server answers all the time");
    for answer in cancelled.iter().chain(&joined).chain(&left) {
        assert!([503, 504].contains(&answer.status), "{}", answer.text);
    }
    assert!(paid.iter().all(|status| [503, 504].contains(status)), "{paid:?}");
    let contended = cancelled.iter().chain(&joined).filter(|answer| answer.code() == "contended");
    assert!(contended.count() > 0, "an item with too many steps is told so");
    held.rollback().await.expect("released");
    held_too.rollback().await.expect("released");
    assert_eq!(clients[0].step(&orders[0], "cancellation").await.status, 200);
    assert_eq!(pay(&clients[0], &overdue[0]).await, 200);
    assert_all_clean(&instance, &[item, late, free]).await;
}

#[tokio::test]
async fn a_held_row_of_one_item_delays_no_offer_of_another_item() {
    let (shop, instance) = Shop::open_with(|config| config.waiting_list.sweep_ms = 20).await;
    let mut items = Vec::new();
    for _ in 0..2 {
        let (item, orders) = sold_out(&instance, 1, json!({ "offer_seconds": 600 })).await;
        all_join(&instance, 11..=12, item).await;
        assert_eq!(instance.buyer(1).step(&orders[0], "cancellation").await.status, 200);
        items.push(item);
    }
    // Until both lines are tended: the order of the items is the database's.
    for (stuck, other) in [(0, 1), (1, 0)] {
        let held = hold_stock_row(&shop.pool, items[stuck]).await;
        shop.let_holds_pass(601).await;
        until_status(&instance, 11, items[other], "lapsed").await;
        assert_eq!(status(&instance, 11, items[stuck]).await, "offered", "it is held");
        let failed = "seckill_job_runs_total{job=\"waiting-list\",result=\"failed\"} ";
        instance.stranger().until("/metrics", |seen| seen.text.contains(failed)).await;
        held.rollback().await.expect("released");
        until_status(&instance, 11, items[stuck], "lapsed").await;
        for item in &items {
            for buyer in 11..=12 {
                leave(&instance.buyer(buyer), *item).await;
            }
            // The unit is everybody's; it is sold again, and offered again.
            let order = order_id(&instance.buyer(20).buy("mysql-atomic", *item).await);
            all_join(&instance, 11..=12, *item).await;
            instance.buyer(20).step(&order, "cancellation").await.expect_status(200);
        }
    }
    assert_all_clean(&instance, &items).await;
}

#[tokio::test]
async fn the_line_of_a_paused_item_ends_in_short_transactions() {
    let (shop, instance) = Shop::open_with(|config| config.waiting_list.sweep_ms = 60_000).await;
    let (item, orders) = sold_out(&instance, 1, json!({})).await;
    fill_line(&shop.pool, item, LONG).await;
    instance.admin().edit(item, json!({ "paused": true })).await.expect_status(200);
    // The first transaction ends the back of the line.
    assert_eq!(waiting(&shop, item).await, LONG - 1_000);
    assert_eq!(status(&instance, FIRST, item).await, "waiting");
    assert_eq!(status(&instance, FIRST + LONG - 1, item).await, "ended");
    let between = instance.buyer(1).step(&orders[0], "cancellation").await.status;
    assert_eq!(between, 200, "others come between");
    let sweeper = shop.start_with(|config| config.waiting_list.sweep_ms = 20).await;
    until_status(&sweeper, FIRST, item, "ended").await;
    until("the line to end", || waiting(&shop, item), |left| *left == 0).await;
    assert_clean(&sweeper, item).await;
}

/// One transaction for all offers of a large restock would keep the stock row from everybody else, or take too long.
#[tokio::test]
async fn a_large_restock_reaches_a_long_line_in_parts() {
    const UNITS: i64 = 3_500;
    let (shop, instance) = Shop::open_with(|config| config.waiting_list.sweep_ms = 60_000).await;
    let (item, _) = sold_out(&instance, 1, json!({})).await;
    fill_line(&shop.pool, item, LONG).await;
    let edited = instance.admin().edit(item, json!({ "stock_delta": UNITS })).await;
    let units = (edited.status, &edited.json["total"], &edited.json["available"]);
    assert_eq!(units, (200, &json!(1_001), &json!(0)), "{}", edited.text);
    assert_eq!(waiting(&shop, item).await, LONG - 1_000);
    instance.buyer(2).buy("mysql-atomic", item).await.expect_problem(409, "sold_out");
    assert_clean(&instance, item).await;
    let sweeper = shop.start_with(|config| config.waiting_list.sweep_ms = 20).await;
    until("all offers", || waiting(&shop, item), |left| *left == LONG - UNITS).await;
    assert_eq!(status(&sweeper, FIRST + UNITS - 1, item).await, "offered", "the line in its order");
    assert_clean(&sweeper, item).await;
}

/// The rows of indexes that a connection has read so far.
async fn rows_read(connection: &mut MySqlConnection) -> i64 {
    let read = sqlx::query_as("SHOW SESSION STATUS LIKE 'Handler_read%'").fetch_all(connection);
    let rows: Vec<(String, String)> = read.await.expect("figures of the session");
    rows.iter()
        .filter(|(name, _)| ["Handler_read_next", "Handler_read_rnd_next"].contains(&&**name))
        .map(|(_, count)| count.parse::<i64>().expect("a number"))
        .sum()
}

async fn join_directly(
    line: &WaitingLine,
    connection: &mut MySqlConnection,
    permit: &ItemPermit,
    item: &Item,
    buyer: i64,
) -> i64 {
    let before = rows_read(connection).await;
    let joined = line.join(connection, permit, item, UserId::new(buyer).expect("positive")).await;
    joined.expect("the ledger answers").expect("joined");
    rows_read(connection).await - before
}

#[tokio::test]
async fn a_join_does_not_read_a_long_line_and_the_line_keeps_its_limit() {
    let (shop, instance) = Shop::open_with(|config| config.waiting_list.line_max = 5_003).await;
    let (item, _) = sold_out(&instance, 1, json!({})).await;
    fill_line(&shop.pool, item, LONG).await;
    let id = ItemId::new(item).expect("positive");
    let found = rows::items::find(&shop.pool, id).await.expect("read").expect("there is one");
    let clock = Clock::default();
    let line = WaitingLine::new(clock, Outbox::default(), Metrics::new(), 50_000);
    let mut transaction = shop.pool.begin().await.expect("a transaction");
    let ledger = Ledger::new(shop.pool.clone(), Breakers::new(&Metrics::new()).mysql);
    let permit = ledger.permit(id).await.expect("nobody else is at the item");
    let first = join_directly(&line, &mut transaction, &permit, &found.item, 11).await;
    let second = join_directly(&line, &mut transaction, &permit, &found.item, 12).await;
    transaction.commit().await.expect("committed");
    assert!(second < 4_000, "the second join read {second} rows, the first one {first}");

    join(&instance.buyer(13), item).await.assert_fields(200, json!({ "ahead": LONG + 2 }));
    join(&instance.buyer(14), item).await.expect_problem(409, "waiting_list_full");
    assert_eq!(join(&instance.buyer(13), item).await.status, 200, "the place is there");
    assert_eq!(leave(&instance.buyer(13), item).await.status, 204);
    let join = || async { join(&instance.buyer(14), item).await };
    until("the free place to be given", join, |joined| joined.status == 200).await;
    assert_eq!(leave(&instance.buyer(14), item).await.status, 204);
    assert_eq!(instance.buyer(12).get(&path(item)).await.json["ahead"], LONG + 1, "a look counts");
}

/// The pages that the whole server has read so far, in memory or not.
async fn pages_read(pool: &Database) -> i64 {
    let statement = "SHOW GLOBAL STATUS LIKE 'Innodb_buffer_pool_read_requests'";
    let read: (String, String) =
        sqlx::query_as(statement).fetch_one(pool).await.expect("a figure of the server");
    read.1.parse().expect("a number")
}

/// Makes a draw of an item that is over, with a line of this many buyers and a purchase that passed them, and returns
/// the pages that the server reads for an audit.
async fn pages_of_audit(pool: &Database, item: i64, buyers: i64) -> i64 {
    fill_line(pool, item, buyers).await;
    for statement in [
        "INSERT INTO draws (item_id, rules, beacon, round, closes_at, drawn_at) \
         VALUES (?, '', 'local', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
        "INSERT INTO draw_entries (item_id, user_id, entry, party, entered_at, place) \
         SELECT item_id, user_id, LPAD(user_id, 32, '0'), LPAD(user_id, 32, '0'), joined_at, \
         ROW_NUMBER() OVER (ORDER BY place) FROM waiting_list WHERE item_id = ?",
        "INSERT INTO orders (id, item_id, user_id, quantity, amount_cents, status, strategy, \
         request_key, created_at, expires_at) SELECT UUID(), id, 1, 1, price_cents, 'paid', \
         'mysql-atomic', 'k', UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) FROM items WHERE id = ?",
    ] {
        sqlx::query(statement).bind(item).execute(pool).await.expect("a row");
    }
    let before = pages_read(pool).await;
    let facts = rows::audit::facts(pool, ItemId::new(item).expect("positive")).await;
    let read = pages_read(pool).await - before;
    let counted = facts.expect("read").expect("an item").counted;
    let passed = counted.iter().find(|(invariant, ..)| *invariant == "I21").expect("drawn");
    assert_eq!(passed.2, buyers, "each buyer was passed");
    read
}

/// A server of its own, since only the server counts pages.
#[tokio::test]
async fn long_lines_and_draws_cost_in_proportion_to_their_length() {
    let server = own_mysql(MysqlOptions::temporary()).await;
    an_audit_of_a_draw_costs_in_proportion_to_its_entries(&server).await;
    many_units_are_offered_at_a_cost_that_grows_with_their_number_alone(&server).await;
}

/// The statistics of the tables are of the time when these were empty. By them, a server may read all places again for
/// each entry.
async fn an_audit_of_a_draw_costs_in_proportion_to_its_entries(server: &MysqlServer) {
    const TIMES: i64 = 4;
    let url = server.url_of(&unique("seckill"));
    let (shop, instance) = Shop::open_with(|config| config.database_url = Secret::new(url)).await;
    let few = instance.make_item(json!({ "stock": 0 })).await;
    let many = instance.make_item(json!({ "stock": 0 })).await;
    instance.stop().await;
    for table in ["waiting_list", "draw_entries", "orders"] {
        let statement = format!("ALTER TABLE {table} STATS_AUTO_RECALC = 0");
        sqlx::raw_sql(&statement).execute(&shop.pool).await.expect("old statistics");
    }
    let of_few = pages_of_audit(&shop.pool, few, 2_000).await;
    let of_many = pages_of_audit(&shop.pool, many, 2_000 * TIMES).await;
    let most = of_few * TIMES * 3 / 2;
    assert!(of_many < most, "{of_many} pages for {TIMES} times the entries of {of_few} pages");
}

/// Offers as many units as there are buyers in a line, and returns the pages that the server has read for it.
async fn pages_of_offers(shop: &Shop, waitlist: &Waitlist, item: i64, buyers: i64) -> i64 {
    fill_line(&shop.pool, item, buyers).await;
    let before = pages_read(&shop.pool).await;
    let tended = waitlist.tend(ItemId::new(item).expect("positive")).await;
    let read = pages_read(&shop.pool).await - before;
    let (change, _) = tended.expect("the units are offered");
    assert_eq!(change.to_stock, -buyers);
    assert_eq!(waiting(shop, item).await, 0, "each buyer has an offer");
    read
}

/// Each look for the next buyers once passed all who had an offer already, so that ten times as many offers cost a
/// hundred times as much.
async fn many_units_are_offered_at_a_cost_that_grows_with_their_number_alone(server: &MysqlServer) {
    const TIMES: i64 = 10;
    let url = server.url_of(&unique("seckill"));
    let (shop, instance, few) = Shop::selling_with(json!({ "stock": 2_000 }), |config| {
        config.database_url = Secret::new(url);
        config.waiting_list.sweep_ms = 60_000;
    })
    .await;
    let many = instance.make_item(json!({ "stock": 2_000 * TIMES })).await;
    let other = instance.make_item(json!({})).await;
    instance.stop().await;
    let metrics = Metrics::new();
    let breaker = Breakers::new(&metrics).mysql;
    let line = WaitingLine::new(Clock::default(), Outbox::default(), metrics, 50_000);
    let waitlist = Waitlist { ledger: Ledger::new(shop.pool.clone(), breaker), line };
    // As in a busy shop, an older transaction is open: the server then reads also the rows that a look passes.
    let older = hold_stock_row(&shop.pool, other).await;
    let of_few = pages_of_offers(&shop, &waitlist, few, 2_000).await;
    let of_many = pages_of_offers(&shop, &waitlist, many, 2_000 * TIMES).await;
    older.rollback().await.expect("the row is free");
    // Half as much again, since the indexes are larger.
    let most = of_few * TIMES * 3 / 2;
    assert!(of_many < most, "{of_many} pages for {TIMES} times the offers of {of_few} pages");
}
