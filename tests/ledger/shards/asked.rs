//! What is asked of all shards: audits of groups, exports, the deletion of a person, and the clock.

use ledger::rows::items;
use sqlx::{Executor, MySqlConnection};
use time::Duration;

use super::*;
use crate::http::{PASSWORD, sign_in, sign_up};

/// A buyer of the group.
const BUYER: i64 = 600;
/// The buyer of the only unit of an item.
const FIRST: i64 = 700;

/// Two items that share a limit of two units. The sale of the second one ends a day later.
pub struct Group {
    id: i64,
    items: [i64; 2],
}

pub async fn make_group(instance: &Instance) -> Group {
    let id = instance.make_group(2).await;
    let mut items = [0; 2];
    for (item, days) in items.iter_mut().zip([2, 3]) {
        let ends_at = web::problem::rfc3339(OffsetDateTime::now_utc() + Duration::days(days));
        let body = json!({ "per_buyer_limit": 9, "limit_group_id": id, "ends_at": ends_at });
        *item = instance.make_item(body).await;
    }
    Group { id, items }
}

/// What the audit of an item says of its group.
async fn said_of_group(instance: &Instance, item: i64) -> String {
    let audit = instance.audit(item).await;
    let mut findings = audit["findings"].as_array().expect("findings").iter();
    let finding = findings.find(|finding| finding["invariant"] == "I14").expect("I14");
    finding["detail"].as_str().expect("a text").to_owned()
}

async fn run(server: &mut MySqlConnection, statement: &str) {
    server.execute(sqlx::raw_sql(statement)).await.expect(statement);
}

/// Writes the count of the buyer into the group, wherever it is.
async fn count_the_buyer(server: &mut MySqlConnection, group: &Group, units: i64) {
    for shard in SHARDS {
        let count = format!(
            "UPDATE `{shard}`.group_limits SET bought = {units} WHERE group_id = {} AND user_id = {BUYER}",
            group.id
        );
        run(server, &count).await;
    }
}

/// The limit of a group is in one keyspace, and its orders in another one. A buyer over the limit is found, and one who
/// is counted wrongly.
pub async fn assert_groups_are_audited(vitess: &VitessServer, instance: &Instance, group: &Group) {
    let buyer = instance.buyer(BUYER);
    for item in group.items {
        buyer.buy_for_good("mysql-atomic", item).await.expect_status(201);
    }
    let over = buyer.buy_for_good("mysql-atomic", group.items[0]).await;
    assert_problem(&over, (409, "group_limit_reached"), "both units are bought");
    for item in group.items {
        assert_clean(instance, item).await;
        assert_eq!(said_of_group(instance, item).await, "0 buyers over the limit, 0 miscounted");
    }
    let mut server = vitess.operator().await.expect("it answers");
    let limit = |units: i64| {
        format!("UPDATE seckill.limit_groups SET per_buyer_limit = {units} WHERE id = {}", group.id)
    };
    run(&mut server, &limit(1)).await;
    let said = said_of_group(instance, group.items[0]).await;
    assert_eq!(said, "1 buyers over the limit, 0 miscounted");
    count_the_buyer(&mut server, group, 1).await;
    let said = said_of_group(instance, group.items[1]).await;
    assert_eq!(said, "1 buyers over the limit, 1 miscounted");
    count_the_buyer(&mut server, group, 2).await;
    run(&mut server, &limit(2)).await;
    assert_clean(instance, group.items[0]).await;
}

/// The records of an export.
async fn exported(instance: &Instance, table: &str) -> Vec<Value> {
    let path = format!("/api/admin/export?format=jsonl&table={table}");
    let answer = instance.admin().get(&path).await.expect_status(200);
    answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The records of a kind.
fn of_kind<'a>(records: &'a [Value], kind: &str) -> Vec<&'a Value> {
    records.iter().filter(|record| record["record"] == kind).collect()
}

