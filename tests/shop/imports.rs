//! Imports and new items that are sent again, and our own export as an import.

use super::exports::{csv_records, items};
use crate::support::prelude::*;

const TABLE: &str = "name,price_cents,stock,starts_at,ends_at\n\
    Lamp,250,10,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z\n\
    Mug,1,1,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z\n";

async fn import(client: &Client, key: Option<&str>, table: Vec<u8>) -> Answer {
    import_as(client, "text/csv", key, table).await
}

async fn import_as(client: &Client, kind: &str, key: Option<&str>, table: Vec<u8>) -> Answer {
    let mut request =
        client.request(Method::POST, "/api/admin/import").header("content-type", kind);
    if let Some(key) = key {
        request = request.header("idempotency-key", key);
    }
    Client::send(request.body(table)).await
}

async fn create(client: &Client, key: &str, body: &Value) -> Answer {
    let request = client.request(Method::POST, "/api/admin/items").header("idempotency-key", key);
    Client::send(request.json(body)).await
}

fn is_replayed(answer: &Answer) -> bool {
    answer.headers.get("idempotency-replayed").is_some_and(|value| value == "true")
}

/// A table that is sent again with its key creates nothing, on every instance and at once, and is answered as before.
#[tokio::test]
async fn an_import_with_a_key_happens_once() {
    let (shop, here) = Shop::open().await;
    let there = shop.start().await;
    let table = || TABLE.as_bytes().to_vec();
    let callers = [here.admin(), there.admin()];
    let tries = (0..8).map(|at| import(&callers[at % 2], Some("k1"), table()));
    let answers = join_all(tries).await;
    let new = answers.iter().filter(|answer| !is_replayed(answer)).count();
    assert!(answers.iter().all(|answer| answer.status == 201), "{answers:?}");
    assert!(answers.iter().all(|answer| answer.json == answers[0].json), "{answers:?}");
    assert_eq!((new, items(&shop).await), (1, 2));
    // Another table, another operator, another key, and none.
    let other = import(&callers[0], Some("k1"), TABLE.replace("250", "251").into_bytes()).await;
    assert_problem(&other, (422, "idempotency_key_reused"), "another table");
    assert_eq!(items(&shop).await, 2);
    let colleague = here.stranger().with_token(&here.token(7, Role::Admin));
    for (client, key) in [(&colleague, Some("k1")), (&callers[0], Some("k2")), (&callers[0], None)]
    {
        let before = items(&shop).await;
        let answer = import(client, key, table()).await;
        assert_eq!((answer.status, is_replayed(&answer)), (201, false), "{}", answer.text);
        assert_eq!(items(&shop).await, before + 2);
    }
    // A check says nothing of keys, and a table with faults leaves its key free.
    let faulty = import(&callers[0], Some("k3"), TABLE.replace("250", "x").into_bytes()).await;
    assert_problem(&faulty, (422, "invalid_table"), "a fault");
    let mended = import(&callers[0], Some("k3"), table()).await;
    assert_eq!((mended.status, is_replayed(&mended)), (201, false), "{}", mended.text);
    let bad = import(&callers[0], Some(&"k".repeat(65)), table()).await;
    assert_problem(&bad, (400, "idempotency_key_invalid"), "a long key");
}

#[tokio::test]
async fn a_new_item_with_a_key_is_made_once() {
    let (shop, instance) = Shop::open().await;
    let admin = instance.admin();
    let body = item_body(json!({ "name": "Lamp" }));
    let first = create(&admin, "k1", &body).await;
    assert_eq!((first.status, is_replayed(&first)), (201, false), "{}", first.text);
    let again = create(&admin, "k1", &body).await;
    assert_eq!((again.status, is_replayed(&again)), (201, true), "{}", again.text);
    assert_eq!(again.json["id"], first.json["id"]);
    assert_eq!(again.headers["etag"], first.headers["etag"]);
    let other = create(&admin, "k1", &item_body(json!({ "name": "Mug" }))).await;
    assert_problem(&other, (422, "idempotency_key_reused"), "another item");
    // The key of an import is no key of an item.
    let table = import(&admin, Some("k1"), TABLE.as_bytes().to_vec()).await;
    assert_problem(&table, (422, "idempotency_key_reused"), "a table");
    assert_eq!(items(&shop).await, 1);
    let log = instance.admin().get("/api/admin/actions").await;
    assert_eq!(log.json["actions"].as_array().map(Vec::len), Some(1), "{}", log.text);
}

