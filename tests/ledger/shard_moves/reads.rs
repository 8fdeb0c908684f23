//! Reads while an item moves, by an instance whose route to it is out of date: both ledgers have rows of the
//! item, and only those count that are where it lives.

use seckill::config::Secret;
use serde_json::{Value, json};

use super::{Pair, killed};
use crate::support::payment_provider::TestProvider;
use crate::support::{Client, Instance, assert_clean};

/// The longest pause: machines are shared and slow.
const PAUSE_MS_MAX: &str = "20000";
/// How long the first instance remembers a route, and that an item is sold out.
const NEVER_MS: u64 = 3_600_000;
const BUYER: i64 = 7;

/// Two instances of a shop with two ledgers.
struct Sale {
    pair: Pair,
    /// Its routes stay as it has read them first.
    stale: Instance,
    /// Reads a route again each time.
    fresh: Instance,
}

impl Sale {
    async fn open() -> Self {
        Self::with_provider(None).await
    }

    async fn with_provider(provider: Option<&TestProvider>) -> Self {
        let mut pair = Pair::new().await;
        let config = &mut pair.home.config;
        // Nothing looks at the items between the steps of a test.
        config.job.expire_period_ms = NEVER_MS;
        config.job.reconcile_period_ms = NEVER_MS;
        config.job.move_period_ms = NEVER_MS;
        config.waiting_list.sweep_ms = NEVER_MS;
        if let Some(provider) = provider {
            config.payment.provider = "webhook".to_owned();
            config.payment.checkout_url = "https://pay.example/checkout?order={order}".to_owned();
            config.payment.secret = Secret::new(provider.secret());
            config.payment.refund_url = provider.refund_url();
        }
        let mut forgetful = config.clone();
        forgetful.purchase.item_age_ms_max = 0;
        forgetful.purchase.sold_out_ms = 0;
        let mut faithful = config.clone();
        faithful.purchase.item_age_ms_max = NEVER_MS;
        faithful.purchase.sold_out_ms = NEVER_MS;
        let stale = pair.home.start_with(faithful).await;
        let fresh = pair.home.start_with(forgetful).await;
        Self { pair, stale, fresh }
    }

    /// An item of the home ledger.
    async fn item(&self, changes: Value) -> i64 {
        let mut body =
            json!({ "stock": 20, "per_buyer_limit": 9, "hold_seconds": 3_600, "shard": 0 });
        if let (Value::Object(body), Value::Object(changes)) = (&mut body, changes) {
            body.extend(changes);
        }
        self.fresh.make_item(body).await
    }

    /// Buys by way of the instance that will remember the route.
    async fn buy(&self, item: i64, key: &str) -> String {
        let bought = self.stale.buyer(BUYER).buy_with_key("mysql-atomic", item, key).await;
        assert_eq!(bought.status, 201, "{}", bought.text);
        bought.json["id"].as_str().expect("an id").to_owned()
    }

    /// Moves the item until the mover dies at this point.
    async fn move_until(&self, item: i64, target: &str, point: &str) {
        let (code, text) = self.run(item, target, Some(point)).await;
        assert_eq!(code, -1, "{point} did not kill it: {text}");
    }

    /// Moves the item, or ends its move.
    async fn move_to(&self, item: i64, target: &str) {
        let (code, text) = self.run(item, target, None).await;
        assert_eq!(code, 0, "{text}");
        assert_clean(&self.fresh, item).await;
    }

    async fn run(&self, item: i64, target: &str, point: Option<&str>) -> (i32, String) {
        let item = item.to_string();
        let arguments = ["shard", "move", &item, target, "--pause-ms-max", PAUSE_MS_MAX];
        killed::run(&self.pair, &arguments, point).await
    }
}

async fn pay(client: &Client, order: &str) {
    let paid = client.post(&format!("/api/orders/{order}/payment"), &json!({})).await;
    assert_eq!(paid.json["status"], "paid", "{}", paid.text);
}

async fn status(client: &Client, order: &str) -> Value {
    let found = client.get(&format!("/api/orders/{order}")).await;
    assert_eq!(found.status, 200, "{}", found.text);
    found.json["status"].clone()
}

