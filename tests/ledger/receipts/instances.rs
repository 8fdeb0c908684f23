//! Several instances of a shop, some of which are killed, make one log.

use futures::future::join_all;
use reqwest::Method;
use seckill::account::Role;
use seckill::failpoint::RECEIPT_POINTS;
use serde_json::{Value, json};
use verify::log::{KnownLog, check_log};

use super::{faults, log, receipts_of, shop, until_there};
use crate::http::BOUND;
use crate::process::program::{free_addr, program, serve};
use crate::support::{Client, Shop, assert_clean, eventually, purchase_path, when};

/// Waits until the log has each order of an item that has units, and no other.
async fn until_log_has_the_orders(shop: &Shop, client: &Client, item: i64) {
    eventually("every order in the log", || async {
        let text = log(client, item).await;
        let report = check_log(&text, KnownLog::default());
        assert_eq!(faults(&report), [], "{text}");
        let live: i64 = sqlx::query_scalar(
            "SELECT COUNT(*) FROM orders WHERE item_id = ? AND status IN ('pending', 'paid')",
        )
        .bind(item)
        .fetch_one(&shop.pool)
        .await
        .expect("read");
        when(report.orders == live, format!("{live} orders, and in the log {}", report.orders))
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_are_killed_make_one_log() {
    let shop = shop().await;
    let maker = shop
        .start_with({
            let mut config = shop.config.clone();
            // It only makes the item and the orders.
            config.receipts.append_ms = 5_000;
            config
        })
        .await;
    let item = maker.make_item(json!({ "stock": 100_000 })).await;
    let mut buyers = 1..;
    for point in RECEIPT_POINTS.iter().chain(RECEIPT_POINTS) {
        let mut doomed = program(&shop, &["serve"]);
        doomed.env("SECKILL_HTTP_ADDR", free_addr()).env("SECKILL_RECEIPTS_APPEND_MS", "20");
        let mut doomed = doomed.env("FAILPOINT", point).spawn().expect("started");
        let buy_until_it_dies = async {
            loop {
                let buyer = maker.buyer(buyers.next().expect("a number"));
                assert_eq!(buyer.buy("mysql-batch", item).await.status, 201);
                let pause = std::time::Duration::from_millis(20);
                if let Ok(ended) = tokio::time::timeout(pause, doomed.wait()).await {
                    return ended.expect("it ran");
                }
            }
        };
        let ended = tokio::time::timeout(BOUND, buy_until_it_dies).await;
        assert!(!ended.expect("it dies").success(), "{point}");
    }
    let address = free_addr();
    let mut service = serve(&shop, &address, &[("SECKILL_RECEIPTS_APPEND_MS", "20")]).await;
    assert_clean(&maker, item).await;
    until_log_has_the_orders(&shop, &maker.stranger(), item).await;
    service.kill().await.expect("killed");
}

/// An instance dies while it writes orders: before their COMMIT the log has none of them, and behind it all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orders_of_an_instance_that_is_killed_have_one_receipt() {
    const BUYERS: i64 = 12;
    let shop = shop().await;
    let next = shop.start().await;
    for (strategy, routine, point) in [
        ("mysql-atomic", "false", "stock-taken"),
        ("mysql-atomic", "false", "committed"),
        ("mysql-atomic", "true", "committed"),
        ("mysql-batch", "true", "batch-stock-taken"),
        ("mysql-batch", "true", "batch-committed"),
    ] {
        let item = next.make_item(json!({ "stock": BUYERS })).await;
        let address = free_addr();
        let settings = [("SECKILL_MYSQL_ORDER_ROUTINE", routine), ("FAILPOINT", point)];
        let mut doomed = serve(&shop, &address, &settings).await;
        let doomed_client = Client::new(address.parse().expect("an address"), None);
        let path = purchase_path(strategy, item);
        let asked = (1..=BUYERS).map(|buyer| {
            let client = doomed_client.with_token(&next.token(buyer, Role::Buyer));
            client.request(Method::POST, &path).header("idempotency-key", key(buyer)).send()
        });
        join_all(asked).await;
        let ended = tokio::time::timeout(BOUND, doomed.wait()).await.expect("it dies");
        assert!(!ended.expect("it ran").success(), "{point}");
        let mut receipts = Vec::new();
        for buyer in 1..=BUYERS {
            let client = next.buyer(buyer);
            let order = client.buy_with_key(strategy, item, &key(buyer)).await;
            let id = order.json["id"].as_str().unwrap_or_else(|| panic!("{point}: {}", order.text));
            let receipt = format!("/api/orders/{id}/receipt");
            let first = until_there(&client, &receipt).await;
            let again = client.buy_with_key(strategy, item, &key(buyer)).await;
            assert_eq!(again.json["id"], order.json["id"], "{point}");
            assert_eq!(client.get(&receipt).await.json, first, "{point}");
            receipts.extend(receipts_of(&client, &order).await);
        }
        until_log_has_the_orders(&shop, &next.stranger(), item).await;
        let text = log(&next.stranger(), item).await;
        let report = check_log(&text, KnownLog { receipts: &receipts, ..KnownLog::default() });
        assert_eq!((faults(&report), report.orders), (vec![], BUYERS), "{point}: {text}");
        assert_eq!(text.matches("\nsold ").count(), receipts.len(), "{point}: {text}");
        assert_clean(&next, item).await;
    }
}

fn key(buyer: i64) -> String {
    format!("buyer-{buyer}")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_append_to_one_log() {
    let shop = shop().await;
    let (one, two) = (shop.start().await, shop.start().await);
    let item = one.make_item(json!({ "stock": 1_000 })).await;
    for first in (0..400).step_by(20) {
        let orders = (first..first + 20).map(|buyer| {
            let instance = if buyer % 2 == 0 { &one } else { &two };
            async move { instance.buyer(buyer + 1).buy("mysql-atomic", item).await.status }
        });
        assert_eq!(join_all(orders).await, [201; 20]);
    }
    until_log_has_the_orders(&shop, &one.stranger(), item).await;
    assert_clean(&two, item).await;
}

/// An item keeps its log, whatever the settings of the instance say that takes a step of an order.
#[tokio::test]
async fn an_instance_without_receipts_writes_the_logs_that_there_are() {
    let shop = shop().await;
    let maker = shop.start().await;
    let item = maker.make_item(json!({ "stock": 9 })).await;
    let mut config = shop.config.clone();
    config.receipts.enabled = false;
    let other = shop.start_with(config).await;
    let unlogged = other.make_item(json!({})).await;
    assert_eq!(
        other.stranger().get(&format!("/api/items/{unlogged}")).await.json["has_log"],
        false
    );
    let buyer = other.buyer(1);
    let order = buyer.buy_for_good("mysql-atomic", item).await;
    let path = format!("/api/orders/{}/cancellation", order.json["id"].as_str().expect("an id"));
    assert_eq!(buyer.post(&path, &json!({})).await.status, 200);
    let text = eventually("the unit that came back", || async {
        let text = log(&maker.stranger(), item).await;
        when(text.contains("\nreturned "), text)
    })
    .await;
    assert_eq!(faults(&check_log(&text, KnownLog::default())), [], "{text}");
}

#[tokio::test]
async fn a_ledger_without_logs_is_sent_nothing_for_them() {
    let shop = Shop::with(|config| config.job.expire_period_ms = 50).await;
    let instance = shop.start().await;
    let sale =
        json!({ "kind": "shop", "stock": 9, "offer_seconds": 600, "strategy": "mysql-atomic" });
    let item = instance.make_item(sale).await;
    let buyer = instance.buyer(1);
    // Whatever is sent to it fails.
    sqlx::query("DROP TABLE receipt_queue").execute(&shop.pool).await.expect("dropped");
    let order = buyer.buy_for_good("mysql-atomic", item).await;
    let path = format!("/api/orders/{}", order.json["id"].as_str().expect("an id"));
    shop.let_holds_pass(100_000).await;
    eventually("the hold to end", || async {
        let order = buyer.get(&path).await.json;
        when(order["status"] == "expired", order)
    })
    .await;
    let paid = buyer.post(&format!("{path}/payment"), &json!({})).await;
    assert_eq!(paid.json["status"], "paid", "{}", paid.text);
    let order = instance.buyer(2).buy_for_good("mysql-atomic", item).await;
    let path = format!("/api/orders/{}/cancellation", order.json["id"].as_str().expect("an id"));
    let cancelled: Value = instance.buyer(2).post(&path, &json!({})).await.json;
    assert_eq!(cancelled["status"], "cancelled");
    // All units are taken out, so a buyer waits and is offered the one that comes back; then the sale ends.
    let edit = async |changes: Value| {
        let path = format!("/api/admin/items/{item}");
        let edited = instance.admin().patch(&path, &changes).await;
        assert_eq!(edited.status, 200, "{}", edited.text);
        edited.json["available"].clone()
    };
    assert_eq!(edit(json!({ "stock_delta": -8 })).await, 0);
    let waiting = format!("/api/items/{item}/waiting");
    let joined = instance.buyer(3).post(&waiting, &json!({})).await;
    assert!(joined.status < 300, "{}", joined.text);
    assert_eq!(edit(json!({ "stock_delta": 1 })).await, 0);
    assert_eq!(instance.buyer(3).get(&waiting).await.json["status"], "offered");
    assert_eq!(edit(json!({ "paused": true })).await, 1);
}
