//! The queue of `redis-stream`: what a 202 is worth, from the answer to the ledger.
//!
//! A test that has to see an order in the queue locks the item's stock row meanwhile: then nothing
//! can be decided, and everything else works.

mod durable;

use faulty_link::Fault;
use futures::future::join_all;
use reqwest::Method;
use seckill::config::Secret;
use seckill::domain::{ItemId, OrderId, Purchase, Quantity, RequestKey, UserId};
use seckill::metrics::Metrics;
use seckill::store::mysql::items;
use seckill::store::redis::queue::{Push, Reader};
use seckill::store::redis::{Counters, Queue, RedisClient};
use serde_json::json;
use sqlx::{MySql, Transaction};

use crate::http::events::Events;
use crate::http::{BOUND, assert_clean, assert_problem, order_id};
use crate::support::{
    Answer, Client, Instance, Shop, eventually, link_to, purchase_path, redis_url,
};

const STREAM: &str = "redis-stream";

/// A shop that takes over and tries again sooner than usual.
async fn shop() -> Shop {
    Shop::with(|config| {
        config.queue.poll_ms = 100;
        config.queue.claim_idle_ms = 1_000;
        config.mysql.lock_wait_timeout_seconds = 1;
    })
    .await
}

/// Nothing of the item can be decided until this is dropped or rolled back.
async fn hold_up(shop: &Shop, item: i64) -> Transaction<'static, MySql> {
    crate::support::hold_stock_row(&shop.pool, item).await
}

async fn order(client: &Client, id: &str) -> Answer {
    client.get(&format!("/api/orders/{id}")).await
}

/// Waits until an order stands so.
async fn ends_as(client: &Client, id: &str, status: &str) {
    eventually(&format!("the order to be {status}"), || async {
        let seen = order(client, id).await;
        assert_eq!(seen.status, 200, "an accepted order is not found: {}", seen.text);
        (seen.json["status"] == status).then_some(())
    })
    .await;
}

/// The ids of an item's orders in the ledger that were not refused.
async fn in_ledger(shop: &Shop, item: i64) -> Vec<String> {
    sqlx::query_scalar(
        "SELECT id FROM orders WHERE item_id = ? AND status <> 'rejected' ORDER BY id",
    )
    .bind(item)
    .fetch_all(&shop.pool)
    .await
    .expect("the ledger is read")
}

async fn redis(shop: &Shop) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(shop.config.redis_url.reveal()).expect("a URL");
    client.get_multiplexed_async_connection().await.expect("a connection")
}