/// The ids and the states of a buyer's orders.
async fn list(client: &Client) -> Vec<(String, String)> {
    let listed = client.get("/api/orders").await.json;
    assert!(listed.get("incomplete").is_none(), "{listed}");
    let orders = listed["orders"].as_array().expect("a list").iter();
    let text = |value: &Value| value.as_str().expect("a text").to_owned();
    orders.map(|order| (text(&order["id"]), text(&order["status"]))).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_was_paid_is_never_shown_as_pending_while_its_item_moves() {
    let sale = Sale::open().await;
    // One item for each way of reading: a read that found the item moved has read the new route.
    for (reading, point) in [
        ("by id", "move-copied"),
        ("the list", "move-copied"),
        ("by id", "move-flipped"),
        ("the list", "move-flipped"),
        ("mysql-atomic", "move-flipped"),
        ("mysql-batch", "move-flipped"),
    ] {
        let item = sale.item(json!({})).await;
        let order = sale.buy(item, "k").await;
        let (stale, fresh) = (sale.stale.buyer(BUYER), sale.fresh.buyer(BUYER));
        if point == "move-copied" {
            // Back again: the early copy is where the order's id points to.
            sale.move_to(item, "1").await;
            sale.move_until(item, "0", point).await;
        } else {
            sale.move_until(item, "1", point).await;
        }
        pay(&fresh, &order).await;
        let seen = match reading {
            "by id" => status(&stale, &order).await,
            "the list" => {
                let listed = list(&stale).await;
                let of_order = listed.iter().filter(|(id, _)| *id == order);
                let states: Vec<_> = of_order.map(|(_, status)| json!(status)).collect();
                assert_eq!(states.len(), 1, "{listed:?}");
                states[0].clone()
            }
            strategy => {
                let replay = stale.buy_with_key(strategy, item, "k").await;
                assert_eq!((replay.status, &replay.json["id"]), (201, &json!(order)));
                replay.json["status"].clone()
            }
        };
        assert_eq!(seen, "paid", "{reading} at {point}");
        sale.move_to(item, if point == "move-copied" { "0" } else { "1" }).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_an_item_is_closed_its_orders_are_read_as_they_are() {
    let sale = Sale::open().await;
    let item = sale.item(json!({})).await;
    let (paid, open) = (sale.buy(item, "1").await, sale.buy(item, "2").await);
    pay(&sale.fresh.buyer(BUYER), &paid).await;
    sale.move_until(item, "1", "move-verified").await;
    for instance in [&sale.stale, &sale.fresh] {
        let buyer = instance.buyer(BUYER);
        assert_eq!(status(&buyer, &paid).await, "paid");
        assert_eq!(status(&buyer, &open).await, "pending");
        let expected = [(open.clone(), "pending".to_owned()), (paid.clone(), "paid".to_owned())];
        assert_eq!(list(&buyer).await, expected);
        let shop = instance.admin().get(&format!("/api/admin/items/{item}/live")).await;
        assert_eq!(shop.status, 200, "{}", shop.text);
    }
    sale.move_to(item, "1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_became_an_order_after_the_flip_is_not_refused() {
    let sale = Sale::open().await;
    let item = sale.item(json!({ "stock": 1 })).await;
    let order = sale.buy(item, "k").await;
    // The first instance knows that it is sold out.
    let refused = sale.stale.buyer(8).buy("mysql-atomic", item).await;
    assert_eq!(refused.json["code"], "sold_out", "{}", refused.text);
    sale.move_until(item, "1", "move-flipped").await;
    let path = format!("/api/orders/{order}/cancellation");
    let cancelled = sale.fresh.buyer(BUYER).post(&path, &json!({})).await;
    assert_eq!(cancelled.json["status"], "cancelled", "{}", cancelled.text);
    let sold = sale.fresh.buyer(8).buy_with_key("mysql-atomic", item, "late").await;
    assert_eq!(sold.status, 201, "{}", sold.text);
    let replay = sale.stale.buyer(8).buy_with_key("mysql-atomic", item, "late").await;
    assert_eq!((replay.status, &replay.json["id"]), (201, &sold.json["id"]), "{}", replay.text);
    sale.move_to(item, "1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_in_line_is_read_where_the_item_lives() {
    let sale = Sale::open().await;
    let item = sale.item(json!({ "stock": 1, "offer_seconds": 600 })).await;
    let order = sale.buy(item, "k").await;
    sale.move_until(item, "1", "move-flipped").await;
    let path = format!("/api/items/{item}/waiting");
    let joined = sale.fresh.buyer(8).post(&path, &json!({})).await;
    assert_eq!(joined.json["status"], "waiting", "{}", joined.text);
    let seen = sale.stale.buyer(8).get(&path).await;
    assert_eq!(seen.json["status"], "waiting", "{}", seen.text);
    let cancellation = format!("/api/orders/{order}/cancellation");
    let cancelled = sale.fresh.buyer(BUYER).post(&cancellation, &json!({})).await;
    assert_eq!(cancelled.json["status"], "cancelled", "{}", cancelled.text);
    // The offer is where the item lives, too.
    let accepted = sale.stale.buyer(8).post(&format!("{path}/purchase"), &json!({})).await;
    assert_eq!(accepted.status, 201, "{}", accepted.text);
    sale.move_to(item, "1").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_reads_and_exports_an_item_where_it_lives() {
    let sale = Sale::open().await;
    let (shown, exported) = (sale.item(json!({})).await, sale.item(json!({})).await);
    for item in [shown, exported] {
        let order = sale.buy(item, "k").await;
        sale.move_until(item, "1", "move-flipped").await;
        pay(&sale.fresh.buyer(BUYER), &order).await;
    }
    let admin = sale.stale.admin();
    let figures = admin.get(&format!("/api/admin/items/{shown}/live")).await;
    assert_eq!(figures.json["shard"], 1, "{}", figures.text);
    assert_eq!(figures.json["orders"]["paid"]["orders"], 1, "{}", figures.text);
    let path = format!("/api/admin/export?table=orders&format=jsonl&item={exported}");
    let export = admin.get(&path).await;
    assert!(export.text.contains("\"paid\""), "{}", export.text);
    assert!(!export.text.contains("\"pending\""), "{}", export.text);
    let all = admin.get("/api/admin/export?table=orders&format=jsonl").await;
    assert_eq!(all.json["code"], "item_moving", "{}", all.text);
    for item in [shown, exported] {
        sale.move_to(item, "1").await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refund_is_noted_and_listed_once_where_its_order_is() {
    let provider = TestProvider::start().await;
    provider.refuse_refunds(true);
    let sale = Sale::with_provider(Some(&provider)).await;
    let item = sale.item(json!({})).await;
    let order = sale.buy(item, "k").await;
    for (message, payment) in [("m1", "p1"), ("m2", "p2")] {
        let said = provider.succeeded(message, payment, &order, 250);
        assert_eq!(said.send(&sale.stale).await.status, 200);
    }
    sale.move_until(item, "1", "move-flipped").await;
    // By hand, by way of the instance whose route is out of date.
    let refund = sale.stale.admin().post("/api/admin/payments/p2/refund", &json!({})).await;
    assert_eq!(refund.status, 204, "{}", refund.text);
    for instance in [&sale.stale, &sale.fresh] {
        let listed = instance.admin().get("/api/admin/payments").await;
        let payments = listed.json["payments"].as_array().expect("a list");
        let states: Vec<_> = payments.iter().map(|one| (&one["id"], &one["status"])).collect();
        let expected = [(&json!("p1"), &json!("accepted")), (&json!("p2"), &json!("refunded"))];
        assert_eq!(states, expected, "{}", listed.text);
    }
    provider.refuse_refunds(false);
    sale.move_to(item, "1").await;
    let status: String = sqlx::query_scalar("SELECT status FROM payments WHERE id = 'p2'")
        .fetch_one(sale.pair.pool(1))
        .await
        .expect("the payment has moved");
    assert_eq!(status, "refunded");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_is_not_loaded_where_the_item_does_not_live() {
    let sale = Sale::open().await;
    for strategy in ["redis-lua", "redis-bucket"] {
        let item = sale.item(json!({})).await;
        sale.buy(item, "k").await;
        sale.move_until(item, "1", "move-flipped").await;
        let sold = sale.stale.buyer(8).buy(strategy, item).await;
        assert_eq!(sold.status, 201, "{strategy}: {}", sold.text);
        for table in ["redis_counters", "redis_buckets"] {
            let statement = format!("SELECT COUNT(*) FROM {table} WHERE item_id = ?");
            let loads = sqlx::query_scalar(&statement).bind(item).fetch_one(sale.pair.pool(0));
            let loads: i64 = loads.await.expect("counted");
            assert_eq!(loads, 0, "{strategy}: {table} is loaded at the source");
        }
        sale.move_to(item, "1").await;
    }
}
