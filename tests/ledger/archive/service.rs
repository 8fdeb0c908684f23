//! The job in two instances, limit groups, and payments of archived orders in another ledger.

use serde_json::json;

use super::{ENDED, Folder, archive, count, set, shop_of, step};
use crate::http::{assert_problem, order_id};
use crate::support::crowd::metric;
use crate::support::payment_provider::TestProvider;
use crate::support::{Shop, assert_clean, eventually, when};

#[tokio::test]
async fn the_job_archives_once_in_two_instances_and_never_deletes_without_its_file() {
    let folder = Folder::new();
    let shop = Shop::with(|config| {
        config.retention.after_days = 30;
        config.retention.dir.clone_from(&folder.0);
        config.retention.chunk_orders_max = 3;
        config.retention.pause_ms = 0;
        config.retention.period_ms = 100;
    })
    .await;
    let quiet = shop.start_with({
        let mut config = shop.config.clone();
        config.retention.after_days = 0;
        config
    });
    let instance = quiet.await;
    let mut items = Vec::new();
    for _ in 0..3 {
        let item = instance.make_item(json!({ "stock": 10, "kind": "shop" })).await;
        for buyer in 1..=10 {
            let order = order_id(&instance.buyer(buyer).buy("mysql-atomic", item).await);
            step(&instance, buyer, &order, if buyer % 2 == 0 { "payment" } else { "cancellation" })
                .await;
        }
        items.push(item);
    }
    let [ended, lost, sells] = items[..] else { panic!("three items") };
    for item in [ended, lost] {
        set(&shop, ENDED, item).await;
    }
    // The second item lacks its file: half of its orders may be nowhere else.
    let (code, _) = archive(&shop, &folder.0, lost, Some("archive-chunk-removed")).await;
    assert_eq!(code, -1);
    let entry =
        std::fs::read_dir(&folder.0).expect("a folder").next().expect("a file").expect("it");
    let away = folder.0.with_extension("away");
    std::fs::rename(entry.path(), &away).expect("moved");
    let left = count(&shop, "orders", lost).await;
    let (code, text) = archive(&shop, &folder.0, lost, None).await;
    assert_eq!((code, text.contains("its file")), (1, true), "{text}");

    let (one, two) = (shop.start().await, shop.start().await);
    eventually("the job archives", || async {
        let rows = count(&shop, "orders", ended).await;
        when(rows == 0, rows)
    })
    .await;
    let job = eventually("the job says why", || async {
        let ready = one.stranger().get("/readyz").await.json;
        let said = ready["jobs"]["archive"].to_string();
        when(said.contains("its file"), said)
    })
    .await;
    assert!(job.contains(&format!("item {lost}")), "{job}");
    assert_eq!(count(&shop, "orders", lost).await, left, "nothing is deleted without the file");
    assert!(metric(&one, "seckill_archive_failures_total").await > 0.0);
    std::fs::rename(&away, entry.path()).expect("moved back");
    eventually("the second item", || async {
        let rows = count(&shop, "orders", lost).await;
        when(rows == 0, rows)
    })
    .await;
    assert_eq!(count(&shop, "orders", sells).await, 10, "the sale goes on");
    for item in items {
        assert_clean(&two, item).await;
    }
    let files = std::fs::read_dir(&folder.0).expect("a folder").count();
    assert_eq!(files, 2, "a file for each item");
    eventually("a run without a failure", || async {
        let ended = metric(&one, "seckill_archive_ended_timestamp_seconds").await;
        when(ended > 0.0, ended)
    })
    .await;
    let mut counted = 0.0;
    for instance in [&one, &two] {
        counted += metric(instance, "seckill_archive_orders_total").await;
    }
    assert_eq!(counted, 10.0 + left as f64, "the job's orders, not the command's");
}

#[tokio::test]
async fn units_of_an_archived_item_still_count_for_the_limit_of_its_group() {
    let folder = Folder::new();
    let (shop, instance) = Shop::open().await;
    let body = json!({ "name": "Consoles", "per_buyer_limit": 2 });
    let group = instance.admin().post("/api/admin/limit-groups", &body).await.json["id"].clone();
    let body =
        json!({ "stock": 10, "per_buyer_limit": 10, "limit_group_id": group, "kind": "shop" });
    let (ended, sells) = (instance.make_item(body.clone()).await, instance.make_item(body).await);
    for (item, buyer) in [(ended, 1), (ended, 2), (sells, 1)] {
        let order = order_id(&instance.buyer(buyer).buy("mysql-atomic", item).await);
        step(&instance, buyer, &order, "payment").await;
    }
    set(&shop, ENDED, ended).await;
    let (code, text) = archive(&shop, &folder.0, ended, None).await;
    assert_eq!(code, 0, "{text}");
    for item in [ended, sells] {
        assert_clean(&instance, item).await;
    }
    let over = instance.buyer(1).buy("mysql-atomic", sells).await;
    assert_problem(&over, (409, "group_limit_reached"), "an archived unit counts");
    let second = instance.buyer(2).buy("mysql-atomic", sells).await;
    assert_eq!(second.status, 201, "{}", second.text);
    // A count that forgets the archived unit, or has one too many.
    for change in ["- 1", "+ 2", "- 1"] {
        let statement = format!(
            "UPDATE group_limits SET allowed = 9, bought = bought {change} WHERE user_id = ?"
        );
        set(&shop, &statement, 1).await;
        let audit = instance.audit(sells).await;
        let mut findings = audit["findings"].as_array().expect("findings").iter();
        let finding = findings.find(|finding| finding["invariant"] == "I14").expect("I14").clone();
        let is_right: i64 = sqlx::query_scalar(
            "SELECT CAST(bought = 2 AS SIGNED) FROM group_limits WHERE user_id = 1",
        )
        .fetch_one(&shop.pool)
        .await
        .expect("read");
        assert_eq!(finding["holds"], is_right == 1, "{change}: {finding}");
    }
}

#[tokio::test]
async fn a_payment_of_an_archived_order_in_another_ledger_is_still_known() {
    let (provider, folder) = (TestProvider::start().await, Folder::new());
    let shop = shop_of(&provider, 2).await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 1, "kind": "shop", "shard": 1 })).await;
    let order = order_id(&instance.buyer(1).buy("mysql-atomic", item).await);
    let paid = provider.succeeded("m1", "p1", &order, 250).send(&instance).await;
    assert_eq!(paid.json["result"], "paid", "{}", paid.text);
    let there = second_ledger(&shop).await;
    sqlx::query(ENDED).bind(item).execute(&there).await.expect("ended");
    eventually("archived", || async {
        let (code, text) = archive(&shop, &folder.0, item, None).await;
        when(code == 0, text)
    })
    .await;
    for (message, payment, result) in [("m2", "p1", "unchanged"), ("m3", "p2", "refund_wanted")] {
        let said = provider.succeeded(message, payment, &order, 250).send(&instance).await;
        assert_eq!(said.json["result"], result, "{payment}: {}", said.text);
    }
    let back = provider.refunded("m4", "p1", &order, 100).send(&instance).await;
    assert_eq!(back.json["result"], "partly_refunded", "{}", back.text);
    assert_clean(&instance, item).await;
}

/// The second ledger of a shop.
async fn second_ledger(shop: &Shop) -> ledger::Database {
    let second = shop.config.ledgers().expect("numbered").remove(1);
    ledger::rows::pool(&second).expect("the URL is fine")
}
