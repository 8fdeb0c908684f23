//! Several ledgers: an item and everything about it is in one of them, and the service finds the way.

mod away;
mod clock;
mod fence;
mod operator;
mod price;

use dev_servers::MysqlOptions;
use futures::future::join_all;
use ledger::Database;
use serde_json::{Value, json};

use crate::support::{Instance, Shop, assert_clean, eventually, when};
use ledger::rows;
use seckill::config::Config;

/// A shop with two ledgers, on the same server.
pub struct Sharded {
    pub instance: Instance,
    /// The connections to each ledger.
    pub pools: Vec<Database>,
}

impl Sharded {
    pub async fn open() -> Self {
        Self::with(|_| {}).await
    }

    pub async fn with(change: impl FnOnce(&mut Config)) -> Self {
        let shop = Shop::with_shards(2, change).await;
        let ledgers = shop.config.ledgers().expect("numbered");
        let pools = ledgers.iter().map(|one| rows::pool(one).expect("a URL")).collect();
        let instance = shop.start().await;
        Self { instance, pools }
    }

    /// Makes an item in each ledger.
    pub async fn item_in_each(&self, changes: &Value) -> Vec<i64> {
        let mut items = Vec::new();
        for shard in 0..self.pools.len() {
            let mut changes = changes.clone();
            changes["shard"] = json!(shard);
            items.push(self.instance.make_item(changes).await);
        }
        items
    }

