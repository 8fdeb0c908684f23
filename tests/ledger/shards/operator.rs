//! What operators see of several ledgers.

use serde_json::json;

use super::Sharded;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_operator_lists_the_ledgers_and_their_items() {
    let sharded = Sharded::open().await;
    sharded.item_in_each(&json!({})).await;
    sharded.instance.make_item(json!({ "shard": 1 })).await;
    let listed = sharded.instance.admin().get("/api/admin/shards").await;
    let expected = json!({
        "shards": [
            { "number": 0, "items": 1, "state": "ok" },
            { "number": 1, "items": 2, "state": "ok" },
        ],
        "moves": [],
    });
    assert_eq!(listed.json, expected, "{}", listed.text);
    let buyer = sharded.instance.buyer(7).get("/api/admin/shards").await;
    assert_eq!(buyer.status, 403, "{}", buyer.text);
}
