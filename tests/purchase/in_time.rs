//! The audit's rules about time (I16 to I19) on real servers: a memory that lasts too long is caught. Sound sales are
//! judged by the same rules in each trial of the fault matrix, and by the load test beside its readers.

mod sale;

use sale::{AGE, Sale};

use crate::support::prelude::*;

/// Planted: instances that remember "sold out" for as long as the test runs, so that only what clears
/// their own memory helps.
async fn forgetless(changes: Value) -> Sale {
    let shop = Shop::with(|config| config.purchase.sold_out_ms = 600_000).await;
    Sale::start(shop, changes).await
}

/// The first instance sells the only unit, and the second one remembers that it is sold out.
async fn sold_out_on_the_second(sale: &mut Sale) -> String {
    let order = sale.buy(0, 1).await.order_id.expect("sold");
    for buyer in [2, 3] {
        assert_eq!(sale.buy(1, buyer).await.code, "sold_out");
    }
    order
}

/// The second instance says that nothing is left, long after a unit has come back.
async fn a_false_sold_out_is_caught(mut sale: Sale, why: &str) {
    // The rule allows what is as old as the memory.
    tokio::time::sleep(AGE + Duration::from_millis(50)).await;
    assert_eq!(sale.buy(1, 4).await.code, "sold_out", "the memory does not forget");
    let judgement = sale.judge().await;
    let broken = judgement.broken();
    // A restocked unit that stays is undersold, too.
    assert!(broken.contains(&"I16"), "{judgement:?}");
    assert!(broken.iter().all(|rule| ["I12", "I16"].contains(rule)), "{judgement:?}");
    let example = sale::example(&judgement, "I16");
    assert!(example.contains("buyer 4") && example.contains(why), "{example}");
    println!("I16: {example}");
}

#[tokio::test]
async fn a_memory_that_a_restock_does_not_clear_is_caught() {
    let mut sale = forgetless(json!({ "stock": 1 })).await;
    sold_out_on_the_second(&mut sale).await;
    sale.restock(0, 1).await;
    a_false_sold_out_is_caught(sale, "a restock of 1").await;
}

#[tokio::test]
async fn a_memory_that_an_expiry_does_not_clear_is_caught() {
    let mut sale = forgetless(json!({ "stock": 1, "hold_seconds": 300 })).await;
    let order = sold_out_on_the_second(&mut sale).await;
    sale.shop.let_holds_pass(301).await;
    until("the order to expire", || sale.status(&order), |status| status == "expired").await;
    sale.look(0, 1, &order).await;
    a_false_sold_out_is_caught(sale, "is expired").await;
}

/// A batch under the item's lock has one unit for two buyers, and a cancellation commits while it is
/// written: the second buyer is not told "sold out" by what was read before.
#[tokio::test]
async fn the_rest_of_a_batch_gets_a_unit_that_came_back_while_it_was_written() {
    const STRATEGY: &str = "lock-redis";
    let (shop, instance, item) = Shop::selling_with(json!({ "stock": 3 }), patient).await;
    let bought = instance.buyer(1).buy(STRATEGY, item).await;
    let buy = |buyer| instance.buyer(buyer).buying(STRATEGY, item);
    // The first batch waits for the stock row, so that the next two buyers share the second one.
    let stock = hold_stock_row(&shop.pool, item).await;
    let first = buy(2);
    until_in_flight(&instance, 1).await;
    until_running(&shop.pool, "%UPDATE stock%", 1).await;
    let fits = buy(3);
    until_in_flight(&instance, 2).await;
    let other = buy(4);
    until_in_flight(&instance, 3).await;
    // The second batch waits for the limit of the buyer that fits.
    let limit = "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (?, 3, 0, 1)";
    let limit = shop.hold(sqlx::query(limit).bind(item)).await;
    stock.rollback().await.expect("rolled back");
    assert_eq!(first.await.expect("no panic").status, 201);
    until_running(&shop.pool, "%buyer_limits%", 1).await;
    let order = bought.json["id"].as_str().expect("an id");
    assert_eq!(instance.buyer(1).step(order, "cancellation").await.status, 200);
    limit.rollback().await.expect("rolled back");
    for answer in [fits, other] {
        let answer = answer.await.expect("no panic");
        assert_eq!(answer.status, 201, "{}", answer.text);
    }
}
