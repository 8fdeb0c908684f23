//! The arbiter against a real server: what happens when a transaction goes wrong half-way.

use std::time::Duration;

use futures::future::join_all;
use serde_json::json;

use crate::support::{Answer, Client, Shop, eventually, hold_stock_row};

#[tokio::test]
async fn a_retry_with_the_same_key_is_the_same_order() {
    let shop = Shop::new().await;
    let (one, two) = (shop.start().await, shop.start().await);
    let item = one.make_item(json!({ "stock": 3 })).await;
    let first = one.buyer(5).buy_with_key("default", item, "click-1").await;
    assert_eq!(first.status, 201, "{}", first.text);
    for strategy in ["lock-redis", "mysql-atomic", "mysql-version", "redis-watch"] {
        for instance in [&one, &two] {
            let again = instance.buyer(5).buy_with_key(strategy, item, "click-1").await;
            assert_eq!((again.status, &again.json["id"]), (201, &first.json["id"]), "{strategy}");
            assert_eq!(again.headers["idempotency-replayed"], "true");
        }
    }
    // Another buyer's key of the same text is another request.
    let other = two.buyer(6).buy_with_key("default", item, "click-1").await;
    assert_eq!(other.status, 201);
    assert_ne!(other.json["id"], first.json["id"]);
    // After a restart, and although nothing is left for anybody else.
    assert_eq!(two.buyer(7).buy("default", item).await.status, 201);
    assert_eq!(two.buyer(8).buy("default", item).await.brief(), (409, "sold_out"));
    one.stop().await;
    let restarted = shop.start().await;
    let again = restarted.buyer(5).buy_with_key("default", item, "click-1").await;
    assert_eq!((again.status, &again.json["id"]), (201, &first.json["id"]));
}

#[tokio::test]
async fn a_key_is_for_one_quantity() {
    let (_shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    let path = format!("/api/seckill/default/{item}");
    let buy = async |quantity: i64| {
        let request = instance.buyer(5).request(reqwest::Method::POST, &path);
        Client::send(request.header("idempotency-key", "k").json(&json!({ "quantity": quantity })))
            .await
    };
    assert_eq!(buy(2).await.status, 201);
    assert_eq!(buy(3).await.brief(), (422, "idempotency_key_reused"));
    assert_eq!(buy(2).await.status, 201);
    assert_eq!(instance.audit(item).await["held"], 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_fifty_times_at_once_is_one_order() {
    let shop = Shop::new().await;
    let instances = [shop.start().await, shop.start().await];
    for strategy in
        ["lock-redis", "lock-redis?store=redis", "mysql-atomic", "mysql-version", "redis-watch"]
    {
        let item = instances[0].make_item(json!({ "per_buyer_limit": 10 })).await;
        let sends = (0..50).map(|index| {
            let buyer = instances[index % 2].buyer(3);
            async move { buyer.buy_with_key(strategy, item, "one-click").await }
        });
        let answers = join_all(sends).await;
        let allowed = [(201, ""), (409, "request_in_progress")];
        let codes: Vec<_> = answers.iter().map(Answer::brief).collect();
        assert!(codes.iter().all(|code| allowed.contains(code)), "{strategy}: {codes:?}");
        let audit = eventually("a clean audit", || async {
            let audit = instances[0].audit(item).await;
            (audit["clean"] == true).then_some(audit)
        });
        assert_eq!(audit.await["held"], 1, "{strategy}");
    }
}

#[tokio::test]
async fn a_lock_wait_timeout_leaves_no_half_order() {
    let shop = Shop::with(|config| {
        config.mysql.lock_wait_timeout_seconds = 1;
        config.purchase.deadline_ms = 9_000;
    })
    .await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    // Somebody holds the hot row longer than every try.
    let holder = hold_stock_row(&shop.pool, item).await;
    let answer = instance.buyer(1).buy("mysql-atomic", item).await;
    assert_eq!(answer.brief(), (503, "contended"), "{}", answer.text);
    holder.rollback().await.expect("rolled back");
    let audit = instance.audit(item).await;
    assert_eq!((&audit["clean"], &audit["orders"]), (&json!(true), &json!(0)), "{audit}");
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
}

#[tokio::test]
async fn a_stale_fence_is_refused_and_the_counter_catches_up() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("lock-redis", item).await.status, 201);
    // As if a later holder had written: its clock was an hour ahead.
    let ahead = "UPDATE fences SET fence = fence + 3600000000 WHERE item_id = ?";
    sqlx::query(ahead).bind(item).execute(&shop.pool).await.expect("raised");
    let fenced = instance.buyer(2).buy("lock-redis", item).await;
    assert_eq!(fenced.brief(), (503, "contended"), "{}", fenced.text);
    let metrics = instance.stranger().get("/metrics").await.text;
    let counted =
        "seckill_arbiter_refusals_by_reason_total{strategy=\"lock-redis\",reason=\"fenced\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    // The lock knows as well that a hold of it came too late.
    let counted = "seckill_lock{kind=\"token\",backend=\"redis\",event=\"fenced\"} 1";
    assert!(metrics.contains(counted), "{metrics}");
    // The refusal raised the counter in Redis, so the sale goes on.
    assert_eq!(instance.buyer(2).buy("lock-redis", item).await.status, 201);
    assert_eq!(instance.audit(item).await["clean"], true);
}

#[tokio::test]
async fn a_purchase_finishes_although_its_buyer_has_gone() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({})).await;
    // The row is held, so the purchase hangs inside its transaction when the buyer leaves.
    let holder = hold_stock_row(&shop.pool, item).await;
    let buyer = instance.buyer(1);
    let waiting =
        tokio::spawn(async move { buyer.buy_with_key("mysql-atomic", item, "gone").await });
    eventually("the purchase to run", || async {
        let metrics = instance.stranger().get("/metrics").await.text;
        metrics.contains("seckill_purchases_in_flight 1").then_some(())
    })
    .await;
    waiting.abort();
    holder.rollback().await.expect("rolled back");
    eventually("the order", || async { (instance.audit(item).await["held"] == 1).then_some(()) })
        .await;
    let again = instance.buyer(1).buy_with_key("mysql-atomic", item, "gone").await;
    assert_eq!(again.status, 201);
    assert_eq!(instance.audit(item).await["held"], 1);
}

