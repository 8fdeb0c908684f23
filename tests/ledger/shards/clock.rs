//! Ledgers whose clocks differ: the clock of an item's own ledger both writes and ends a hold.

use dev_servers::MysqlOptions;
use seckill::config::Secret;
use serde_json::json;
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use super::Sharded;
use crate::support::{eventually, own_mysql, unique, when};

/// How far the clock of the second ledger is ahead.
const AHEAD: time::Duration = time::Duration::HOUR;
/// How long a hold lasts: less than the clocks differ.
const HOLD: time::Duration = time::Duration::minutes(10);

/// A shop whose second ledger is on a server whose clock is ahead, for everyone without all privileges.
async fn apart() -> (Sharded, dev_servers::MysqlServer) {
    let mut options = MysqlOptions::temporary();
    let ahead = format!("SET timestamp = UNIX_TIMESTAMP() + {}", AHEAD.whole_seconds());
    options.extra_statements = vec![format!("SET GLOBAL init_connect = '{ahead}'")];
    let server = own_mysql(options).await;
    let url = server.url_of(&unique("seckill_second"));
    let sharded =
        Sharded::with(|config| config.shards.urls = Secret::new(format!("1={url}"))).await;
    (sharded, server)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hold_lasts_by_the_clock_of_its_items_own_ledger() {
    let (sharded, _server) = apart().await;
    let changes = json!({ "stock": 9, "per_buyer_limit": 9, "hold_seconds": HOLD.whole_seconds() });
    let items = sharded.item_in_each(&changes).await;
    let buyer = sharded.instance.buyer(7);
    let mut held = Vec::new();
    for item in [items[1], items[0], items[1]] {
        let bought = buyer.buy("mysql-atomic", item).await;
        assert_eq!(bought.status, 201, "{}", bought.text);
        let ends = bought.json["expires_at"].as_str().expect("a time");
        let ends = OffsetDateTime::parse(ends, &Rfc3339).expect("a time");
        held.push((bought.json["id"].as_str().expect("an id").to_owned(), item, ends));
    }
    for (order, item, ends) in &held {
        let ledger = if *item == items[1] { AHEAD } else { time::Duration::ZERO };
        let left = *ends - (OffsetDateTime::now_utc() + ledger);
        // A machine that is busy may take long for each step.
        assert!((left - HOLD).abs() < HOLD / 2, "order {order} of item {item} is held for {left}");
    }
    // The sweep of the second ledger has looked since.
    let sweeps = "UPDATE orders SET expires_at = UTC_TIMESTAMP(6) WHERE id = ?";
    let swept = sqlx::query(sweeps).bind(&held[0].0).execute(&sharded.pools[1]).await;
    swept.expect("changed");
    let status =
        async |order: &str| buyer.get(&format!("/api/orders/{order}")).await.json["status"].clone();
    eventually("the sweep", || async {
        let status = status(&held[0].0).await;
        when(status == "expired", status)
    })
    .await;
    assert_eq!(status(&held[1].0).await, "pending");
    assert_eq!(status(&held[2].0).await, "pending");
}