fn key(shop: &Shop, item: i64, part: &str) -> String {
    format!("{}{{item:{item}}}:{part}", shop.config.redis.prefix)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_order_is_its_owners_until_the_ledger_has_it() {
    let shop = shop().await;
    let (here, there) = (shop.start().await, shop.start().await);
    let item = here.make_item(json!({ "stock": 3 })).await;
    let (buyer, elsewhere) = (here.buyer(1), there.buyer(1));
    let mut events = Events::open(elsewhere.request(Method::GET, "/api/orders/events")).await;
    let holder = hold_up(&shop, item).await;

    let queued = buyer.buy_with_key(STREAM, item, "k").await;
    assert_eq!((queued.status, &queued.json["status"]), (202, &json!("queued")), "{}", queued.text);
    let id = order_id(&queued);
    assert_eq!(queued.headers["location"], format!("/api/orders/{id}"));
    for client in [&buyer, &elsewhere] {
        assert_eq!(order(client, &id).await.json, queued.json, "as it was answered");
        let again = client.buy_with_key(STREAM, item, "k").await;
        assert_eq!((again.status, order_id(&again)), (202, id.clone()), "{}", again.text);
        assert_eq!(again.headers["idempotency-replayed"], "true");
        let other = Client::send(
            client
                .request(Method::POST, &purchase_path(STREAM, item))
                .header("idempotency-key", "l"),
        );
        assert_problem(&other.await, (409, "limit_reached"), "a second order of one");
        // A try of the consumer may have the order's row just then; that is waited for.
        for step in ["payment", "cancellation"] {
            eventually("the step to be refused", || async {
                let path = format!("/api/orders/{id}/{step}");
                let refused = client.post(&path, &json!({})).await;
                assert!([409, 503].contains(&refused.status), "{}", refused.text);
                (refused.code() == "order_state_conflict").then_some(())
            })
            .await;
        }
    }
    eventually("both to list it", || async {
        for client in [&buyer, &elsewhere] {
            let listed = client.get("/api/orders").await.json;
            if listed["orders"] != json!([queued.json]) {
                return None;
            }
        }
        Some(())
    })
    .await;
    assert_problem(&order(&here.buyer(2), &id).await, (404, "order_not_found"), "another's");
    assert_eq!(here.buyer(2).get("/api/orders").await.json["orders"], json!([]));
    // Units in the queue are accounted for.
    let audit = here.audit(item).await;
    let figures = ["clean", "available", "redis_available", "redis_queued"].map(|f| &audit[f]);
    assert_eq!(figures, [&json!(true), &json!(3), &json!(2), &json!(1)], "{audit}");

    holder.rollback().await.expect("the row is free");
    let told = events.seek(BOUND, |event| event.data["status"] == "pending").await;
    assert_eq!(told.expect("the decision is told").data["id"], json!(id));
    for client in [&buyer, &elsewhere] {
        ends_as(client, &id, "pending").await;
        let again = client.buy_with_key(STREAM, item, "k").await;
        assert_eq!((again.status, order_id(&again)), (201, id.clone()));
        let listed = client.get("/api/orders").await.json;
        assert_eq!(listed["orders"].as_array().map(Vec::len), Some(1), "{listed}");
    }
    assert_eq!(in_ledger(&shop, item).await, std::slice::from_ref(&id));
    let audit = assert_clean(&here, item).await;
    assert_eq!((&audit["redis_available"], &audit["redis_queued"]), (&json!(2), &json!(0)));
    let paid = buyer.post(&format!("/api/orders/{id}/payment"), &json!({})).await;
    assert_eq!(paid.status, 200, "{}", paid.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_refuses_is_rejected_once_and_its_units_come_back() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 1 })).await;
    let buyer = instance.buyer(1);
    // The counter is loaded; then the unit is sold by a strategy that does not know of it, while
    // the queued order waits for the ledger.
    let holder = hold_up(&shop, item).await;
    let other = instance.buyer(2);
    let other = tokio::spawn(async move { other.buy("mysql-atomic", item).await });
    eventually("the other one to wait for the row", || async {
        let waiting =
            crate::support::statements_running(&shop.pool, "UPDATE stock SET available%").await;
        (waiting > 0).then_some(())
    })
    .await;
    let queued = buyer.buy_with_key(STREAM, item, "k").await;
    assert_eq!(queued.status, 202, "{}", queued.text);
    let id = order_id(&queued);
    holder.rollback().await.expect("the row is free");
    assert_eq!(other.await.expect("no panic").status, 201);
    ends_as(&buyer, &id, "rejected").await;
    let again = buyer.buy_with_key(STREAM, item, "k").await;
    assert_eq!((again.status, &again.json["status"]), (202, &json!("rejected")), "{}", again.text);
    assert_eq!(order_id(&again), id);
    let listed = buyer.get("/api/orders").await.json;
    assert_eq!(listed["orders"][0]["status"], "rejected", "{listed}");
    assert_eq!(in_ledger(&shop, item).await.len(), 1);
    let audit = assert_clean(&instance, item).await;
    assert_eq!((&audit["redis_available"], &audit["redis_queued"]), (&json!(0), &json!(0)));
    // The unit that came back to the ledger is sold by the queue.
    let cancelled = instance.buyer(2).get("/api/orders").await.json["orders"][0]["id"].clone();
    let path = format!("/api/orders/{}/cancellation", cancelled.as_str().expect("an id"));
    assert_eq!(instance.buyer(2).post(&path, &json!({})).await.status, 200);
    eventually("the unit to be sold again", || async {
        let answer = instance.buyer(3).buy_for_good(STREAM, item).await;
        (answer.status == 201).then_some(())
    })
    .await;
    assert_clean(&instance, item).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_queue_is_bounded_and_refuses_rather_than_forgets() {
    let mut shop = shop().await;
    shop.config.queue.backlog_max = 3;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 10 })).await;
    let holder = hold_up(&shop, item).await;
    let mut queued = Vec::new();
    for id in 1..=5 {
        let answer = instance.buyer(id).buy(STREAM, item).await;
        if id <= 3 {
            assert_eq!(answer.status, 202, "{}", answer.text);
            queued.push((instance.buyer(id), order_id(&answer)));
        } else {
            assert_problem(&answer, (503, "overloaded"), "one too many");
        }
    }
    holder.rollback().await.expect("the row is free");
    for (buyer, id) in &queued {
        ends_as(buyer, id, "pending").await;
    }
    assert_eq!(instance.buyer(6).buy_for_good(STREAM, item).await.status, 201);
    assert_eq!(assert_clean(&instance, item).await["held"], 4);
}

