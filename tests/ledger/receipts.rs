//! Receipts: every answer is in the log of its sale, whatever wrote the order and whoever was killed, and the log proves
//! the sale to a checker that shares no code with the service.

mod instances;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use time::format_description::well_known::Rfc3339;
use time::{Duration, OffsetDateTime};
use verify::log::{Head, KnownLog, LogFault, LogReport, Receipt, check_log, check_receipt};

use crate::http::assert_problem;
use crate::process::program::program;
use crate::support::strategies::test_each_strategy;
use crate::support::{Answer, Client, Shop, assert_clean, eventually, when};

async fn shop() -> Shop {
    Shop::with(|config| {
        config.receipts.enabled = true;
        config.receipts.append_ms = 20;
    })
    .await
}

async fn log(client: &Client, item: i64) -> String {
    client.get(&format!("/api/items/{item}/log/entries")).await.text
}

async fn head(client: &Client, item: i64) -> Head {
    let log = client.get(&format!("/api/items/{item}/log")).await;
    serde_json::from_value(log.json["head"].clone()).expect("a head")
}

/// The answer at an address once it is there.
async fn until_there(client: &Client, path: &str) -> Value {
    eventually("the receipt", || async {
        let answer = client.get(path).await;
        assert!(answer.status == 200 || answer.code() == "receipt_pending", "{}", answer.text);
        when(answer.status == 200, answer.json)
    })
    .await
}

async fn receipts_of(client: &Client, order: &Answer) -> Vec<Receipt> {
    let id = order.json["id"].as_str().expect("an id");
    let found = until_there(client, &format!("/api/orders/{id}/receipt")).await;
    serde_json::from_value(found["receipts"].clone()).expect("receipts")
}

async fn refused_with_receipt(client: &Client, item: i64) -> Answer {
    let path = crate::support::purchase_path("default", item);
    let request = client.request(reqwest::Method::POST, &path).header("prefer", "receipt");
    Client::send(request.json(&json!({}))).await
}

fn faults(report: &LogReport) -> Vec<LogFault> {
    report.faults.keys().copied().collect()
}

#[tokio::test]
async fn answers_get_receipts_that_prove_the_sale() {
    let shop = shop().await;
    let instance = shop.start().await;
    let body =
        json!({ "kind": "shop", "stock": 2, "strategy": "mysql-batch", "per_buyer_limit": 1 });
    let item = instance.make_item(body).await;
    let stranger = instance.stranger();
    let begun = eventually("the first head", || async {
        let log = stranger.get(&format!("/api/items/{item}/log")).await;
        when(log.status == 200, log.json)
    })
    .await;
    assert_eq!((&begun["head"]["size"], &begun["is_over"]), (&json!(1), &json!(false)));
    let begun = head(&stranger, item).await;

    let (first, second) = (instance.buyer(1), instance.buyer(2));
    let orders = [first.buy("default", item).await, second.buy("default", item).await];
    let mut receipts = receipts_of(&first, &orders[0]).await;
    receipts.extend(receipts_of(&second, &orders[1]).await);
    assert_eq!(receipts.len(), 2);
    for receipt in &receipts {
        assert!(check_receipt(receipt, None).is_empty(), "{receipt:?}");
    }
    let id = orders[0].json["id"].as_str().expect("an id");
    let of_another = second.get(&format!("/api/orders/{id}/receipt")).await;
    assert_problem(&of_another, (404, "order_not_found"), "a receipt");

    let refused = refused_with_receipt(&instance.buyer(3), item).await;
    assert_problem(&refused, (409, "sold_out"), "a refusal");
    let address = refused.json["receipt"].as_str().expect("an address");
    let found = until_there(&stranger, address).await;
    let refusal: Receipt = serde_json::from_value(found).expect("a receipt");
    assert!(check_receipt(&refusal, None).is_empty() && refusal.entry.ends_with(" 1 sold_out"));
    receipts.push(refusal);
    // Without the wish there is none.
    assert_eq!(instance.buyer(3).buy("default", item).await.json["receipt"], Value::Null);

    // A unit comes back, and is sold again.
    let cancelled = second
        .post(
            &format!("/api/orders/{}/cancellation", orders[1].json["id"].as_str().expect("an id")),
            &json!({}),
        )
        .await;
    assert_eq!(cancelled.status, 200);
    let bought = instance.buyer(4);
    receipts.extend(receipts_of(&bought, &bought.buy_for_good("default", item).await).await);
    let audit = assert_clean(&instance, item).await;
    let judged = audit["findings"].as_array().expect("a list").iter();
    assert!(judged.clone().any(|one| one["invariant"] == "I22" && one["holds"] == true), "{audit}");

    let keys = stranger.get("/api/receipt-keys").await.json;
    let keys: Vec<String> = keys["keys"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|key| key["public_key"].as_str().expect("a key").to_owned())
        .collect();
    assert_eq!(keys.iter().collect::<BTreeSet<_>>().len(), 14);
    let text = log(&stranger, item).await;
    for secret in ["\"", id] {
        assert!(!text.contains(secret), "{text}");
    }
    let earlier = [begun];
    let known = KnownLog { keys: Some(&keys), earlier: &earlier, receipts: &receipts };
    let report = check_log(&text, known);
    assert_eq!(faults(&report), [], "{report:?}");
    assert_eq!((report.units, report.orders, report.refusals), (2, 2, 1));
    // A shop that leaves an order out is found by its receipt.
    let left_out: String = text
        .lines()
        .filter(|line| *line != receipts[0].entry)
        .map(|line| format!("{line}\n"))
        .collect();
    assert!(faults(&check_log(&left_out, known)).contains(&LogFault::Missing));
}

