//! A queued order: its owner sees it everywhere until the ledger decides, and the queue is bounded.

use gates::redis_store::CounterError;
use seckill::failpoint::hold::Director;
use tokio::time::{Instant, timeout};

use super::*;

/// A buyer whom no other test of this process has.
const BUYER: i64 = 74_110;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_queued_order_is_its_owners_until_the_ledger_has_it() {
    let (shop, here, there) = shop().await.opened_twice().await;
    let item = here.make_item(json!({ "stock": 3 })).await;
    let (buyer, elsewhere) = (here.buyer(1), there.buyer(1));
    let mut events = elsewhere.events("/api/orders/events").await;
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
        let other = client.buy_with_key(STREAM, item, "l").await;
        assert_problem(&other, (409, "limit_reached"), "a second order of one");
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
    buyer.step(&id, "payment").await.expect_status(200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_the_ledger_refuses_is_rejected_once_and_its_units_come_back() {
    let mut shop = shop().await;
    patient(&mut shop.config);
    let (shop, instance) = shop.opened().await;
    let item = instance.make_item(json!({ "stock": 1 })).await;
    let buyer = instance.buyer(1);
    // The counter is loaded; then the unit is sold by a strategy that does not know of it, while
    // the queued order waits for the ledger.
    let holder = hold_up(&shop, item).await;
    let other = instance.buyer(2).buying("mysql-atomic", item);
    until_running(&shop.pool, "UPDATE stock SET available%", 1).await;
    let queued = buyer.buy_with_key(STREAM, item, "k").await.expect_status(202);
    let id = order_id(&queued);
    holder.rollback().await.expect("the row is free");
    let sold = order_id(&other.await.expect("no panic").expect_status(201));
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
    instance.buyer(2).step(&sold, "cancellation").await.expect_status(200);
    let buy = || async { instance.buyer(3).buy_for_good(STREAM, item).await };
    until("the unit to be sold again", buy, |answer| answer.status == 201).await;
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

/// A gate that got the ledger's answers too late queues nothing: its buyer has another answer by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_queued_behind_the_deadline() {
    let (shop, instance) = shop().await.opened().await;
    let item = instance.make_item(json!({ "stock": 5 })).await;
    let queue = queue_of(&shop);
    push(&queue, &purchase(&shop, item, "first").await).await;
    let late = purchase(&shop, item, "late").await;
    let pushed = queue.push(&late, None, Instant::now()).await;
    assert!(matches!(pushed, Err(CounterError::Loading)), "{pushed:?}");
}

/// The queues of newer sales do not hide an older one, whose order nobody was told of.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_old_queue_behind_a_thousand_newer_ones_is_served() {
    let (shop, instance) = shop().await.opened().await;
    let item = instance.make_item(json!({})).await;
    let newer: Vec<String> = (1..=1_001).map(|number| format!("({})", item + number)).collect();
    let statement = format!("INSERT INTO redis_queues (item_id) VALUES {}", newer.join(", "));
    sqlx::query(&statement).execute(&shop.pool).await.expect("newer queues");
    // As if its instance had died after it had queued the order.
    let queue = queue_of(&shop);
    let purchase = purchase(&shop, item, "k").await;
    let holder = hold_up(&shop, item).await;
    push(&queue, &purchase).await;
    let (buyer, order_id) = (instance.buyer(1), purchase.order_id.to_string());
    order(&buyer, &order_id).await.assert_fields(200, json!({ "status": "queued" }));
    holder.rollback().await.expect("the row is free");
    ends_as(&buyer, &order_id, "pending").await;
    assert_clean(&instance, item).await;
}

/// A queued order of a deleted person would reach the ledger later, and no account could pay it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_with_a_queued_order_is_not_deleted() {
    let (shop, instance) = shop().await.opened().await;
    let item = instance.make_item(json!({})).await;
    let operator = shop.make_operator().await;
    let command = ["user", "erase", "--id", "7", "--operator", &operator];
    let delete = async || instance.admin().delete("/api/admin/users/7").await;
    let buyer = instance.buyer(7);
    let holder = hold_up(&shop, item).await;
    let queued = order_id(&buyer.buy(STREAM, item).await.expect_status(202));
    delete().await.expect_problem(409, "orders_open");
    run_says(&shop, &command, (1, "open order")).await;
    holder.rollback().await.expect("the row is free");
    ends_as(&buyer, &queued, "pending").await;
    delete().await.expect_problem(409, "orders_open");
    buyer.step(&queued, "cancellation").await.expect_status(200);
    instance.until_audit(item, "redis_queued", 0).await;
    delete().await.expect_status(204);
    assert_clean(&instance, item).await;
}

/// A step looks for the order in the ledger, and then in the queue. In between a consumer writes it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_step_finds_an_order_that_leaves_the_queue_meanwhile() {
    let shop = shop().await;
    let aside = start_aside(&shop).await;
    let item = aside.make_item(json!({})).await;
    // As if its instance had died after it had queued the order.
    let buyer = UserId::new(BUYER).expect("positive");
    let purchase = Purchase { buyer, ..purchase(&shop, item, "k").await };
    push(&queue_of(&shop), &purchase).await;
    let id = purchase.order_id.to_string();
    let director = Director::of(&[BUYER]);
    let client = aside.buyer(BUYER);
    let of_step = id.clone();
    let paid = tokio::spawn(async move { client.step(&of_step, "payment").await });
    let not_found = director.arrival(BUYER, "step-found-nothing");
    timeout(BOUND, not_found).await.expect("it is not in the ledger");
    let consumer = shop.start().await;
    ends_as(&consumer.buyer(BUYER), &id, "pending").await;
    director.release(BUYER);
    let paid = paid.await.expect("no panic");
    assert_eq!((paid.status, &paid.json["status"]), (200, &json!("paid")), "{}", paid.text);
    assert_clean(&consumer, item).await;
}
