//! COMMIT fails for a batch of orders, or for a step of an order: each order is decided once.

use super::*;

/// While a COMMIT hangs, the later tries of its step wait for the order's row in vain: they say nothing of the first one.
#[tokio::test]
async fn a_step_whose_commit_hangs_is_not_told_that_nothing_changed() {
    let (link, linked, beside, _) =
        linked_shop_with(|config| config.mysql.lock_wait_timeout_seconds = 1).await;
    let item = beside.make_item(json!({ "stock": 1 })).await;
    let order = order_id(&beside.buyer(1).buy("mysql-atomic", item).await);
    link.trap(at_commit().cut_client_and_hold());
    let answer = linked.buyer(1).step(&order, "cancellation").await;
    assert_eq!(link.caught(), 1, "the fault did not bite");
    assert_eq!(answer.brief(), (503, "dependency_unavailable"), "{}", answer.text);
    assert_eq!(answer.json["outcome"], "unknown", "{}", answer.text);
    link.mend();
    let is_back = |audit: &Value| audit["available"] == 1 && audit["held"] == 0;
    until("the COMMIT to be done", || beside.audit(item), is_back).await;
}

#[tokio::test]
async fn a_step_of_an_order_whose_answer_is_lost_is_made_once() {
    let (link, linked, beside) = linked_shop().await;
    let item = json!({ "stock": 9, "per_buyer_limit": 9, "return_seconds": 600 });
    let item = beside.make_item(item).await;
    let buyer = linked.buyer(1);
    let step_once = async |trap: &Trap, order: &str, step: &str, body: Value| {
        let cuts = link.caught();
        link.trap(trap.clone());
        let answer = buyer.post(&format!("/api/orders/{order}/{step}"), &body).await;
        assert_eq!(link.caught(), cuts + 1, "{step}: the fault did not bite");
        answer.expect_status(200).json
    };
    for trap in [loses_answer(), loses_commit()] {
        let order = order_id(&beside.buyer(1).buy("mysql-atomic", item).await);
        let extended = step_once(&trap, &order, "extension", json!({ "seconds": 60 })).await;
        assert_eq!(extended["extended_seconds"], 60);
        let seen = beside.buyer(1).get(&format!("/api/orders/{order}")).await.json;
        assert_eq!(seen["expires_at"], extended["expires_at"], "extended once: {seen}");
        for (step, status) in [("payment", "paid"), ("return", "cancelled")] {
            assert_eq!(step_once(&trap, &order, step, json!({})).await["status"], status);
        }
        let order = order_id(&beside.buyer(1).buy("mysql-atomic", item).await);
        let cancelled = step_once(&trap, &order, "cancellation", json!({})).await;
        assert_eq!(cancelled["status"], "cancelled");
    }
    assert_has(&beside.audit(item).await, json!({ "available": 9, "held": 0, "clean": true }));
}

/// The COMMIT of an extension is lost, and another extension is quicker than its next try.
#[tokio::test]
async fn an_extension_that_was_lost_does_not_answer_for_a_quicker_one() {
    let (link, linked, beside) = linked_shop().await;
    let item = beside.make_item(json!({})).await;
    let order = order_id(&beside.buyer(1).buy("mysql-atomic", item).await);
    let path = format!("/api/orders/{order}/extension");
    let extend = async |instance: &Instance, seconds: u32| {
        instance.buyer(1).post(&path, &json!({ "seconds": seconds })).await
    };
    link.trap(loses_commit().then(Fault::Stall));
    let meanwhile = async {
        until_caught(&link, 0).await;
        let quicker = extend(&beside, 30).await;
        link.mend();
        quicker
    };
    let (lost, quicker) = tokio::join!(extend(&linked, 60), meanwhile);
    assert_eq!(quicker.json["extended_seconds"], 30, "{}", quicker.text);
    assert_eq!((lost.status, lost.json), (200, quicker.json));
}

/// A restock has no key, so nobody can tell a second one from the first: it is not tried again, and its operator looks.
#[tokio::test]
async fn a_restock_whose_answer_is_lost_is_not_made_again() {
    let (link, linked, beside) = linked_shop().await;
    for (trap, units) in [(loses_answer(), 6), (loses_commit(), 1)] {
        let item = beside.make_item(json!({ "stock": 1 })).await;
        link.trap(trap);
        let cuts = link.caught();
        let edited = linked.admin().edit(item, json!({ "stock_delta": 5 })).await;
        assert_eq!(link.caught(), cuts + 1, "the fault did not bite");
        assert_eq!(edited.status, 503, "{}", edited.text);
        assert_eq!(edited.json["outcome"], "unknown", "{}", edited.text);
        assert_has(&assert_clean(&beside, item).await, json!({ "available": units }));
    }
}

/// A shop whose one instance reaches the ledger through a link, and whose counters nobody repairs.
async fn lone_shop() -> (FaultyLink, Shop, Instance) {
    let mut shop = Shop::with(|config| {
        config.job.expire_period_ms = 200;
        config.job.reconcile_period_ms = 3_600_000;
        config.session.revocation_period_ms = 3_600_000;
    })
    .await;
    let link = link_before(&mut shop).await;
    let instance = shop.start().await;
    (link, shop, instance)
}

#[tokio::test]
async fn a_step_whose_answer_is_lost_is_told_and_counted() {
    let (link, shop, instance) = lone_shop().await;
    let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let others = instance.make_items(2, &json!({})).await;
    let cart = json!({ "lines": [{ "item_id": others[0] }, { "item_id": others[1] }] });
    let buyer = instance.buyer(1);
    let mut events = buyer.events("/api/orders/events").await;
    let cancelled = ("cancellation", "cancelled");
    let steps = [("payment", "paid"), cancelled, ("expiry", "expired"), cancelled];
    for (number, (step, status)) in (1..).zip(steps) {
        let bought = match number {
            4 => buyer.post("/api/reservations", &cart).await,
            _ => buyer.buy("redis-lua", item).await,
        };
        let order = order_id(&bought);
        link.trap(loses_answer());
        if step == "expiry" {
            let end =
                "UPDATE orders SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id = ?";
            shop.change(sqlx::query(end).bind(&order)).await;
        } else {
            assert_eq!(buyer.step(&order, step).await.status, 200, "{step}");
        }
        let told = |event: &Event| {
            event.name == "order" && event.data["id"] == *order && event.data["status"] == status
        };
        events.seek(BOUND, told).await.expect("the step is told");
        assert_eq!(link.caught(), number, "{step}: the fault did not bite");
    }
    assert_all_clean(&instance, &others).await;
    // The counter was told, too: it equals the ledger, and nobody repairs it here.
    assert_has(&assert_clean(&instance, item).await, json!({ "sold": 1, "available": 4 }));
    let metrics = instance.stranger().get("/metrics").await.text;
    assert!(metrics.contains("seckill_orders_expired_total 1\n"), "{metrics}");
}