/// The charset that the request names is that of the table, also under the other names of its media type.
#[tokio::test]
async fn a_table_is_read_in_the_charset_of_its_request() {
    let (_shop, instance) = Shop::open().await;
    let admin = instance.admin();
    let (before, after) = TABLE.split_once("Lamp").expect("a lamp");
    let after = after.split_inclusive('\n').next().expect("its line");
    let gbk = [before.as_bytes(), b"\xcc\xa8\xb5\xc6", after.as_bytes()].concat();
    for kind in
        ["text/csv; charset=gbk", "application/vnd.ms-excel;header=present; Charset=\"GBK\""]
    {
        let made = import_as(&admin, kind, None, gbk.clone()).await;
        assert_eq!(made.status, 201, "{kind}: {}", made.text);
        let item = instance.stranger().get(&format!("/api/items/{}", made.json["items"][0])).await;
        assert_eq!(item.json["name"], "台灯", "{kind}");
    }
    // The key belongs to what the bytes say, so to their charset, by whichever of its names.
    for (charset, expected) in [("gbk", 201), ("windows-1252", 422), ("GB2312", 201)] {
        let kind = format!("text/csv; charset={charset}");
        let answer = import_as(&admin, &kind, Some("k1"), gbk.clone()).await;
        assert_eq!(answer.status, expected, "{charset}: {}", answer.text);
        assert_eq!(is_replayed(&answer), charset == "GB2312", "{charset}");
    }
    let unknown = import_as(&admin, "text/csv; charset=ebcdic", None, gbk.clone()).await;
    assert_problem(&unknown, (415, "unsupported_media_type"), "no such charset");
    let undeclared = import(&admin, None, gbk).await.expect_problem(422, "invalid_table");
    let fault = &undeclared.json["faults"][0];
    assert_eq!(
        (&fault["cell"], &fault["row"], &fault["line"]),
        (&json!("A2"), &json!(2), &json!(2))
    );
    assert!(fault["detail"].to_string().contains("charset=gbk"), "{fault}");
}

/// The rows of an export of sales, without what belongs to the sale and not to its form.
async fn sales(client: &Client) -> Vec<BTreeMap<String, String>> {
    let mut rows = csv_records(client, "table=sales").await;
    rows.retain(|row| row["record"] == "sale");
    rows.iter_mut().for_each(|row| drop(row.remove("id")));
    rows.sort();
    rows
}

/// An export of sales, with or without a byte order mark, is a table whose import makes the same sales.
#[tokio::test]
async fn our_own_export_can_be_imported() {
    let (shop, instance) = Shop::open().await;
    let admin = instance.admin();
    let product = admin.post("/api/admin/products", &json!({ "name": "Shirt" })).await.json;
    let group = json!({ "name": "Two of these", "per_buyer_limit": 2 });
    let group = admin.post("/api/admin/limit-groups", &group).await.json;
    let odd = |name: &str, value: &str| json!([{ "name": name, "value": value }]);
    for changes in [
        json!({ "name": "=HYPERLINK(\"x\");-1", "description": "Line one\n=2, \"two\";@3" }),
        json!({ "name": "'=already guarded", "image_url": "https://cdn.example/a;-b.png?c=1" }),
        json!({ "name": "=\"00123\"", "currency": "JPY", "price_cents": 0, "stock": 0 }),
        json!({ "kind": "shop", "waiting_room": true, "strategy": "mysql-batch", "hold_seconds": 17 }),
        json!({ "arbiter": "off", "unpaid_max": 3, "offer_seconds": 0, "extend_seconds": 9, "return_seconds": 8 }),
        json!({ "product_id": product["id"], "options": odd("Size", "M") }),
        json!({ "product_id": product["id"], "options": odd("Size; Fit", "=M") }),
        json!({ "limit_group_id": group["id"], "per_buyer_limit": 5 }),
    ] {
        instance.make_item(changes).await;
    }
    let before = sales(&admin).await;
    assert_eq!(before.len(), 8);
    for query in ["table=sales", "table=sales&bom=true"] {
        let file = admin.request(Method::GET, &format!("/api/admin/export?{query}"));
        let file = file.send().await.expect("an answer").bytes().await.expect("a file");
        assert_eq!(file.starts_with(b"\xef\xbb\xbf"), query.contains("bom"), "{query}");
        let made = import(&admin, None, file.to_vec()).await;
        assert_eq!(made.status, 201, "{query}: {}", made.text);
        let twice = sales(&admin).await;
        let each_twice = before.iter().flat_map(|row| [row.clone(), row.clone()]);
        assert_eq!(twice, each_twice.collect::<Vec<_>>(), "{query}");
        // Back to the first ones.
        for id in made.json["items"].as_array().expect("a list") {
            for table in ["items", "stock"] {
                let key = if table == "items" { "id" } else { "item_id" };
                let delete = format!("DELETE FROM {table} WHERE {key} = ?");
                shop.change(sqlx::query(&delete).bind(id.as_i64())).await;
            }
        }
    }
    for wrong in ["bom=perhaps", "bom=1&bom=1"] {
        let answer = admin.get(&format!("/api/admin/export?{wrong}")).await;
        assert_problem(&answer, (400, "invalid_query_parameter"), wrong);
    }
}

#[tokio::test]
async fn the_command_takes_a_charset_and_a_key() {
    let (shop, _instance) = Shop::open().await;
    let operator = shop.make_operator().await;
    let file = std::env::temp_dir().join(unique("table"));
    let path = file.to_str().expect("text");
    let table =
        [TABLE.as_bytes(), b"\xcc\xa8\xb5\xc6,1,1,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z\n"]
            .concat();
    std::fs::write(&file, table).expect("written");
    run_says(&shop, &["import", path, "--operator", &operator], (1, ":4: name: A4")).await;
    let import = ["import", path, "--operator", &operator, "--charset", "gbk", "--key", "k1"];
    for expected in ["3 sales created\n", "3 sales created before"] {
        run_says(&shop, &import, (0, expected)).await;
        assert_eq!(items(&shop).await, 3);
    }
    run_says(&shop, &["import", path, "--dry-run", "--charset", "ebcdic"], (2, "")).await;
    let file_of_excel = run_says(&shop, &["export", "sales", "--bom"], (0, "")).await;
    assert!(file_of_excel.starts_with('\u{feff}'), "{file_of_excel}");
    std::fs::remove_file(file).expect("removed");
}