/// The same key by another way, while the first order waits: it is one order, whichever is decided
/// first, and the other one takes no units.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_queued_and_sent_again_elsewhere_is_one_order() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    let holder = hold_up(&shop, item).await;
    let buyer = instance.buyer(1);
    let queued = buyer.buy_with_key(STREAM, item, "twice").await;
    assert_eq!((queued.status, &queued.json["status"]), (202, &json!("queued")));
    let again =
        tokio::spawn(async move { buyer.buy_with_key("mysql-atomic", item, "twice").await });
    holder.rollback().await.expect("released");
    let again = again.await.expect("no panic");
    assert!(again.status < 300 || again.json["retryable"] == true, "{}", again.text);
    let id = queued.json["id"].as_str().expect("an id");
    eventually("the queued order to be decided", || async {
        let seen = order(&instance.buyer(1), id).await.json["status"].clone();
        (seen == "pending" || seen == "rejected").then_some(())
    })
    .await;
    let last = eventually("the key to be answered", || async {
        let last = instance.buyer(1).buy_with_key("mysql-atomic", item, "twice").await;
        (last.status < 300).then_some(last)
    })
    .await;
    assert_eq!(in_ledger(&shop, item).await, [last.json["id"].as_str().expect("an id")]);
    eventually("the books to be clean", || async {
        (instance.audit(item).await["clean"] == true).then_some(())
    })
    .await;
    assert_eq!(assert_clean(&instance, item).await["held"], 1);
}

/// The ledger is asked about a key before anything is queued under it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_that_is_an_order_already_is_not_queued() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let bought = buyer.buy_with_key("mysql-atomic", item, "once").await;
    assert_eq!(bought.status, 201, "{}", bought.text);
    let request = buyer.request(Method::POST, &purchase_path(STREAM, item));
    let request = request.header("idempotency-key", "once").json(&json!({ "quantity": 2 }));
    let reused = Client::send(request).await;
    assert_eq!(reused.brief(), (422, "idempotency_key_reused"), "{}", reused.text);
    let again = buyer.buy_with_key(STREAM, item, "once").await;
    assert_eq!((again.status, &again.json["id"]), (201, &bought.json["id"]), "{}", again.text);
    assert_eq!(in_ledger(&shop, item).await, [bought.json["id"].as_str().expect("an id")]);
    assert_eq!(assert_clean(&instance, item).await["held"], 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_decided_is_put_aside_and_holds_nobody_up() {
    let mut shop = shop().await;
    shop.config.queue.deliveries_max = 2;
    shop.config.queue.claim_idle_ms = 200;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy_for_good(STREAM, item).await.status, 201);
    let mut connection = redis(&shop).await;
    let _: String = redis::cmd("XADD")
        .arg(key(&shop, item, "queue"))
        .arg(&["*", "order", "no order"])
        .query_async(&mut connection)
        .await
        .expect("planted");
    assert_eq!(instance.buyer(2).buy_for_good(STREAM, item).await.status, 201);
    let lengths = eventually("it to be put aside", || async {
        let mut connection = connection.clone();
        let mut length = async |part: &str| {
            let mut command = redis::cmd("XLEN");
            command.arg(key(&shop, item, part));
            command.query_async::<u64>(&mut connection).await.expect("asked")
        };
        let (parked, waiting) = (length("parked").await, length("queue").await);
        let metrics = instance.stranger().get("/metrics").await.text;
        let counted = metrics.contains("seckill_queue_parked_total 1");
        (parked > 0 && counted).then_some((parked, waiting))
    })
    .await;
    assert_eq!(lengths, (1, 0));
    assert_eq!(assert_clean(&instance, item).await["held"], 2);
}

