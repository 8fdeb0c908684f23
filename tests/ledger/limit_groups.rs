//! Limits across items: "two of these five", kept by the ledger whatever the gate is.

use crate::support::prelude::*;

/// A strategy of each kind.
const STRATEGIES: [&str; 8] = [
    "mysql-atomic",
    "mysql-batch",
    "mysql-for-update",
    "lock-redis",
    "redis-lua",
    "redis-bucket",
    "redis-stream",
    "redis-watch",
];

/// Items of one group, each with more units and a higher limit than the group.
async fn make_items(instance: &Instance, group: i64, count: usize) -> Vec<i64> {
    let body = json!({ "stock": 100, "per_buyer_limit": 10, "limit_group_id": group });
    instance.make_items(count, &body).await
}

/// Units of a buyer's orders of these items that hold stock.
async fn held(instance: &Instance, buyer: i64, items: &[i64]) -> i64 {
    let listed = instance.buyer(buyer).get("/api/orders?limit=200").await.json;
    let orders = listed["orders"].as_array().expect("a list").iter();
    let held = orders.filter(|order| {
        let status = order["status"].as_str().expect("a word");
        ["pending", "paid"].contains(&status)
            && items.contains(&order["item_id"].as_i64().expect("an id"))
    });
    held.map(|order| order["quantity"].as_i64().expect("units")).sum()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_gets_two_of_five_items_by_any_strategy() {
    let (_shop, instance) = Shop::open().await;
    let group = instance.make_group(2).await;
    let items = make_items(&instance, group, 5).await;
    for (buyer, strategy) in (1..).zip(STRATEGIES) {
        let client = instance.buyer(buyer);
        for item in &items[..2] {
            assert_eq!(client.buy_for_good(strategy, *item).await.status, 201, "{strategy}");
        }
        let over = client.buy_for_good(strategy, items[2]).await;
        let code = if strategy == "redis-stream" { "rejected" } else { "group_limit_reached" };
        assert_eq!(over.brief(), (409, code), "{strategy}: {}", over.text);
        assert_eq!(held(&instance, buyer, &items).await, 2, "{strategy}");
    }
    for item in items {
        let audit = assert_clean(&instance, item).await;
        let mut findings = audit["findings"].as_array().expect("findings").iter();
        let finding = findings.find(|finding| finding["invariant"] == "I14").expect("I14");
        assert_eq!(finding["holds"], true);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn purchases_of_all_items_at_once_stay_within_the_limit_of_their_group() {
    let (_shop, one, two) = Shop::new().await.opened_twice().await;
    let group = one.make_group(3).await;
    let items = make_items(&one, group, 5).await;
    // Others of the same batches are not kept out.
    let free = one.make_item(json!({ "stock": 1_000, "per_buyer_limit": 1_000 })).await;
    for strategy in ["mysql-batch", "mysql-atomic", "redis-lua"] {
        let first = strategy.len() as i64 * 100 + 1;
        let buyers: Vec<i64> = (first..first + 6).collect();
        let clients: Vec<_> =
            buyers.iter().flat_map(|buyer| [one.buyer(*buyer), two.buyer(*buyer)]).collect();
        let grouped =
            clients.iter().flat_map(|client| items.iter().map(|item| client.buy(strategy, *item)));
        let others = clients.iter().map(|client| client.buy(strategy, free));
        let (grouped, others) = tokio::join!(join_all(grouped), join_all(others));
        for answer in &grouped {
            let fine = answer.status == 201
                || ["group_limit_reached", "contended", "overloaded"].contains(&answer.code());
            assert!(fine, "{strategy}: {}", answer.text);
        }
        let is_fine = |answer: &Answer| [201, 503].contains(&answer.status);
        assert!(others.iter().all(is_fine), "{strategy}: {others:?}");
        for buyer in buyers {
            let units = held(&one, buyer, &items).await;
            assert!(units <= 3, "{strategy}: buyer {buyer} has {units}");
            // Whoever was refused because others ran has the rest now.
            for _ in units..3 {
                assert_eq!(one.buyer(buyer).buy("mysql-atomic", items[4]).await.status, 201);
            }
            let over = one.buyer(buyer).buy("mysql-atomic", items[0]).await;
            assert_problem(&over, (409, "group_limit_reached"), strategy);
        }
    }
    assert_all_clean(&one, &items).await;
}

#[tokio::test]
async fn units_that_come_back_count_no_more_and_late_payments_count_again() {
    let (shop, instance) = Shop::open_with(|config| config.job.expire_period_ms = 20).await;
    let group = instance.make_group(2).await;
    let items = make_items(&instance, group, 3).await;
    let buyer = instance.buyer(1);
    let first = order_id(&buyer.buy("mysql-atomic", items[0]).await);
    let second = order_id(&buyer.buy("mysql-batch", items[1]).await);
    assert_problem(&buyer.buy("mysql-batch", items[2]).await, (409, "group_limit_reached"), "full");
    buyer.step(&first, "cancellation").await;
    let third = order_id(&buyer.buy("mysql-batch", items[2]).await);
    // Both of them expire; then other orders have the limit, and a late payment is refused.
    shop.let_holds_pass(301).await;
    for order in [&second, &third] {
        buyer.until(&format!("/api/orders/{order}"), |seen| seen.json["status"] == "expired").await;
    }
    assert_eq!(buyer.buy("mysql-atomic", items[0]).await.status, 201);
    buyer.step(&second, "payment").await.assert_fields(200, json!({ "status": "paid" }));
    buyer.step(&third, "payment").await.expect_problem(409, "limit_reached");
    assert_all_clean(&instance, &items).await;
}

/// The item changed its group between two orders, so that the buyers' order is not that of the groups.
#[tokio::test]
async fn an_expiry_locks_the_limits_of_two_groups_in_the_order_of_a_batch() {
    let (shop, instance) = Shop::open_with(|config| {
        config.purchase.item_age_ms_max = 0;
        config.job.expire_period_ms = 60_000;
        // A sweep that has waited for a limit in vain expires the orders one by one, and that is another matter.
        config.mysql.lock_wait_timeout_seconds = 20;
    })
    .await;
    let (first, second) = (instance.make_group(1).await, instance.make_group(1).await);
    let item = make_items(&instance, second, 1).await[0];
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    instance.admin().edit(item, json!({ "limit_group_id": first })).await;
    assert_eq!(instance.buyer(2).buy("mysql-atomic", item).await.status, 201);
    // As a batch of purchases locks them: first (first, 2), then (second, 1).
    let lock = "SELECT bought FROM group_limits WHERE group_id = ? AND user_id = ? FOR UPDATE";
    let mut batch = shop.hold(sqlx::query(lock).bind(first).bind(2)).await;
    shop.let_holds_pass(301).await;
    let sweeper = shop.start_with(|config| config.job.expire_period_ms = 20).await;
    until_running(&shop.pool, "UPDATE group_limits%", 1).await;
    let lock = format!("{lock} NOWAIT");
    let locked = sqlx::query_scalar(&lock).bind(second).bind(1).fetch_one(&mut *batch).await;
    let locked: i64 = locked.expect("the expiry has not locked it");
    assert_eq!(locked, 1);
    batch.rollback().await.expect("ended");
    let all = || async { held(&sweeper, 1, &[item]).await + held(&sweeper, 2, &[item]).await };
    until("both orders to expire", all, |held| *held == 0).await;
    assert_clean(&sweeper, item).await;
}

#[tokio::test]
async fn an_order_stays_in_the_group_in_which_it_was_counted() {
    let (_shop, instance) = Shop::open_with(|config| config.purchase.item_age_ms_max = 0).await;
    let (old, new) = (instance.make_group(1).await, instance.make_group(1).await);
    let items = make_items(&instance, old, 2).await;
    let buyer = instance.buyer(1);
    let order = order_id(&buyer.buy("mysql-atomic", items[0]).await);
    let moved = instance.admin().edit(items[0], json!({ "limit_group_id": new })).await;
    assert_eq!(moved.json["limit_group"]["id"], new, "{}", moved.text);
    assert_problem(&buyer.buy("mysql-atomic", items[1]).await, (409, "group_limit_reached"), "old");
    assert_eq!(buyer.buy("mysql-batch", items[0]).await.status, 201, "the new group counts afresh");
    buyer.step(&order, "cancellation").await;
    let back = buyer.buy("mysql-atomic", items[1]).await.status;
    assert_eq!(back, 201, "it came back to the old one");
    assert_problem(&buyer.buy("mysql-batch", items[0]).await, (409, "group_limit_reached"), "new");
    let freed = instance.admin().edit(items[0], json!({ "limit_group_id": 0 })).await;
    assert_eq!(freed.json["limit_group"], Value::Null);
    assert_eq!(buyer.buy("mysql-batch", items[0]).await.status, 201, "no group");
    assert_all_clean(&instance, &items).await;
}

#[tokio::test]
async fn nobody_waits_who_could_not_accept() {
    let (_shop, instance) = Shop::open().await;
    let group = instance.make_group(1).await;
    let items = make_items(&instance, group, 2).await;
    let scarce = json!({ "stock": 1, "limit_group_id": group, "hold_seconds": 900 });
    let scarce = instance.make_item(scarce).await;
    let sold = order_id(&instance.buyer(1).buy("mysql-atomic", scarce).await);
    let path = format!("/api/items/{scarce}/waiting");
    assert_eq!(instance.buyer(2).buy("mysql-atomic", items[0]).await.status, 201);
    instance.buyer(2).post(&path, &json!({})).await.expect_problem(409, "group_limit_reached");
    // And the ledger decides once more when an offer is accepted.
    assert_eq!(instance.buyer(3).post(&path, &json!({})).await.status, 200);
    assert_eq!(instance.buyer(3).buy("mysql-atomic", items[0]).await.status, 201);
    instance.buyer(1).step(&sold, "cancellation").await;
    let accepted = instance.buyer(3).post(&format!("{path}/purchase"), &json!({})).await;
    assert_problem(&accepted, (409, "group_limit_reached"), "bought meanwhile");
    assert_clean(&instance, scarce).await;
}

#[tokio::test]
async fn groups_are_listed_and_items_name_groups_that_exist() {
    let (_shop, instance) = Shop::open().await;
    let path = "/api/admin/limit-groups";
    for (wrong, code) in [
        (json!({ "name": "x" }), "missing_field"),
        (json!({ "name": "", "per_buyer_limit": 2 }), "invalid_text"),
    ] {
        assert_problem(&instance.admin().post(path, &wrong).await, (422, code), "a wrong group");
    }
    let group = instance.make_group(2).await;
    let listed = instance.admin().get(path).await.json;
    let expected = json!([{ "id": group, "name": "Consoles", "per_buyer_limit": 2 }]);
    assert_eq!(listed["groups"], expected);
    let item = instance.make_item(json!({ "limit_group_id": group })).await;
    let seen = instance.stranger().get(&format!("/api/items/{item}")).await.json;
    assert_eq!(seen["limit_group"]["name"], "Consoles");
    let edited = instance.admin().edit(item, json!({ "limit_group_id": 77 })).await;
    assert_problem(&edited, (404, "limit_group_not_found"), "no such group");
    let log = instance.admin().get("/api/admin/actions").await.json;
    let lines = log["actions"].as_array().expect("a list").iter();
    let names: Vec<_> = lines.map(|line| line["action"].clone()).collect();
    assert_eq!(names, ["item_created", "limit_group_created"]);
}
