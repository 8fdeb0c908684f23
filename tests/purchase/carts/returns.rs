//! A paid order is given back as a whole, once, where all its items allow it.

use super::steps::statuses;
use super::*;

/// Items whose paid orders come back for these seconds.
async fn items(instance: &Instance, seconds: &[u32]) -> Vec<i64> {
    let mut items = Vec::new();
    for seconds in seconds {
        let item = json!({ "stock": 10, "per_buyer_limit": 2, "return_seconds": seconds });
        items.push(instance.make_item(item).await);
    }
    items
}

/// A paid order of a unit of each item.
async fn paid(buyer: &Client, items: &[i64]) -> String {
    let lines: Vec<(i64, u32)> = items.iter().map(|item| (*item, 2)).collect();
    let order = order_id(&reserve(buyer, &lines).await);
    assert_eq!(buyer.step(&order, "payment").await.json["status"], "paid");
    order
}

#[tokio::test]
async fn a_paid_order_comes_back_whole_and_once() {
    let (shop, one) = Shop::open().await;
    let two = shop.start().await;
    let items = items(&one, &[600, 60, 600]).await;
    let buyer = one.buyer(1);
    let order = paid(&buyer, &items).await;
    assert_eq!(left(&one, &items).await, [8, 8, 8]);
    let calls = (0..16).map(async |turn| {
        let instance = if turn % 2 == 0 { &one } else { &two };
        instance.buyer(1).step(&order, "return").await
    });
    for answer in join_all(calls).await {
        assert_eq!(answer.json["status"], "cancelled", "{}", answer.text);
        assert!(answer.json["paid_at"].is_string(), "it was paid: {}", answer.text);
    }
    assert_eq!(statuses(&shop, &order).await, ["cancelled"; 3]);
    assert_eq!(left(&one, &items).await, [10, 10, 10]);
    let moved = "SELECT COUNT(*) FROM stock_movements WHERE reason = 'cancelled'";
    assert_eq!(shop.number(moved).await, 3);
    // The limit is free again, and the order cannot be paid again.
    paid(&buyer, &items).await;
    buyer.step(&order, "payment").await.expect_problem(409, "order_state_conflict");
    assert_all_clean(&one, &items).await;
}

#[tokio::test]
async fn nothing_comes_back_unpaid_too_late_or_where_one_item_forbids_it() {
    let (shop, instance) = Shop::open().await;
    let items = items(&instance, &[600, 0]).await;
    let buyer = instance.buyer(1);
    let forbidden = paid(&buyer, &items).await;
    buyer.step(&forbidden, "return").await.expect_problem(409, "order_not_returnable");
    let buyer = instance.buyer(2);
    let order = order_id(&buyer.buy("mysql-atomic", items[0]).await);
    assert_problem(&buyer.step(&order, "return").await, (409, "order_state_conflict"), "unpaid");
    buyer.step(&order, "payment").await;
    let line = format!("{}01", &forbidden[..34]);
    instance.buyer(1).step(&line, "return").await.expect_problem(404, "order_not_found");
    shop.change(sqlx::query("UPDATE orders SET paid_at = paid_at - INTERVAL 600 SECOND")).await;
    buyer.step(&order, "return").await.expect_problem(409, "order_not_returnable");
    // By default a sale takes nothing back, and an operator may allow it later.
    let item = instance.make_item(json!({ "kind": "shop" })).await;
    let order = order_id(&buyer.buy("mysql-atomic", item).await);
    buyer.step(&order, "payment").await;
    buyer.step(&order, "return").await.expect_problem(409, "order_not_returnable");
    let far = instance.admin().edit(item, json!({ "return_seconds": 31_536_001 })).await;
    assert_problem(&far, (422, "out_of_range"), "more than a year");
    let edit = instance.admin().edit(item, json!({ "return_seconds": 60 })).await;
    assert_eq!(edit.json["return_seconds"], 60, "{}", edit.text);
    assert_eq!(buyer.step(&order, "return").await.json["status"], "cancelled");
    assert_all_clean(&instance, &[items[0], items[1], item]).await;
}

#[tokio::test]
async fn a_unit_that_is_given_back_is_offered_to_the_buyer_who_waits() {
    let (_shop, instance) = Shop::open().await;
    let item = json!({ "stock": 1, "offer_seconds": 600, "return_seconds": 600 });
    let item = instance.make_item(item).await;
    let order = order_id(&instance.buyer(1).buy("mysql-atomic", item).await);
    instance.buyer(1).step(&order, "payment").await;
    let place = format!("/api/items/{item}/waiting");
    assert_eq!(instance.buyer(2).post(&place, &json!({})).await.status, 200);
    assert_eq!(instance.buyer(1).step(&order, "return").await.status, 200);
    instance.buyer(2).until(&place, |seen| seen.json["status"] == "offered").await;
    assert_eq!(left(&instance, &[item]).await, [0]);
    assert_all_clean(&instance, &[item]).await;
}