/// The queues of newer sales do not hide an older one, whose order nobody was told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_queue_behind_a_thousand_newer_ones_is_served() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let newer: Vec<String> = (1..=1_001).map(|number| format!("({})", item + number)).collect();
    let statement = format!("INSERT INTO redis_queues (item_id) VALUES {}", newer.join(", "));
    sqlx::query(&statement).execute(&shop.pool).await.expect("newer queues");
    // As if its instance had died after it had queued the order.
    let queue = queue_of(&shop);
    let purchase = purchase(&shop, item, "k").await;
    let holder = hold_up(&shop, item).await;
    assert_eq!(queue.push(&purchase, None).await.expect("queued"), Push::Queued);
    let (buyer, order_id) = (instance.buyer(1), purchase.order_id.to_string());
    let seen = order(&buyer, &order_id).await;
    assert_eq!((seen.status, &seen.json["status"]), (200, &json!("queued")), "{}", seen.text);
    holder.rollback().await.expect("the row is free");
    ends_as(&buyer, &order_id, "pending").await;
    assert_clean(&instance, item).await;
}

/// The queues, as an instance sees them.
fn queue_of(shop: &Shop) -> Queue {
    let client = RedisClient::new(&shop.config).expect("the URL is fine");
    let counters = Counters::new(client.clone(), shop.pool.clone(), Metrics::new());
    Queue::new(client, shop.pool.clone(), counters, STREAM, 10).0
}

/// A purchase of one unit by buyer 1.
async fn purchase(shop: &Shop, item: i64, key: &str) -> Purchase {
    let id = ItemId::new(item).expect("positive");
    let found = items::find(&shop.pool, id).await.expect("read").expect("an item");
    let now = time::OffsetDateTime::now_utc();
    Purchase {
        order_id: OrderId::generate(),
        amount: found.item.price,
        item: found.item,
        buyer: UserId::new(1).expect("positive"),
        quantity: Quantity::ONE,
        key: RequestKey::parse(key).expect("a key"),
        strategy: STREAM,
        created_at: now,
        expires_at: now + time::Duration::HOUR,
    }
}

/// Units left by the counter in Redis.
async fn counted(shop: &Shop, item: i64) -> i64 {
    let mut command = redis::cmd("HGET");
    command.arg(key(shop, item, "stock")).arg("available");
    command.query_async(&mut redis(shop).await).await.expect("a counter")
}

/// An instance that had not heard of the order queues another one under its key. Nobody repairs the
/// counter here, so the unit comes back with the refusal.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_order_whose_key_is_another_order_is_rejected_and_its_unit_comes_back() {
    let mut shop = shop().await;
    shop.config.job.reconcile_period_ms = 3_600_000;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let sold = order_id(&buyer.buy_with_key("mysql-atomic", item, "k").await);
    let purchase = purchase(&shop, item, "k").await;
    assert_eq!(queue_of(&shop).push(&purchase, None).await.expect("asked"), Push::Queued);
    ends_as(&buyer, &purchase.order_id.to_string(), "rejected").await;
    assert_eq!(in_ledger(&shop, item).await, [sold]);
    eventually("the unit to come back", || async {
        (instance.audit(item).await["redis_queued"] == 0).then_some(())
    })
    .await;
    assert_eq!(counted(&shop, item).await, 4);
    assert_clean(&instance, item).await;
}

/// While a key is looked for in the queue, its order gets from there to the ledger.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_that_leaves_the_queue_during_the_look_is_found() {
    let shop = shop().await;
    let link = link_to(&redis_url().await).await;
    let mut slow = shop.config.clone();
    slow.redis_url = Secret::new(link.url());
    slow.redis.command_timeout_ms = 9_000;
    // It leaves the queue to the other instance.
    (slow.queue.poll_ms, slow.queue.claim_idle_ms) = (3_600_000, 7_200_000);
    let here = Shop { config: slow, pool: shop.pool.clone() }.start().await;
    let item = here.make_item(json!({})).await;
    let purchase = purchase(&shop, item, "k").await;
    assert_eq!(queue_of(&shop).push(&purchase, None).await.expect("asked"), Push::Queued);
    sqlx::query("UPDATE items SET paused = 1 WHERE id = ?")
        .bind(item)
        .execute(&shop.pool)
        .await
        .expect("the item is changed");
    eventually("the pause to be seen", || async {
        let request = here.buyer(2).request(Method::POST, &purchase_path("mysql-atomic", item));
        // More than a buyer may have.
        let refused = Client::send(request.json(&json!({ "quantity": 9 }))).await;
        (refused.code() == "sale_paused").then_some(())
    })
    .await;
    link.set(Fault::Stall);
    let buyer = here.buyer(1);
    let asked = tokio::spawn(async move { buyer.buy_with_key("mysql-atomic", item, "k").await });
    let there = shop.start().await;
    ends_as(&there.buyer(1), &purchase.order_id.to_string(), "pending").await;
    eventually("the queue to be empty", || async {
        (there.audit(item).await["redis_queued"] == 0).then_some(())
    })
    .await;
    link.mend();
    let told = asked.await.expect("no panic");
    assert_eq!(told.status, 201, "it is an order: {}", told.text);
    assert_eq!(order_id(&told), purchase.order_id.to_string());
}

