//! What is left of the queue when its Redis or its consumers die.

use dev_servers::{RedisOptions, RedisServer};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::support::seed;

/// A shop with a Redis of its own, which writes a log.
async fn shop_with_redis(line: &str) -> (Shop, RedisServer) {
    let mut options = RedisOptions::temporary();
    options.extra_lines.push(line.to_owned());
    let server = RedisServer::start(options).await.expect("Redis starts");
    let mut shop = shop().await;
    shop.config.redis_url = Secret::new(server.url());
    (shop, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn queued_orders_outlive_a_redis_that_writes_its_log_before_it_answers() {
    // Once a second is not enough: while the disk is slow the log's end stays in memory.
    let (shop, mut server) = shop_with_redis("appendfsync always").await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 40 })).await;
    let holder = hold_up(&shop, item).await;
    let mut queued = queue(&instance, item, 30).await;
    server.kill().await;
    server.restart().await.expect("Redis starts again");
    holder.rollback().await.expect("the row is free");
    for (id, order) in (1..).zip(&queued) {
        let buyer = instance.buyer(id);
        // In the ledger a moment before it is taken out of the queue: 202 until then.
        eventually("the order to be in the ledger", || async {
            let again = buyer.buy_with_key(STREAM, item, "k").await;
            let same = matches!(again.status, 201 | 202) && order_id(&again) == *order;
            assert!(same || again.status >= 500, "{}", again.text);
            (again.status == 201).then_some(())
        })
        .await;
        assert_eq!(order_status(&buyer, order).await, "pending");
    }
    queued.sort();
    assert_eq!(in_ledger(&shop, item).await, queued);
    let audit = assert_clean(&instance, item).await;
    assert_eq!((&audit["redis_available"], &audit["redis_queued"]), (&json!(10), &json!(0)));
    server.stop().await;
}

/// Where an order stands; null when it is not found or cannot be.
async fn order_status(client: &Client, id: &str) -> Value {
    let seen = order(client, id).await;
    if seen.status == 200 { seen.json["status"].clone() } else { Value::Null }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_queue_loses_what_was_not_durable_and_sells_nothing_twice() {
    let (shop, server) = shop_with_redis("appendfsync everysec").await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 20 })).await;
    assert_eq!(instance.buyer(99).buy_for_good(STREAM, item).await.status, 201);
    let holder = hold_up(&shop, item).await;
    let queued = queue(&instance, item, 15).await;
    let () = shop.redis(&["FLUSHALL"]).await;
    holder.rollback().await.expect("the row is free");
    // What a consumer had in hand when Redis was emptied may still get to the ledger: it is then
    // an order like any other. Of the rest nothing is left, which the record of answers shows.
    eventually("the consumers to be done", || async {
        let statuses =
            async |(id, order): (i64, &String)| order_status(&instance.buyer(id), order).await;
        let seen = join_all((1..).zip(&queued).map(statuses)).await;
        seen.iter().all(|status| status.is_null() || *status == "pending").then_some(())
    })
    .await;
    let ledger = in_ledger(&shop, item).await;
    let lost = queued.iter().filter(|order| !ledger.contains(order)).count();
    assert_eq!(ledger.len(), 1 + queued.len() - lost);
    // A buyer whose order is lost may press again, and the rest of the stock is sold, once.
    let presses = (1..=60).map(async |id| {
        let buyer = instance.buyer(id);
        buyer.outcome(buyer.buy_with_key(STREAM, item, "k").await).await
    });
    let answers = join_all(presses).await;
    assert!(answers.iter().all(|answer| [201, 409].contains(&answer.status)), "{answers:?}");
    assert_eq!(in_ledger(&shop, item).await.len(), 20);
    assert_has(&assert_clean(&instance, item).await, json!({ "held": 20, "oversold": 0 }));
    server.stop().await;
}