/// An export has the rows of all shards, and one sum for each status or reason, however many shards have it.
pub async fn assert_exports_add_up(vitess: &VitessServer, instance: &Instance) {
    for (table, kind, by, tables) in [
        ("orders", "order", "status", &["orders"][..]),
        ("movements", "movement", "reason", &["stock_movements", "restocks"]),
        ("sales", "sale", "id", &["items"]),
    ] {
        let mut rows = 0;
        for table in tables {
            rows += rows_in(vitess, table).await.into_iter().sum::<i64>();
        }
        let records = exported(instance, table).await;
        let total = records.last().expect("a last record");
        assert_eq!((&total["record"], &total["count"]), (&json!("total"), &json!(rows)), "{table}");
        assert_eq!(of_kind(&records, kind).len() as i64, rows, "{table}");
        let sums = of_kind(&records, "sum");
        let words: BTreeSet<String> = sums.iter().map(|sum| sum[by].to_string()).collect();
        assert_eq!(words.len(), sums.len(), "{table}: {sums:?}");
        let counted: i64 = sums.iter().filter_map(|sum| sum["count"].as_i64()).sum();
        assert!(sums.is_empty() || counted == rows, "{table}: {sums:?}");
        let add_up = of_kind(&records, "sale").iter().all(|sale| sale["adds_up"] == true);
        assert!(add_up, "{table}: {records:?}");
    }
}

/// A person with an order in a group, and a place in the line of an item of each shard, is deleted: the open order is
/// found, the places end, and the hash stays until the last sale of the group ends.
pub async fn assert_a_person_is_deleted(
    vitess: &VitessServer,
    instance: &Instance,
    group: &Group,
    scarce: [i64; 2],
) {
    // The first id is that of the tests' admin, whose tokens a deletion would end.
    sign_up(&instance.stranger(), "first", PASSWORD).await.expect_status(201);
    sign_up(&instance.stranger(), "Paula", PASSWORD).await.expect_status(201);
    let session = sign_in(&instance.stranger(), "paula", PASSWORD).await;
    let paula = instance.stranger().with_token(session.json["token"].as_str().expect("a token"));
    let delete = async || {
        let proof = json!({ "password": PASSWORD });
        Client::send(paula.request(Method::DELETE, "/api/users/me").json(&proof)).await
    };
    let order = order_id(&paula.buy_for_good("mysql-atomic", group.items[0]).await);
    assert_problem(&delete().await, (409, "orders_open"), "an open order");
    paula.step(&order, "payment").await.expect_status(200);
    for item in scarce {
        instance.buyer(FIRST).buy_for_good("mysql-atomic", item).await.expect_status(201);
        paula.post(&format!("/api/items/{item}/waiting"), &json!({})).await.expect_status(200);
    }
    delete().await.expect_status(204);
    let mut server = vitess.operator().await.expect("it answers");
    for shard in SHARDS {
        let live = format!("SELECT COUNT(*) FROM `{shard}`.waiting_list WHERE live = 1");
        let live: i64 = sqlx::query_scalar(&live).fetch_one(&mut server).await.expect("counted");
        assert_eq!(live, 0, "{shard}");
    }
    // A minute later, for a person of an identity provider.
    let due =
        "UPDATE seckill.erased_users SET subject_hash = REPEAT('x', 32), due_at = UTC_TIMESTAMP(6)";
    run(&mut server, due).await;
    eventually("the end of the last sale", || async {
        let mut server = vitess.operator().await.expect("it answers");
        let mut found = 0;
        for shard in SHARDS {
            let kept = format!(
                "SELECT COUNT(*) FROM seckill.erased_users JOIN `{shard}`.items ON items.ends_at = due_at \
                 WHERE items.id = {} AND subject_hash IS NOT NULL",
                group.items[1]
            );
            let kept = sqlx::query_scalar::<_, i64>(&kept).fetch_one(&mut server).await;
            found += kept.expect("counted");
        }
        when(found == 1, found)
    })
    .await;
}

/// The clock of the ledger is that of the server behind, which writes the rows, and not that of vtgate.
pub async fn assert_the_server_says_the_time(vitess: &VitessServer, shop: &Shop, of: [i64; 2]) {
    let mut server = vitess.operator().await.expect("it answers");
    run(&mut server, "SET GLOBAL log_output = 'TABLE'; SET GLOBAL general_log = ON").await;
    let ids = of.map(|item| ItemId::new(item).expect("an id"));
    let read = items::find_several(&shop.pool, &ids).await.expect("read");
    run(&mut server, "SET GLOBAL general_log = OFF").await;
    assert_eq!((read.found.len(), read.ledger_now.is_some()), (2, true));
    let asked = "SELECT COUNT(*) FROM mysql.general_log \
         WHERE LOWER(CONVERT(argument USING utf8mb4)) LIKE '%utc_timestamp(6) from stock%'";
    let asked: i64 = sqlx::query_scalar(asked).fetch_one(&mut server).await.expect("counted");
    assert!(asked > 0, "the server behind was not asked");
}