    async fn count(&self, shard: usize, statement: &str, item: i64) -> i64 {
        let count = sqlx::query_scalar(statement).bind(item);
        count.fetch_one(&self.pools[shard]).await.expect("a count")
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_about_an_item_is_in_its_ledger() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({ "stock": 3, "per_buyer_limit": 3 })).await;
    let buyer = sharded.instance.buyer(7);
    for (shard, &item) in items.iter().enumerate() {
        let bought = buyer.buy_with_key("mysql-batch", item, "k").await;
        assert_eq!(bought.status, 201, "{}", bought.text);
        let again = buyer.buy_with_key("mysql-batch", item, "k").await;
        assert_eq!(
            again.json["id"], bought.json["id"],
            "the key is looked for where the item lives"
        );
        for other in 0..2 {
            for table in ["items WHERE id", "stock WHERE item_id", "orders WHERE item_id"] {
                let count = format!("SELECT COUNT(*) FROM {table} = ?");
                let found = sharded.count(other, &count, item).await;
                assert_eq!(found, i64::from(other == shard), "{table}, ledger {other}");
            }
        }
        let actions = "SELECT COUNT(*) FROM admin_actions WHERE item_id = ?";
        assert_eq!(sharded.count(shard, actions, item).await, 1);
        let found = sharded.instance.stranger().get(&format!("/api/items/{item}")).await;
        assert_eq!(found.json["available"], 2, "{}", found.text);
        assert_clean(&sharded.instance, item).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_shops_list_has_the_sales_of_all_ledgers() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({ "kind": "shop" })).await;
    let listed = sharded.instance.stranger().get("/api/items").await;
    let mut ids: Vec<i64> = listed.json["items"]
        .as_array()
        .expect("a list")
        .iter()
        .filter_map(|item| item["id"].as_i64())
        .collect();
    ids.sort_unstable();
    assert_eq!((ids, listed.json["stale"].clone()), (items, json!(false)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn new_items_go_where_the_fewest_are() {
    let sharded = Sharded::open().await;
    let mut placed = [0, 0];
    for _ in 0..4 {
        let item = sharded.instance.make_item(json!({})).await;
        for (shard, placed) in placed.iter_mut().enumerate() {
            *placed += sharded.count(shard, "SELECT COUNT(*) FROM items WHERE id = ?", item).await;
        }
    }
    assert_eq!(placed, [2, 2]);
    let unknown = json!({ "shard": 2 });
    let answer = sharded
        .instance
        .admin()
        .post("/api/admin/items", &crate::support::item_body(unknown))
        .await;
    assert_eq!((answer.status, &answer.json["code"]), (422, &json!("shard_not_found")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_id_that_an_older_build_has_used_is_not_given_out() {
    let (shop, instance) = Shop::open().await;
    // As an older build inserts it: without a row in the table of homes.
    for _ in 0..3 {
        let item = instance.make_item(json!({})).await;
        sqlx::query("DELETE FROM item_homes WHERE item_id = ?")
            .bind(item)
            .execute(&shop.pool)
            .await
            .expect("deleted");
    }
    sqlx::raw_sql("ALTER TABLE item_homes AUTO_INCREMENT = 1")
        .execute(&shop.pool)
        .await
        .expect("as new");
    let next = instance.make_item(json!({})).await;
    let ids: Vec<i64> = sqlx::query_scalar("SELECT id FROM items ORDER BY id")
        .fetch_all(&shop.pool)
        .await
        .expect("ids");
    assert_eq!(ids.len(), 4);
    assert_eq!(ids[3], next);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_items_of_a_limit_group_live_together() {
    let sharded = Sharded::open().await;
    let admin = sharded.instance.admin();
    let body = json!({ "name": "two together", "per_buyer_limit": 1 });
    let group = admin.post("/api/admin/limit-groups", &body).await.json["id"].clone();
    let first = sharded.instance.make_item(json!({ "shard": 1, "limit_group_id": group })).await;
    // Shard 0 has fewer items; the group decides.
    let second = sharded.instance.make_item(json!({ "limit_group_id": group })).await;
    assert_eq!(sharded.count(1, "SELECT COUNT(*) FROM items WHERE id = ?", second).await, 1);
    let elsewhere = crate::support::item_body(json!({ "shard": 0, "limit_group_id": group }));
    let refused = admin.post("/api/admin/items", &elsewhere).await;
    assert_eq!((refused.status, &refused.json["code"]), (409, &json!("limit_group_elsewhere")));
    let alone = sharded.instance.make_item(json!({ "shard": 0 })).await;
    let moved = admin
        .patch(&format!("/api/admin/items/{alone}"), &json!({ "limit_group_id": group }))
        .await;
    assert_eq!((moved.status, &moved.json["code"]), (409, &json!("limit_group_elsewhere")));
    let buyer = sharded.instance.buyer(3);
    assert_eq!(buyer.buy("mysql-atomic", first).await.status, 201);
    let over = buyer.buy("mysql-atomic", second).await;
    assert_eq!(over.json["code"], "group_limit_reached", "{}", over.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_sees_and_pays_and_cancels_the_orders_of_all_ledgers() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({ "per_buyer_limit": 9 })).await;
    let buyer = sharded.instance.buyer(7);
    let mut orders = Vec::new();
    for &item in [&items[..], &items[..]].concat().iter() {
        let bought = buyer.buy("mysql-atomic", item).await;
        orders.push(bought.json["id"].as_str().expect("an id").to_owned());
    }
    let listed = buyer.get("/api/orders?limit=3").await;
    assert!(listed.json.get("incomplete").is_none(), "{}", listed.text);
    let mut seen: Vec<String> = Vec::new();
    let mut page = listed;
    loop {
        let ids = page.json["orders"].as_array().expect("a list").iter();
        seen.extend(ids.map(|order| order["id"].as_str().expect("an id").to_owned()));
        let Some(next) = page.json["next"].as_str() else { break };
        page = buyer.get(&format!("/api/orders?limit=3&before={next}")).await;
    }
    let mut newest_first = orders.clone();
    newest_first.sort_unstable_by(|one, other| other.cmp(one));
    assert_eq!(seen, newest_first);
    for order in &orders[..2] {
        let paid = buyer.post(&format!("/api/orders/{order}/payment"), &json!({})).await;
        assert_eq!(paid.json["status"], "paid", "{}", paid.text);
    }
    for order in &orders[2..] {
        let cancelled = buyer.post(&format!("/api/orders/{order}/cancellation"), &json!({})).await;
        assert_eq!(cancelled.json["status"], "cancelled", "{}", cancelled.text);
        let found = buyer.get(&format!("/api/orders/{order}")).await;
        assert_eq!(found.json["status"], "cancelled");
    }
    let strangers = sharded.instance.buyer(8).get(&format!("/api/orders/{}", orders[0])).await;
    assert_eq!(strangers.status, 404);
    for item in items {
        assert_clean(&sharded.instance, item).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_order_whose_id_has_a_wrong_hint_is_found() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({})).await;
    let buyer = sharded.instance.buyer(7);
    let bought = buyer.buy("mysql-atomic", items[1]).await;
    let id = bought.json["id"].as_str().expect("an id").to_owned();
    let hint = format!("{}-7000{}", &id[..13], &id[18..]);
    for (table, column) in [("orders", "id"), ("stock_movements", "order_id")] {
        let rename = format!("UPDATE {table} SET {column} = ? WHERE {column} = ?");
        sqlx::query(&rename)
            .bind(&hint)
            .bind(&id)
            .execute(&sharded.pools[1])
            .await
            .expect("renamed");
    }
    assert_eq!(buyer.get(&format!("/api/orders/{hint}")).await.json["item_id"], items[1]);
    let paid = buyer.post(&format!("/api/orders/{hint}/payment"), &json!({})).await;
    assert_eq!(paid.json["status"], "paid", "{}", paid.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holds_end_in_every_ledger() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({ "stock": 1 })).await;
    for &item in &items {
        assert_eq!(sharded.instance.buyer(7).buy("redis-lua", item).await.status, 201);
    }
    for pool in &sharded.pools {
        sqlx::query("UPDATE orders SET expires_at = expires_at - INTERVAL 301 SECOND")
            .execute(pool)
            .await
            .expect("moved");
    }
    for &item in &items {
        let path = format!("/api/items/{item}");
        eventually("the unit to come back", || async {
            let found = sharded.instance.stranger().get(&path).await.json;
            when(found["available"] == 1, found)
        })
        .await;
        assert_clean(&sharded.instance, item).await;
    }
    let ready = sharded.instance.stranger().get("/readyz").await;
    assert_eq!(ready.json["dependencies"]["mysql-1"], "ok", "{}", ready.text);
    let jobs = eventually("every job of both ledgers", || async {
        let jobs = sharded.instance.stranger().get("/readyz").await.json["jobs"].clone();
        let both = ["expire", "expire-1", "reconcile", "reconcile-1", "waiting-list-1"];
        when(both.iter().all(|job| jobs[*job]["ok"] == true), jobs)
    })
    .await;
    assert!(jobs["revocations-1"].is_null(), "sessions are in the home ledger alone: {jobs}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn buyers_wait_in_line_in_every_ledger() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({ "stock": 1 })).await;
    for &item in &items {
        let (first, second) = (sharded.instance.buyer(7), sharded.instance.buyer(8));
        let bought = first.buy("mysql-atomic", item).await;
        let place = format!("/api/items/{item}/waiting");
        eventually("a place in the line", || async {
            let joined = second.post(&place, &json!({})).await;
            when(joined.json["status"] == "waiting", joined.text)
        })
        .await;
        let order = bought.json["id"].as_str().expect("an id");
        first.post(&format!("/api/orders/{order}/cancellation"), &json!({})).await;
        let offered = second.get(&place).await;
        assert_eq!(offered.json["status"], "offered", "{}", offered.text);
        let accepted = second.post(&format!("{place}/purchase"), &json!({})).await;
        assert_eq!(accepted.status, 201, "{}", accepted.text);
        assert_clean(&sharded.instance, item).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_edit_restocks_an_item_where_it_lives() {
    let sharded = Sharded::open().await;
    for item in sharded.item_in_each(&json!({ "stock": 1 })).await {
        let path = format!("/api/admin/items/{item}");
        let edited = sharded.instance.admin().patch(&path, &json!({ "stock_delta": 4 })).await;
        assert_eq!((edited.status, &edited.json["available"]), (200, &json!(5)), "{}", edited.text);
        let figures = sharded.instance.admin().get(&format!("/api/admin/items/{item}/live")).await;
        assert_eq!(figures.json["total"], 5, "{}", figures.text);
        let homes = sharded.count(1, "SELECT COUNT(*) FROM items WHERE id = ?", item).await;
        assert_eq!(figures.json["shard"], homes, "the number of its ledger: {}", figures.text);
    }
    let actions = sharded.instance.admin().get("/api/admin/actions").await;
    let edits = actions.json["actions"].as_array().map(Vec::len);
    assert_eq!(edits, Some(4), "two items created and edited: {}", actions.text);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_of_all_ledgers_come_to_one_log() {
    let sharded = Sharded::with(|config| config.events.enabled = true).await;
    let items = sharded.item_in_each(&json!({ "per_buyer_limit": 9 })).await;
    let buyer = sharded.instance.buyer(7);
    let mut orders = Vec::new();
    for _ in 0..3 {
        for &item in &items {
            orders.push(buyer.buy("mysql-atomic", item).await.json["id"].clone());
        }
    }
    let log = eventually("all events in the log", || async {
        let log = sharded.instance.admin().get("/api/admin/events?limit=200").await;
        let count = log.json["events"].as_array().map_or(0, Vec::len);
        when(count >= orders.len(), log)
    })
    .await;
    for order in &orders {
        let told = log.text.matches(order.as_str().expect("an id")).count();
        assert!(told >= 1, "{order} is in the log: {}", log.text);
    }
    let events = log.json["events"].as_array().expect("a list");
    let positions: Vec<i64> =
        events.iter().filter_map(|event| event["position"].as_i64()).collect();
    assert!(positions.windows(2).all(|pair| pair[0] + 1 == pair[1]), "{positions:?}");
    for pool in &sharded.pools {
        eventually("an empty outbox", || async {
            let left: i64 =
                sqlx::query_scalar("SELECT COUNT(*) FROM outbox").fetch_one(pool).await.ok()?;
            (left == 0).then_some(())
        })
        .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_export_has_the_rows_of_all_ledgers() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({})).await;
    for &item in &items {
        assert_eq!(sharded.instance.buyer(7).buy("mysql-atomic", item).await.status, 201);
    }
    for (table, records) in [("sales", 2), ("orders", 2), ("movements", 2)] {
        let path = format!("/api/admin/export?table={table}&format=jsonl");
        let exported = sharded.instance.admin().get(&path).await;
        let total = exported.text.lines().last().expect("a total");
        assert!(total.contains(&format!("\"count\":{records}")), "{table}: {}", exported.text);
        let one = sharded.instance.admin().get(&format!("{path}&item={}", items[1])).await;
        let total = one.text.lines().last().expect("a total");
        assert!(total.contains("\"count\":1"), "{table}: {}", one.text);
    }
}

/// A strategy sells an item of each ledger, to its last unit and not beyond.
async fn sells_in_both_ledgers(strategy: &str) {
    if !gates::card(strategy).expect("on the list").safe {
        return;
    }
    let shop = Shop::with_lock_servers_and_shards(2).await;
    let instance = shop.start().await;
    for shard in 0..2 {
        let item = instance.make_item(json!({ "stock": 5, "shard": shard })).await;
        let attempts = join_all((1..=9).map(async |buyer| {
            let buyer = instance.buyer(buyer);
            let answer = eventually("an answer other than try again", || async {
                let answer = buyer.buy_with_key(strategy, item, "k").await;
                when(answer.status < 500 && answer.json["code"] != "request_in_progress", answer)
            })
            .await;
            buyer.outcome(answer).await.status
        }));
        let statuses = attempts.await;
        let sold = statuses.iter().filter(|status| **status == 201).count();
        assert_eq!(sold, 5, "{strategy} in ledger {shard}: {statuses:?}");
        assert_clean(&instance, item).await;
    }
    instance.stop().await;
}

mod each_strategy {
    crate::support::strategies::test_each_strategy!(super::sells_in_both_ledgers);
}

/// A database server of a test's own, as a second ledger.
async fn second_server() -> dev_servers::MysqlServer {
    crate::support::own_mysql(MysqlOptions::temporary()).await
}
