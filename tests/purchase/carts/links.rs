//! The connection breaks between the statements of a cart, or at COMMIT: it is whole or absent.

use super::*;

const COMMIT: &[u8] = b"\x03COMMIT";

/// A shop with an instance behind a link, one beside it, and three items.
async fn linked() -> (Shop, FaultyLink, Instance, Instance, Vec<i64>) {
    let mut shop = Shop::with(|config| config.mysql.acquire_timeout_ms = 2_000).await;
    let beside = shop.start().await;
    let items = items_of(&beside, 3, 5).await;
    let link = link_before(&mut shop).await;
    shop.config.job.expire_period_ms = 3_600_000;
    shop.config.job.reconcile_period_ms = 3_600_000;
    shop.config.session.revocation_period_ms = 3_600_000;
    let linked = shop.start().await;
    (shop, link, linked, beside, items)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cart_is_sold_once_although_the_link_breaks() {
    let (shop, link, linked, beside, items) = linked().await;
    let cart = one_of_each(&items);
    for (buyer, trap) in (1..).zip([
        // Where the statement is prepared, with the orders and limits written.
        Trap::at(b"INSERT INTO stock_movements"),
        Trap::at(COMMIT).lose_answer(),
        Trap::at(COMMIT),
    ]) {
        link.trap(trap);
        let client = linked.buyer(buyer);
        let made = eventually("an order", || async {
            let made = reserve_with_key(&client, &cart, "k").await;
            assert!(made.status == 201 || made.json["retryable"] == true, "{}", made.text);
            (made.status == 201).then_some(made)
        })
        .await;
        assert_eq!(made.json["lines"].as_array().map(Vec::len), Some(3), "{}", made.text);
        let again = reserve_with_key(&beside.buyer(buyer), &cart, "k").await;
        assert_eq!(order_id(&again), order_id(&made));
        let orders = format!("SELECT COUNT(*) FROM orders WHERE user_id = {buyer}");
        assert_eq!(shop.number(&orders).await, 3);
    }
    assert_eq!(left(&beside, &items).await, [2, 2, 2]);
    assert_all_clean(&beside, &items).await;
}
