//! Queued orders of an item that moves: each one that was answered 202 is decided where the item lives.

use serde_json::json;
use shop_domain::ItemId;

use super::{Pair, killed};
use crate::support::{assert_clean, eventually, when};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_queued_order_of_an_item_is_not_lost_while_the_item_is_closed() {
    let pair = Pair::new().await;
    let instance = pair.home.start().await;
    let id = instance.make_item(json!({ "stock": 9, "shard": 0 })).await;
    let item = ItemId::new(id).expect("positive");
    // Its counter is loaded, and no ledger lists its queue.
    let bought = instance.buyer(6).buy("redis-lua", id).await;
    assert_eq!(bought.status, 201, "{}", bought.text);
    // All is copied and compared when the mover dies.
    let arguments = ["shard", "move", &id.to_string(), "1", "--pause-ms-max", "20000"];
    let (code, text) = killed::run(&pair, &arguments, Some("move-verified")).await;
    assert_eq!(code, -1, "{text}");
    let early = instance.buyer(7).buy("redis-stream", id).await;
    assert_eq!(early.status, 503, "queued while the item is closed: {}", early.text);
    assert_eq!(early.json["code"], "item_moving", "{}", early.text);
    let moved = pair.mover().resume(item).await.expect("it moves");
    assert_eq!(moved.home, super::shard(1));
    let queued = eventually("a queued order where the item lives", || async {
        let queued = instance.buyer(7).buy("redis-stream", id).await;
        when(queued.status == 202, queued.text).map(|_| queued.json["id"].clone())
    });
    let queued = queued.await;
    let path = format!("/api/orders/{}", queued.as_str().expect("an id"));
    eventually("the decision", || async {
        let found = instance.buyer(7).get(&path).await;
        when(found.json["status"] == "pending", found.text)
    })
    .await;
    pair.assert_lives_in(1, item).await;
    assert_clean(&instance, id).await;
}