#[tokio::test]
async fn an_answer_that_takes_too_long_is_unknown_and_the_key_tells() {
    let shop = Shop::with(|config| {
        config.purchase.deadline_ms = 2_000;
        config.mysql.lock_wait_timeout_seconds = 20;
        config.mysql.acquire_timeout_ms = 500;
        config.redis.command_timeout_ms = 500;
    })
    .await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let answer = instance.buyer(1).buy_with_key("mysql-atomic", item, "slow").await;
    assert_eq!(answer.brief(), (504, "outcome_unknown"));
    assert_eq!(
        (&answer.json["outcome"], &answer.json["retryable"]),
        (&json!("unknown"), &json!(true))
    );
    // While it still runs, the same request is not started twice.
    let again = instance.buyer(1).buy_with_key("mysql-atomic", item, "slow").await;
    assert_eq!(again.brief(), (409, "request_in_progress"));
    holder.rollback().await.expect("rolled back");
    let told = eventually("the truth", || async {
        let answer = instance.buyer(1).buy_with_key("mysql-atomic", item, "slow").await;
        (answer.status == 201).then_some(answer)
    });
    assert_eq!(told.await.headers["idempotency-replayed"], "true");
    assert_eq!(instance.audit(item).await["held"], 1);
}

#[tokio::test]
async fn a_full_house_says_so_at_once() {
    let shop = Shop::with(|config| config.purchase.in_flight_max = 1).await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let buyer = instance.buyer(1);
    let first = tokio::spawn(async move { buyer.buy("mysql-atomic", item).await });
    eventually("the purchase to run", || async {
        let metrics = instance.stranger().get("/metrics").await.text;
        metrics.contains("seckill_purchases_in_flight 1").then_some(())
    })
    .await;
    let second = instance.buyer(2).buy("mysql-atomic", item).await;
    assert_eq!(second.brief(), (503, "overloaded"));
    assert_eq!(second.headers["retry-after"], "1");
    holder.rollback().await.expect("rolled back");
    assert_eq!(first.await.expect("no panic").status, 201);
    assert_eq!(instance.buyer(2).buy("mysql-atomic", item).await.status, 201);
}

#[tokio::test]
async fn an_emptied_redis_is_noticed_and_loaded_from_the_ledger() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": 5 })).await;
    assert_eq!(instance.buyer(1).buy("redis-watch", item).await.status, 201);
    let key = format!("{}{{item:{item}}}:stock", shop.config.redis.prefix);
    let mut redis = crate::support::redis_of(&shop);
    for round in 0..2 {
        if round == 0 {
            let _: () = redis::cmd("DEL").arg(&key).query_async(&mut redis).await.expect("deleted");
        } else {
            // An older copy: a lower epoch, with stock that was sold since.
            let mut old = redis::cmd("HSET");
            old.arg(&key).arg("epoch").arg(1).arg("available").arg(500);
            let _: () = old.query_async(&mut redis).await.expect("written");
        }
        let buyer = instance.buyer(2 + round);
        assert_eq!(buyer.buy("redis-watch", item).await.status, 201, "round {round}");
        let audit = instance.audit(item).await;
        assert_eq!(audit["redis_available"], audit["available"], "{audit}");
    }
    assert_eq!(instance.buyer(4).buy("redis-watch", item).await.status, 201);
    assert_eq!(instance.buyer(5).buy("redis-watch", item).await.status, 201);
    assert_eq!(instance.buyer(6).buy("redis-watch", item).await.brief(), (409, "sold_out"));
}

