//! Buyers who hold units and do not pay: after a few holds that expired, they hold none any more.

use crate::support::prelude::*;

/// Forms in which orders are written: the procedure, batches, and a lock with its fence.
const STRATEGIES: [&str; 3] = ["mysql-atomic", "mysql-batch", "lock-redis"];
/// Longer than the hold of an item that names none.
const HOLD_SECONDS: i64 = 301;

async fn make(instance: &Instance, changes: Value) -> i64 {
    let body = json!({ "kind": "shop", "strategy": "mysql-atomic" });
    instance.make_item(changed(body, changes)).await
}

/// Holds a unit and lets it expire.
async fn abandon(shop: &Shop, instance: &Instance, buyer: &Client, item: i64) -> String {
    let before = instance.stranger().get(&format!("/api/items/{item}")).await.json;
    let held = buyer.buy_for_good("default", item).await.expect_status(201);
    shop.let_holds_pass(HOLD_SECONDS).await;
    instance.until_available(item, before["available"].as_i64().expect("units")).await;
    order_id(&held)
}

/// Sends a purchase of each buyer, through all forms in turn.
async fn rush(
    instance: &Instance,
    item: i64,
    buyers: impl Iterator<Item = i64>,
) -> Vec<(i64, Answer)> {
    let each = buyers.map(async |buyer| {
        let strategy = STRATEGIES[usize::try_from(buyer).expect("an id") % STRATEGIES.len()];
        (buyer, instance.buyer(buyer).buy_for_good(strategy, item).await)
    });
    join_all(each).await
}

async fn pay(instance: &Instance, buyer: i64, bought: &Answer) {
    instance.buyer(buyer).step(&order_id(bought), "payment").await.expect_status(200);
}

/// Fifty accounts that never pay are always the first. The others have all units after two hold times.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accounts_that_never_pay_keep_the_stock_for_two_holds() {
    const STOCK: i64 = 60;
    const IDLE: i64 = 50;
    let (shop, instance) = Shop::open().await;
    let item = make(&instance, json!({ "stock": STOCK })).await;
    let mut paid = 0;
    for round in 0..3 {
        let idle = rush(&instance, item, 1..=IDLE).await;
        for (_, answer) in &idle {
            if round < 2 {
                assert_eq!(answer.status, 201, "{}", answer.text);
            } else {
                assert_problem(answer, (409, "unpaid_limit_reached"), "a third hold");
            }
        }
        let first = 1_000 * (round + 1);
        let others = rush(&instance, item, first..first + STOCK).await;
        for (buyer, answer) in others.iter().filter(|(_, answer)| answer.status == 201) {
            pay(&instance, *buyer, answer).await;
            paid += 1;
        }
        if round < 2 {
            shop.let_holds_pass(HOLD_SECONDS).await;
            instance.until_available(item, STOCK - paid).await;
        }
    }
    assert!(paid * 100 >= STOCK * 95, "the others have {paid} of {STOCK}");
    assert_clean(&instance, item).await;
}

/// Paid orders do not count. A hold that is paid late is no unpaid hold any more.
#[tokio::test]
async fn a_buyer_who_pays_may_go_on() {
    let (shop, instance) = Shop::open().await;
    let item = make(&instance, json!({ "stock": 9, "per_buyer_limit": 9 })).await;
    let buyer = instance.buyer(1);
    let late = abandon(&shop, &instance, &buyer, item).await;
    for _ in 0..3 {
        pay(&instance, 1, &buyer.buy("default", item).await.expect_status(201)).await;
    }
    abandon(&shop, &instance, &buyer, item).await;
    for strategy in STRATEGIES {
        let refused = buyer.buy_for_good(strategy, item).await;
        assert_problem(&refused, (409, "unpaid_limit_reached"), strategy);
        let detail = refused.json["detail"].as_str().expect("a text");
        assert!(detail.contains("waiting list"), "{detail}");
    }
    assert_eq!(buyer.step(&late, "payment").await.status, 200);
    buyer.buy("default", item).await.expect_status(201);
    assert_clean(&instance, item).await;
}

/// Who waits in the line gets a unit also after holds that expired.
#[tokio::test]
async fn an_offer_is_accepted_after_unpaid_holds() {
    let (shop, instance) = Shop::open().await;
    let item = make(&instance, json!({ "stock": 1 })).await;
    let buyer = instance.buyer(1);
    for _ in 0..2 {
        abandon(&shop, &instance, &buyer, item).await;
    }
    buyer.buy("default", item).await.expect_problem(409, "unpaid_limit_reached");
    let other = instance.buyer(2);
    let held = order_id(&other.buy("default", item).await);
    let waiting = format!("/api/items/{item}/waiting");
    assert_eq!(buyer.post(&waiting, &json!({})).await.status, 200);
    assert_eq!(other.step(&held, "cancellation").await.status, 200);
    buyer.post(&format!("{waiting}/purchase"), &json!({})).await.expect_status(201);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn an_operator_chooses_how_many_holds_may_expire() {
    let (shop, instance) = Shop::open().await;
    let item = make(&instance, json!({})).await;
    let path = format!("/api/items/{item}");
    assert_eq!(instance.stranger().get(&path).await.json["unpaid_max"], 2, "a real sale");
    let lab = make(&instance, json!({ "kind": "lab" })).await;
    let lab = instance.stranger().get(&format!("/api/items/{lab}")).await.json;
    assert_eq!(lab["unpaid_max"], 0, "buyers of the lab do not pay");
    for wrong in [-1, 1_001] {
        let refused = instance.admin().edit(item, json!({ "unpaid_max": wrong })).await;
        assert_problem(&refused, (422, "out_of_range"), "a number");
    }
    let buyer = instance.buyer(1);
    for limit in [0, 1] {
        let edited = instance.admin().edit(item, json!({ "unpaid_max": limit })).await;
        assert_eq!(edited.json["unpaid_max"], limit, "{}", edited.text);
        if limit == 0 {
            for _ in 0..3 {
                abandon(&shop, &instance, &buyer, item).await;
            }
        }
    }
    let is_known = |refused: &Answer| refused.code() == "unpaid_limit_reached";
    until("the edit to be known", || buyer.buy("default", item), is_known).await;
    // The rows of before the upgrade: no hold was counted, and no item has a limit.
    let defaults = "SELECT COUNT(*) FROM information_schema.columns WHERE table_schema = DATABASE() \
         AND column_name IN ('unpaid_max', 'expired') AND column_default = '0'";
    assert_eq!(shop.number(defaults).await, 3);
    assert_clean(&instance, item).await;
}
