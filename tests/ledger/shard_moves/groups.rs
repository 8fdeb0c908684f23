//! Items that share a limit move together, also when the mover is killed.

use std::time::Duration;

use serde_json::json;
use shop_domain::ItemId;

use super::{Pair, buyers, killed, shard};
use crate::support::{Instance, assert_clean, eventually, item_body, when};

const PAUSE_MS_MAX: &str = "20000";

/// A group of two items in the home ledger, of which each buyer may have one unit together.
async fn group(instance: &Instance) -> (i64, [i64; 2]) {
    let admin = instance.admin();
    let body = json!({ "name": "one of two", "per_buyer_limit": 1 });
    let made = admin.post("/api/admin/limit-groups", &body).await;
    let group = made.json["id"].as_i64().expect("an id");
    let mut items = [0; 2];
    for item in &mut items {
        let body = json!({ "stock": 9, "shard": 0, "limit_group_id": group });
        *item = instance.make_item(body).await;
    }
    (group, items)
}

/// How long a new item of the group is waited for while the flip waits: it must wait, too.
const JOIN_MAX: Duration = Duration::from_secs(1);

async fn assert_live_in(pair: &Pair, instance: &Instance, number: u16, items: [i64; 2]) {
    for item in items {
        pair.assert_lives_in(number, ItemId::new(item).expect("positive")).await;
        assert_clean(instance, item).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_items_of_a_group_move_together_and_keep_their_limit() {
    let pair = Pair::new().await;
    let instance = pair.home.start().await;
    let (group, items) = group(&instance).await;
    assert_eq!(instance.buyer(3).buy("mysql-atomic", items[0]).await.status, 201);
    let refused = killed::run(&pair, &["shard", "move", &items[0].to_string(), "1"], None).await;
    assert_eq!(refused.0, 1, "{}", refused.1);
    assert!(refused.1.contains("move-group"), "{}", refused.1);
    let (code, text) =
        killed::run(&pair, &["shard", "move-group", &group.to_string(), "1"], None).await;
    assert_eq!(code, 0, "{text}");
    assert_live_in(&pair, &instance, 1, items).await;
    // The limit of both items together has moved, too.
    let over = instance.buyer(3).buy("mysql-atomic", items[1]).await;
    assert_eq!(over.json["code"], "group_limit_reached", "{}", over.text);
    assert_eq!(instance.buyer(4).buy("mysql-atomic", items[1]).await.status, 201);
    // A new item of the group goes where the others are.
    let third = instance.make_item(json!({ "limit_group_id": group })).await;
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM items WHERE id = ?").bind(third);
    let count: i64 = count.fetch_one(pair.pool(1)).await.expect("counted");
    assert_eq!(count, 1);
    let (code, text) =
        killed::run(&pair, &["shard", "move-group", &group.to_string(), "1"], None).await;
    assert_eq!((code, text.contains("live in shard 1 already")), (0, true), "{text}");
    let (code, text) = killed::run(&pair, &["shard", "move-group", "4711", "1"], None).await;
    assert_eq!((code, text.contains("has no items")), (1, true), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mover_of_a_group_that_is_killed_leaves_the_group_together() {
    let pair = Pair::new().await;
    let instance = pair.home.start().await;
    for point in ["move-recorded", "move-source-closed", "move-sealed", "move-flipped"] {
        let (group, items) = group(&instance).await;
        assert_eq!(instance.buyer(3).buy("mysql-atomic", items[0]).await.status, 201);
        let group = group.to_string();
        let arguments = ["shard", "move-group", &group, "1", "--pause-ms-max", PAUSE_MS_MAX];
        let (code, text) = killed::run(&pair, &arguments, Some(point)).await;
        assert_eq!(code, -1, "{point} did not kill it: {text}");
        let (code, text) = killed::run(&pair, &arguments, None).await;
        assert_eq!(code, 0, "{point}: {text}");
        assert_live_in(&pair, &instance, 1, items).await;
        let over = instance.buyer(3).buy("mysql-atomic", items[1]).await;
        assert_eq!(over.json["code"], "group_limit_reached", "{point}: {}", over.text);
    }
}

/// An item alone must not go on: what was broken off before the flip is given up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_item_of_a_broken_off_group_does_not_move_alone() {
    let pair = Pair::new().await;
    let instance = pair.home.start().await;
    let (group, items) = group(&instance).await;
    let arguments =
        ["shard", "move-group", &group.to_string(), "1", "--pause-ms-max", PAUSE_MS_MAX];
    let (code, text) = killed::run(&pair, &arguments, Some("move-sealed")).await;
    assert_eq!(code, -1, "{text}");
    for item in items {
        let item = ItemId::new(item).expect("positive");
        let refused = pair.mover().resume(item).await.expect_err("it is of a group");
        assert!(refused.to_string().contains("in shard 0 as before"), "{refused}");
    }
    assert_live_in(&pair, &instance, 0, items).await;
    assert_eq!(instance.buyer(3).buy("mysql-atomic", items[0]).await.status, 201);
    let over = instance.buyer(3).buy("mysql-atomic", items[1]).await;
    assert_eq!(over.json["code"], "group_limit_reached", "{}", over.text);
    let group = shop_domain::LimitGroupId::new(group).expect("positive");
    let moved = pair.mover().move_group(group, shard(1)).await.expect("they move");
    assert_eq!(moved.len(), 2);
    assert_live_in(&pair, &instance, 1, items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_joins_the_group_of_an_item_that_moves_goes_where_that_one_goes() {
    let pair = Pair::new().await;
    let instance = pair.home.start().await;
    let body = json!({ "name": "one of two", "per_buyer_limit": 1 });
    let made = instance.admin().post("/api/admin/limit-groups", &body).await;
    let group = made.json["id"].as_i64().expect("an id");
    let first =
        instance.make_item(json!({ "stock": 9, "shard": 0, "limit_group_id": group })).await;
    // The flip waits for this row.
    let mut held = pair.home.pool.begin().await.expect("begun");
    let hold = sqlx::query("SELECT shard FROM item_homes WHERE item_id = ? FOR UPDATE");
    hold.bind(first).fetch_one(&mut *held).await.expect("held");
    let (mover, item) = (pair.mover(), ItemId::new(first).expect("positive"));
    let moving = tokio::spawn(async move { mover.move_item(item, shard(1)).await });
    eventually("the copy to be sealed", || async {
        let epoch = sqlx::query_scalar("SELECT home_epoch FROM stock WHERE item_id = ?");
        let epoch = epoch.bind(first).fetch_optional(pair.pool(1)).await;
        let epoch: Option<u64> = epoch.expect("read");
        when(epoch > Some(0), format!("{epoch:?}"))
    })
    .await;
    let admin = instance.admin();
    let mut joining = tokio::spawn(async move {
        let body = item_body(json!({ "stock": 9, "limit_group_id": group }));
        admin.post("/api/admin/items", &body).await
    });
    let joined = tokio::time::timeout(JOIN_MAX, &mut joining).await;
    held.rollback().await.expect("released");
    let moved = moving.await.expect("no panic");
    let joined = match joined {
        Ok(joined) => joined,
        Err(_) => joining.await,
    };
    let joined = joined.expect("no panic");
    let second = joined.json["id"].as_i64().expect("an id");
    let homes = [first, second].map(|item| buyers::route(&pair.home.pool, item));
    let [(home, _), (other, _)] = futures::future::join_all(homes).await[..] else {
        panic!("two homes");
    };
    assert_eq!(home, other, "the group is in two ledgers: {moved:?}");
    assert_eq!(instance.buyer(3).buy("mysql-atomic", first).await.status, 201);
    let over = instance.buyer(3).buy("mysql-atomic", second).await;
    assert_eq!(over.json["code"], "group_limit_reached", "{}", over.text);
    assert_eq!(moved.expect("it moves").home, shard(1));
}