#[tokio::test]
async fn drift_is_found_and_repaired_from_the_ledger() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("redis-watch", item).await.status, 201);
    // As if a purchase had died between the counter and the ledger.
    let key = format!("{}{{item:{item}}}:stock", shop.config.redis.prefix);
    let mut redis = crate::support::redis_of(&shop);
    let mut lower = redis::cmd("HINCRBY");
    let _: i64 =
        lower.arg(&key).arg("available").arg(-3).query_async(&mut redis).await.expect("lowered");
    assert_eq!(instance.audit(item).await["clean"], false);
    let audit = eventually("the repair", || async {
        let audit = instance.audit(item).await;
        (audit["clean"] == true).then_some(audit)
    });
    assert_eq!(audit.await["redis_available"], 9);
}

#[tokio::test]
async fn planted_faults_are_named_by_the_audit() {
    let (shop, instance) = Shop::open().await;
    let plant = async |statement: &str| {
        let item = instance.make_item(json!({ "per_buyer_limit": 2 })).await;
        for id in 1..=3 {
            assert_eq!(instance.buyer(id).buy("lock-redis", item).await.status, 201);
        }
        assert_eq!(instance.audit(item).await["clean"], true);
        let done =
            sqlx::query(&statement.replace(":item", &item.to_string())).execute(&shop.pool).await;
        assert!(done.expect("planted").rows_affected() > 0, "{statement}");
        let audit = instance.audit(item).await;
        let findings = audit["findings"].as_array().expect("findings").clone();
        let broken = findings.into_iter().filter(|finding| finding["holds"] == false);
        broken
            .map(|finding| finding["invariant"].as_str().unwrap_or_default().to_owned())
            .collect::<Vec<_>>()
    };
    let deleted = plant("DELETE FROM orders WHERE item_id = :item LIMIT 1").await;
    assert!(
        deleted.contains(&"I1".to_owned()) && deleted.contains(&"I4".to_owned()),
        "{deleted:?}"
    );
    let changed = plant("UPDATE orders SET quantity = 2 WHERE item_id = :item LIMIT 1").await;
    assert!(
        changed.contains(&"I1".to_owned()) && changed.contains(&"I2".to_owned()),
        "{changed:?}"
    );
    let missing = plant("DELETE FROM stock_movements WHERE item_id = :item LIMIT 1").await;
    assert_eq!(missing, ["I3", "I4"]);
    let swapped = plant("UPDATE orders SET user_id = 99 WHERE item_id = :item LIMIT 1").await;
    assert_eq!(swapped, ["I2"]);
    let refilled = plant("UPDATE stock SET available = available + 1 WHERE item_id = :item").await;
    assert_eq!(refilled, ["I1", "I3"]);
    let returned =
        plant("UPDATE orders SET status = 'cancelled' WHERE item_id = :item LIMIT 1").await;
    assert!(returned.contains(&"I5".to_owned()), "{returned:?}");
    let fence = plant("UPDATE fences SET fence = 1 WHERE item_id = :item").await;
    assert_eq!(fence, ["I6"]);
    // The last write was let in with a fence of long ago.
    let stale = "UPDATE orders SET fence = 1 WHERE item_id = :item ORDER BY id DESC LIMIT 1";
    assert_eq!(plant(stale).await, ["I6"]);
}

#[tokio::test]
async fn a_stop_finishes_what_was_accepted() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": 100 })).await;
    let buyers: Vec<_> = (1..=60).map(|id| instance.buyer(id)).collect();
    let presses = buyers.into_iter().map(|buyer| {
        tokio::spawn(async move {
            let request =
                buyer.request(reqwest::Method::POST, &format!("/api/seckill/lock-redis/{item}"));
            request.send().await.map(|response| response.status().as_u16()).ok()
        })
    });
    let presses: Vec<_> = presses.collect();
    tokio::time::sleep(Duration::from_millis(40)).await;
    assert_eq!(instance.stop().await, seckill::lifecycle::StopResult::Clean);
    let mut accepted = 0;
    for press in presses {
        accepted += i64::from(press.await.expect("no panic") == Some(201));
    }
    let restarted = shop.start().await;
    let audit = restarted.audit(item).await;
    assert_eq!(audit["clean"], true, "{audit}");
    // Every 201 is in the ledger; a purchase whose answer was cut off may be there too.
    assert!(audit["held"].as_i64().expect("a number") >= accepted, "{accepted} accepted, {audit}");
}