#[tokio::test]
async fn a_sale_without_a_log_has_no_receipts() {
    let (_shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({})).await;
    let buyer = instance.buyer(1);
    let order = buyer.buy("mysql-batch", item).await;
    let id = order.json["id"].as_str().expect("an id");
    for path in [
        format!("/api/orders/{id}/receipt"),
        format!("/api/items/{item}/log"),
        format!("/api/items/{item}/log/entries"),
    ] {
        assert_problem(&buyer.get(&path).await, (409, "no_log"), &path);
    }
    let wrong = format!("/api/items/{item}/log/receipts/nothing?since=1");
    assert_problem(&buyer.get(&wrong).await, (400, "invalid_query_parameter"), &wrong);
}

async fn every_order_is_in_the_log(strategy: &str) {
    let shop = Shop::with_lock_servers(|config| {
        config.receipts.enabled = true;
        config.receipts.append_ms = 20;
        config.job.expire_period_ms = 50;
    })
    .await;
    let instance = shop.start().await;
    // With the arbiter, any strategy may be used.
    let item = instance.make_item(json!({ "stock": 3, "per_buyer_limit": 2 })).await;
    let mut receipts = Vec::new();
    for buyer in 1..=2 {
        let client = instance.buyer(buyer);
        let order = client.buy_for_good(strategy, item).await;
        receipts.extend(receipts_of(&client, &order).await);
    }
    shop.let_holds_pass(100_000).await;
    let client = instance.buyer(1);
    eventually("the holds to end", || async {
        let orders = client.get("/api/orders").await.json;
        when(orders["orders"][0]["status"] == "expired", orders)
    })
    .await;
    receipts.extend(receipts_of(&client, &client.buy_for_good(strategy, item).await).await);
    assert_clean(&instance, item).await;
    let text = log(&instance.stranger(), item).await;
    let report = check_log(&text, KnownLog { receipts: &receipts, ..KnownLog::default() });
    assert_eq!(faults(&report), [], "{text}");
    assert_eq!((report.units, receipts.len()), (1, 3), "{text}");
}

mod each {
    super::test_each_strategy!(super::every_order_is_in_the_log);
}

