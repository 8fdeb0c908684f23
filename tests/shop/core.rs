//! A shop without extensions, which only sells.

use crate::support::prelude::*;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_shop_without_extensions_sells() {
    let shop = Shop::new().await;
    let instance = shop.start_core().await;
    let item =
        instance.make_item(json!({ "kind": "shop", "stock": 2, "per_buyer_limit": 1 })).await;
    for buyer in 1..=2 {
        instance.buyer(buyer).buy("mysql-atomic", item).await.expect_status(201);
    }
    instance.buyer(3).buy("mysql-atomic", item).await.expect_problem(409, "sold_out");
    assert_eq!(available(&instance, item).await, 0);
    assert_clean(&instance, item).await;
    instance.admin().get("/api/admin/endpoints").await.expect_problem(404, "not_found");
}