/// No consumer runs, so the scripts are tested alone.
#[tokio::test]
async fn a_queued_order_is_known_by_its_key_and_settled_once() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    instance.stop().await;
    let (queue, first) = (queue_of(&shop), purchase(&shop, item, "k").await);
    assert_eq!(queue.push(&first, None).await.expect("asked"), Push::Queued);
    // The memory of requests runs out while the order waits.
    let mut forget = redis::cmd("DEL");
    forget.arg(key(&shop, item, "requests"));
    forget.exec_async(&mut redis(&shop).await).await.expect("deleted");
    let again = queue.push(&purchase(&shop, item, "k").await, None).await.expect("asked");
    assert_eq!(again, Push::Known(first.order_id, 1));
    assert_eq!(counted(&shop, item).await, 4);
    let (reader, id) = (Reader::new(queue), first.item.id);
    let entries = reader.read(id, 10).await.expect("asked");
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    let intention = entry.order.as_ref().expect("an order");
    for was_queued in [true, false] {
        let settled = reader.ack(id, &entry.id, intention, true).await.expect("asked");
        assert_eq!((settled, counted(&shop, item).await), (was_queued, 5));
    }
    let lengths = reader.lengths(&[id]).await.expect("asked");
    assert_eq!(lengths, [(0, 0)], "something is left");
}

/// Trouble may pass: an order is put aside after so many deliveries, and not at the first one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_entry_that_cannot_be_decided_is_tried_again_before_it_is_put_aside() {
    let mut shop = shop().await;
    shop.config.queue.deliveries_max = 1_000_000;
    shop.config.queue.claim_idle_ms = 200;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy_for_good(STREAM, item).await.status, 201);
    let mut plant = redis::cmd("XADD");
    plant.arg(key(&shop, item, "queue")).arg(&["*", "order", "no order"]);
    let entry: String = plant.query_async(&mut redis(&shop).await).await.expect("planted");
    let (reader, id) = (Reader::new(queue_of(&shop)), ItemId::new(item).expect("positive"));
    eventually("it to come a third time", || async {
        (reader.deliveries(id, &entry).await.expect("asked") >= 3).then_some(())
    })
    .await;
    assert_eq!(reader.queue().dead_letters(id).await.expect("asked"), []);
}

/// Queues an order each for so many buyers while nothing can be decided.
async fn queue(instance: &Instance, item: i64, buyers: i64) -> Vec<String> {
    let presses = (1..=buyers).map(|id| {
        let buyer = instance.buyer(id);
        async move { buyer.buy_with_key(STREAM, item, "k").await }
    });
    let answers = join_all(presses).await;
    answers
        .iter()
        .map(|answer| {
            assert_eq!(answer.status, 202, "{}", answer.text);
            order_id(answer)
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_counter_that_is_loaded_again_knows_what_is_queued() {
    let shop = shop().await;
    let instance = shop.start().await;
    // With the arbiter off nothing but the counter stands between the queue and overselling.
    let item = instance.make_item(json!({ "stock": 5, "arbiter": "off" })).await;
    let holder = hold_up(&shop, item).await;
    queue(&instance, item, 3).await;
    let stock = key(&shop, item, "stock");
    let mut delete = redis::cmd("DEL");
    let _: () = delete.arg(&stock).query_async(&mut redis(&shop).await).await.expect("deleted");
    let presses = (11..=18).map(|id| {
        let buyer = instance.buyer(id);
        async move { buyer.buy(STREAM, item).await.status }
    });
    let statuses = join_all(presses).await;
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 2, "{statuses:?}");
    holder.rollback().await.expect("the row is free");
    eventually("the queue to be empty", || async {
        (instance.audit(item).await["redis_queued"] == 0).then_some(())
    })
    .await;
    assert_eq!(in_ledger(&shop, item).await.len(), 5);
    assert_eq!(instance.audit(item).await["oversold"], 0);
}