#[tokio::test]
async fn offers_entries_and_restocks_are_in_the_log() {
    let shop = shop().await;
    let instance = shop.start().await;
    let closes_at = OffsetDateTime::now_utc() + Duration::days(1) - Duration::minutes(1);
    let draw = json!({
        "kind": "shop", "stock": 1, "offer_seconds": 600, "mode": "draw",
        "draw_closes_at": closes_at.format(&Rfc3339).expect("a time"), "draw_party_max": 2,
    });
    let drawn = instance.make_item(draw).await;
    let buyer = instance.buyer(1);
    let entered = buyer.post(&format!("/api/items/{drawn}/entry"), &json!({})).await;
    let found = until_there(&buyer, &format!("/api/items/{drawn}/entry/receipt")).await;
    let receipt: Receipt = serde_json::from_value(found).expect("a receipt");
    assert!(receipt.entry.ends_with(entered.json["entry"].as_str().expect("an id")));
    let report = check_log(
        &log(&buyer, drawn).await,
        KnownLog { receipts: &[receipt], ..KnownLog::default() },
    );
    assert_eq!(faults(&report), []);
    // An entry that goes to a party is the same entry.
    let path = format!("/api/items/{drawn}/entry");
    assert_eq!(buyer.post(&path, &json!({ "party": "new" })).await.status, 200);
    assert_eq!(Client::send(buyer.request(reqwest::Method::DELETE, &path)).await.status, 204);
    let text = eventually("the entry taken back", || async {
        let text = log(&buyer, drawn).await;
        when(text.contains("\nwithdrawn "), text)
    })
    .await;
    assert_eq!(text.matches("\nentered ").count(), 1, "{text}");

    let waited = instance
        .make_item(
            json!({ "kind": "shop", "stock": 1, "offer_seconds": 600, "strategy": "mysql-atomic" }),
        )
        .await;
    let order = buyer.buy("default", waited).await;
    let (second, third) = (instance.buyer(2), instance.buyer(3));
    for client in [&second, &third] {
        let joined = client.post(&format!("/api/items/{waited}/waiting"), &json!({})).await;
        assert!(joined.status < 300, "{}", joined.text);
    }
    // The unit that comes back, and the one that is added, are offered: nobody else can have them.
    let id = order.json["id"].as_str().expect("an id");
    assert_eq!(buyer.post(&format!("/api/orders/{id}/cancellation"), &json!({})).await.status, 200);
    let edited = instance
        .admin()
        .patch(&format!("/api/admin/items/{waited}"), &json!({ "stock_delta": 1 }))
        .await;
    assert_eq!(edited.status, 200, "{}", edited.text);
    let refused = refused_with_receipt(&instance.buyer(9), waited).await;
    assert_problem(&refused, (409, "sold_out"), "all units are offered");
    until_there(&buyer, refused.json["receipt"].as_str().expect("an address")).await;
    let accepted = second.post(&format!("/api/items/{waited}/waiting/purchase"), &json!({})).await;
    let receipts = receipts_of(&second, &accepted).await;
    assert_clean(&instance, waited).await;
    let text = log(&buyer, waited).await;
    let report = check_log(&text, KnownLog { receipts: &receipts, ..KnownLog::default() });
    assert_eq!((faults(&report), report.refusals), (vec![], 1), "{text}");
    let kinds: BTreeSet<&str> = text.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(
        ["offers", "returned", "stock", "sold"].iter().all(|kind| kinds.contains(kind)),
        "{text}"
    );
}

#[tokio::test]
async fn the_log_says_when_the_sale_is_over() {
    let shop = shop().await;
    let instance = shop.start().await;
    let ends_at = OffsetDateTime::now_utc() + Duration::seconds(2);
    let item =
        instance.make_item(json!({ "ends_at": ends_at.format(&Rfc3339).expect("a time") })).await;
    let summary = eventually("the end", || async {
        let log = instance.stranger().get(&format!("/api/items/{item}/log")).await.json;
        when(log["is_over"] == true, log)
    })
    .await;
    assert!(
        summary["head"]["time"].as_i64().expect("a time")
            > i64::try_from(ends_at.unix_timestamp_nanos() / 1_000).expect("a time")
    );
    let text = log(&instance.stranger(), item).await;
    assert!(text.lines().rev().nth(1).is_some_and(|line| line.starts_with("ended ")), "{text}");
    assert_eq!(faults(&check_log(&text, KnownLog::default())), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_log_moves_with_its_item() {
    let shop = Shop::with_shards(2, |config| {
        config.receipts.enabled = true;
        config.receipts.append_ms = 20;
    })
    .await;
    let instance = shop.start().await;
    let item =
        instance.make_item(json!({ "stock": 9, "shard": 0, "strategy": "mysql-batch" })).await;
    let client = instance.buyer(1);
    let mut receipts = receipts_of(&client, &client.buy("default", item).await).await;
    let earlier = [head(&client, item).await];
    let id = item.to_string();
    let moves = ["shard", "move", &id, "1", "--pause-ms-max", "20000"];
    let moved = program(&shop, &moves).output().await.expect("the program runs");
    assert!(moved.status.success(), "{}", String::from_utf8_lossy(&moved.stderr));
    let other = instance.buyer(2);
    receipts.extend(receipts_of(&other, &other.buy_for_good("default", item).await).await);
    let text = log(&client, item).await;
    let report = check_log(&text, KnownLog { earlier: &earlier, receipts: &receipts, keys: None });
    assert_eq!((faults(&report), report.orders), (vec![], 2), "{text}");
    assert_clean(&instance, item).await;
}

/// The audit finds what a shop could do to its log.
#[tokio::test]
async fn the_audit_finds_a_log_that_was_changed() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 9 })).await;
    for buyer in 1..=3 {
        let client = instance.buyer(buyer);
        let order = client.buy("mysql-batch", item).await;
        receipts_of(&client, &order).await;
    }
    assert_clean(&instance, item).await;
    let broken = async |audit: Value| -> bool {
        let findings = audit["findings"].as_array().expect("a list").clone();
        findings.iter().any(|one| one["invariant"] == "I22" && one["holds"] == false)
    };
    sqlx::query(
        "DELETE FROM receipt_batches WHERE item_id = ? ORDER BY first_position DESC LIMIT 1",
    )
    .bind(item)
    .execute(&shop.pool)
    .await
    .expect("deleted");
    assert!(broken(instance.audit(item).await).await);
}
