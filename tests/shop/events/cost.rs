//! Processor time of an order with events and without, measured in turns on the same database. It
//! prints figures and asserts none: a debug build and a busy machine say little.
//!
//! `SECKILL_TEST_COST_ORDERS=20000 SECKILL_TEST_PROGRAM=target/quick/seckill` measures an optimised
//! build; `SECKILL_TEST_ROUNDS` is the number of turns.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dev_servers::MysqlOptions;
use reqwest::Method;
use serde_json::json;
use settings::Secret;
use tokio::task::JoinSet;
use web::token::Role;

use crate::process::program::{free_addr, serve};
use crate::support::{Client, Shop, eventually, own_mysql, purchase_path, rounds, unique, when};

/// Orders of a turn in an ordinary run.
const ORDERS: u64 = 150;
/// Turns with events, and as many without.
const TURNS: u32 = 2;
/// Buyers who buy at the same time.
const CLIENTS: i64 = 64;
/// How long the log may take to have the events of a turn.
const MOVED_MAX: Duration = Duration::from_secs(60);

/// Processor seconds of a process so far.
fn seconds(pid: u32) -> f64 {
    let (_, seconds) = loadtest::process::name_and_seconds(&PathBuf::from(format!("/proc/{pid}")))
        .expect("a process that runs");
    seconds
}

/// Sells `orders` units of an item; answers how many were sold.
async fn sell(client: &Client, tokens: &[String], item: i64, orders: u64) -> u64 {
    let left = Arc::new(AtomicU64::new(orders));
    let mut selling = JoinSet::new();
    for token in tokens {
        let (client, left) = (client.with_token(token), Arc::clone(&left));
        selling.spawn(async move {
            let mut sold = 0;
            let take = |left: u64| left.checked_sub(1);
            while left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok() {
                let request = client.request(Method::POST, &purchase_path("mysql-batch", item));
                let answer = request.send().await.expect("an answer");
                sold += u64::from(answer.status() == 201);
            }
            sold
        });
    }
    selling.join_all().await.into_iter().sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_costs_processor_time_with_events_and_without() {
    let asked = std::env::var("SECKILL_TEST_COST_ORDERS").ok();
    let orders = asked.map_or(ORDERS, |text| text.parse().expect("a number"));
    let mysql = own_mysql(MysqlOptions::temporary()).await;
    let url = mysql.url_of(&unique("seckill"));
    let (shop, maker) = Shop::open_with(|config| config.database_url = Secret::new(url)).await;
    let units =
        json!({ "stock": 100_000_000, "per_buyer_limit": 1_000_000, "hold_seconds": 86_400 });
    let item = maker.make_item(units).await;
    let tokens: Vec<String> = (1..=CLIENTS).map(|id| maker.token(id, Role::Buyer)).collect();
    maker.stop().await;
    let mut spent = [(0.0, 0_u64), (0.0, 0_u64)];
    for turn in 0..2 * rounds(TURNS) {
        let with_events = turn % 2 == 0;
        let addr = free_addr();
        let enabled = if with_events { "true" } else { "false" };
        let settings =
            [("SECKILL_EVENTS_ENABLED", enabled), ("SECKILL_LIMITS_LOOPBACK_EXEMPT", "true")];
        let mut service = serve(&shop, &addr, &settings).await;
        let client = Client::new(addr.parse().expect("an address"), None);
        // What every start costs is left out.
        sell(&client, &tokens, item, orders / 10 + 1).await;
        let pid = service.id().expect("it runs");
        let before = seconds(pid) + seconds(mysql.pid());
        let sold = sell(&client, &tokens, item, orders).await;
        eventually(MOVED_MAX, || async {
            let left: i64 = shop.read(sqlx::query_scalar("SELECT COUNT(*) FROM outbox")).await;
            when(left == 0, left)
        })
        .await;
        let after = seconds(pid) + seconds(mysql.pid());
        service.kill().await.expect("killed");
        let (sum, count) = &mut spent[usize::from(with_events)];
        *sum += after - before;
        *count += sold;
        println!(
            "events {enabled}: {sold} orders, {:.1} us each",
            (after - before) * 1e6 / f64::from(u32::try_from(sold).expect("few"))
        );
    }
    let each = spent.map(|(sum, count)| sum * 1e6 / f64::from(u32::try_from(count).expect("few")));
    println!(
        "service and database: {:.1} us an order without events, {:.1} us with, {:+.1} %",
        each[0],
        each[1],
        (each[1] / each[0] - 1.0) * 100.0
    );
    assert!(spent.iter().all(|(_, count)| *count > 0));
}