#[tokio::test]
async fn the_card_says_what_202_promises_here() {
    let (shop, server) = shop_with_redis("appendfsync everysec").await;
    let instance = shop.start().await;
    let set = async |name: &str, value: &str| {
        let () = shop.redis(&["CONFIG", "SET", name, value]).await;
    };
    let promise = async || {
        let cards = instance.stranger().get("/api/strategies").await.json;
        let cards = cards.as_array().expect("a list").clone();
        let (queued, durable): (Vec<_>, Vec<_>) =
            cards.into_iter().partition(|card| card["durable_before_reply"] == false);
        assert!(durable.iter().all(|card| card["promise"].is_null()));
        assert_eq!(queued.len(), 1);
        queued[0]["promise"].as_str().expect("a sentence").to_owned()
    };
    // A promise is remembered for a moment.
    let says = async |words: &str| {
        until(BOUND, || async { promise().await }, |said| said.contains(words)).await
    };
    says("appendfsync everysec").await;
    set("appendfsync", "always").await;
    says("appendfsync always").await;
    set("appendonly", "no").await;
    says("memory only").await;
    server.stop().await;
    says("does not tell").await;
}

#[tokio::test]
async fn strangers_who_read_the_list_do_not_make_redis_work() {
    const READERS: usize = 200;
    let (shop, server) = shop_with_redis("appendfsync everysec").await;
    let instance = shop.start().await;
    let asked = async || -> usize {
        let info: String = shop.redis(&["INFO", "commandstats"]).await;
        let calls = info.lines().filter_map(|line| line.strip_prefix("cmdstat_config|get:calls="));
        calls.filter_map(|rest| rest.split(',').next()?.parse::<usize>().ok()).sum()
    };
    let (before, begun) = (asked().await, std::time::Instant::now());
    let readers =
        (0..READERS).map(|_| async { instance.stranger().get("/api/strategies").await.status });
    assert!(join_all(readers).await.into_iter().all(|status| status == 200));
    let questions = asked().await - before;
    let seconds = usize::try_from(begun.elapsed().as_secs()).expect("a short test");
    assert!(
        (1..=2 + seconds).contains(&questions),
        "{questions} questions for {READERS} readers in {seconds} s"
    );
    server.stop().await;
}

/// Kills of a consumer in the normal run, unless `SECKILL_TEST_ROUNDS` says otherwise.
const KILLS: usize = 4;
/// Buyers who press while one kill is on its way.
const BUYERS: i64 = 50;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_under_load_the_queue_is_sold_exactly_once() {
    let kills = std::env::var("SECKILL_TEST_ROUNDS").ok().and_then(|text| text.parse().ok());
    let kills: usize = kills.unwrap_or(KILLS);
    let mut random = StdRng::seed_from_u64(seed());
    let shop = shop().await;
    // It makes tokens and audits.
    let maker = start_aside(&shop).await;
    let buyers = BUYERS * i64::try_from(kills).expect("a few");
    let stock = buyers * 3 / 4;
    let item = maker.make_item(json!({ "stock": stock })).await;
    let addrs = [free_addr(), free_addr()];
    let mut services = [serve(&shop, &addrs[0], &[]).await, serve(&shop, &addrs[1], &[]).await];
    let path = purchase_path(STREAM, item);
    let mut presses = Vec::new();
    for kill in 0..kills {
        for id in (1..=BUYERS).map(|id| id + BUYERS * i64::try_from(kill).expect("a few")) {
            let which = usize::try_from(id).expect("positive") % 2;
            let token = maker.token(id, Role::Buyer);
            let client = Client::new(addrs[which].parse().expect("an address"), Some(token));
            presses.push(tokio::spawn(press(client, path.clone(), format!("key-{id}"))));
        }
        let moment = random.random_range(0..250);
        tokio::time::sleep(Duration::from_millis(moment)).await;
        let victim = kill % 2;
        services[victim].kill().await.expect("killed");
        services[victim].wait().await.expect("gone");
        services[victim] = serve(&shop, &addrs[victim], &[]).await;
    }
    let ended = join_all(presses).await;
    let mut accepted: Vec<String> =
        ended.into_iter().filter_map(|press| press.expect("no panic").0).collect();
    maker.until_audit(item, "redis_queued", 0).await;
    // Every accepted order is there, nothing else is, and nothing was sold twice.
    accepted.sort();
    let ledger = in_ledger(&shop, item).await;
    assert_eq!(accepted, ledger);
    assert_eq!(i64::try_from(ledger.len()).expect("a few"), stock);
    assert_eq!(assert_clean(&maker, item).await["held"], stock);
}
