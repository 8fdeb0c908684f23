//! Exports add up to the ledger, and imports create all or nothing.

use futures::stream::{self, StreamExt};

use crate::support::prelude::*;

/// The records of an export as JSON lines.
pub(super) async fn records(instance: &Instance, query: &str) -> Vec<Value> {
    let path = format!("/api/admin/export?format=jsonl&{query}");
    let answer = instance.admin().get(&path).await.expect_status(200);
    assert_eq!(answer.headers["content-type"], "application/jsonl");
    answer.text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

/// The lines of an export as CSV, by column.
pub(super) async fn csv_records(client: &Client, query: &str) -> Vec<BTreeMap<String, String>> {
    let answer = client.get(&format!("/api/admin/export?{query}")).await.expect_status(200);
    parse_csv(&answer.text)
}

fn parse_csv(text: &str) -> Vec<BTreeMap<String, String>> {
    let mut reader = csv::Reader::from_reader(text.as_bytes());
    reader.deserialize().map(|row| row.expect("a row")).collect()
}

fn sum(records: &[Value], kind: &str, field: &str) -> i64 {
    let of_kind = records.iter().filter(|record| record["record"] == kind);
    of_kind.map(|record| record[field].as_i64().expect("a number")).sum()
}

/// Sells an item to the end in many orders, pays some, cancels some.
async fn sell(instance: &Instance, buyers: i64) -> i64 {
    let item = json!({
        "stock": buyers + 50, "name": "=HYPERLINK(\"https://evil.example\")", "kind": "shop",
        "strategy": "mysql-batch", "price_cents": 199,
    });
    let item = instance.make_item(item).await;
    let orders: Vec<(i64, String)> =
        stream::iter(1..=buyers)
            .map(|buyer| async move {
                (buyer, order_id(&instance.buyer(buyer).buy("default", item).await))
            })
            .buffer_unordered(32)
            .collect()
            .await;
    stream::iter(orders)
        .for_each_concurrent(8, |(buyer, order)| async move {
            let client = instance.buyer(buyer);
            let answer = match buyer % 20 {
                0 => client.step(&order, "payment").await,
                1 => client.step(&order, "cancellation").await,
                _ => return,
            };
            assert_eq!(answer.status, 200, "{}", answer.text);
        })
        .await;
    for delta in [7, -3] {
        instance.admin().edit(item, json!({ "stock_delta": delta })).await.expect_status(200);
    }
    item
}

#[tokio::test]
async fn an_export_of_a_sold_sale_adds_up_to_the_ledger_to_the_cent() {
    let (shop, instance) = Shop::open().await;
    let (buyers, other) = (2_100, instance.make_item(json!({ "stock": 5 })).await);
    order_id(&instance.buyer(1).buy("mysql-atomic", other).await);
    let item = sell(&instance, buyers).await;
    let audit = assert_clean(&instance, item).await;

    let orders = records(&instance, &format!("table=orders&item={item}")).await;
    let rows: Vec<&Value> = orders.iter().filter(|it| it["record"] == "order").collect();
    assert_eq!(i64::try_from(rows.len()).expect("a count"), buyers);
    let total = orders.last().expect("a last record");
    assert_eq!(total["record"], "total");
    for field in ["quantity", "amount_cents"] {
        let statement =
            format!("SELECT CAST(SUM({field}) AS SIGNED) FROM orders WHERE item_id = ?");
        let ledger: i64 = shop.read(sqlx::query_scalar(&statement).bind(item)).await;
        assert_eq!(sum(&orders, "order", field), ledger, "{field} of the rows");
        assert_eq!(sum(&orders, "sum", field), ledger, "{field} of the sums");
        assert_eq!(total[field], ledger, "{field} of the total");
    }
    assert_eq!(total["amount_cents"], buyers * 199);
    // By status, as the audit says it.
    let of_status = |status: &str, field: &str| {
        let sums = orders.iter().filter(|it| it["record"] == "sum" && it["status"] == status);
        sums.map(|it| it[field].as_i64().expect("a number")).sum::<i64>()
    };
    assert_eq!(of_status("paid", "quantity"), audit["sold"].as_i64().expect("a number"));
    assert_eq!(of_status("pending", "quantity"), audit["held"].as_i64().expect("a number"));
    assert_eq!(of_status("paid", "count"), 105);

    let moves = records(&instance, &format!("table=movements&item={item}")).await;
    let moved = sum(&moves, "movement", "delta");
    assert_eq!(moves.last().expect("a record")["delta"], moved);
    // The stock at the start plus every movement since is the stock now.
    let available = audit["available"].as_i64().expect("a number");
    assert_eq!(buyers + 50 + moved, available);

    let sales = records(&instance, &format!("table=sales&item={item}")).await;
    let sale = &sales[0];
    assert_eq!((&sale["paid_cents"], &sale["adds_up"]), (&json!(105 * 199), &json!(true)));
    assert_eq!(sale["available"], available);
    let all = records(&instance, "table=sales").await;
    assert_eq!(all.last().expect("a total")["count"], 2);
    let all = records(&instance, "table=orders").await;
    assert_eq!(all.last().expect("a total")["count"], buyers + 1);
    assert_eq!(sum(&records(&instance, "table=movements").await, "movement", "delta"), moved - 1);

    // CSV has the same rows, and no formula.
    let lines = csv_records(&instance.admin(), &format!("table=orders&item={item}")).await;
    assert_eq!(lines.len(), orders.len());
    let rows = lines.iter().filter(|it| it["record"] == "order");
    let cents = rows.map(|it| it["amount_cents"].parse::<i64>().expect("a number"));
    assert_eq!(cents.sum::<i64>(), buyers * 199);
    let sale = &csv_records(&instance.admin(), &format!("table=sales&item={item}")).await[0];
    assert_eq!(sale["name"], "'=HYPERLINK(\"https://evil.example\")");

    // The command writes the same file.
    let id = item.to_string();
    let said = run_says(&shop, &["export", "orders", "--item", &id], (0, "")).await;
    assert_eq!(parse_csv(&said), lines);
}

/// A day before or after its ends is not in the calendar.
#[tokio::test]
async fn an_export_can_be_of_some_time_up_to_both_ends_of_the_calendar() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 10, "per_buyer_limit": 9 })).await;
    let buyer = instance.buyer(1);
    for _ in 0..3 {
        order_id(&buyer.buy("mysql-atomic", item).await);
    }
    // One order is moved to an earlier hour.
    let moved = "UPDATE orders SET created_at = created_at - INTERVAL 2 HOUR ORDER BY id LIMIT 1";
    shop.change(sqlx::query(moved)).await;
    let now = OffsetDateTime::now_utc();
    let hour_ago = web::problem::rfc3339(now - time::Duration::HOUR);
    let count = async |query: String| {
        let records = records(&instance, &query).await;
        records.last().expect("a total")["count"].as_i64().expect("a number")
    };
    assert_eq!(count(format!("table=orders&from={hour_ago}")).await, 2);
    assert_eq!(count(format!("table=orders&until={hour_ago}")).await, 1);
    assert_eq!(count(format!("table=orders&from={hour_ago}&until={hour_ago}")).await, 0);
    assert_eq!(count(format!("table=movements&from={hour_ago}")).await, 3);
    assert_eq!(count(format!("table=sales&until={hour_ago}")).await, 0);
    let ends = ["from=0000-01-01T00:00:00Z", "until=9999-12-31T23:59:59Z"];
    for query in [ends[0].to_owned(), ends[1].to_owned(), ends.join("&")] {
        for table in ["sales", "orders", "movements"] {
            let records = records(&instance, &format!("table={table}&{query}")).await;
            let total = records.last().expect("a last record");
            assert_eq!(total["record"], "total", "{query}");
            assert_eq!(total["count"], if table == "sales" { 1 } else { 3 }, "{query}");
        }
    }
    // In UTC these are years that a ledger has not.
    for wrong in ["from=0000-01-01T00:00:00%2B01:00", "until=9999-12-31T23:59:59-01:00"] {
        let answer = instance.admin().get(&format!("/api/admin/export?{wrong}")).await;
        assert_problem(&answer, (400, "invalid_query_parameter"), wrong);
    }
    let until = |time: &'static str| ["export", "orders", "--until", time];
    let (code, said) = run(&shop, &until("9999-12-31T23:59:59Z")).await;
    assert_eq!((code, parse_csv(&said).len()), (0, 5), "{said}");
    run_says(&shop, &until("9999-12-31T23:59:59-01:00"), (2, "a time has the form")).await;
}

/// The file of an earlier export stays when the ledger does not answer.
#[tokio::test]
async fn an_export_is_written_down_and_one_that_does_not_begin_empties_no_file() {
    let (shop, instance) = Shop::open().await;
    let wrong = "table=users format=xls item=0 item=x from=today x=1 item=1&item=2";
    for wrong in wrong.split(' ') {
        let answer = instance.admin().get(&format!("/api/admin/export?{wrong}")).await;
        assert_problem(&answer, (400, "invalid_query_parameter"), wrong);
    }
    let empty = records(&instance, "table=orders").await;
    assert_eq!(empty, [json!({ "record": "total", "count": 0, "quantity": 0, "amount_cents": 0 })]);
    let log = instance.admin().get("/api/admin/actions").await;
    assert_eq!(log.json["actions"][0]["action"], "exported", "{}", log.text);
    assert_eq!(log.json["actions"][0]["detail"]["table"], "orders", "{}", log.text);
    let file = std::env::temp_dir().join(unique("export"));
    std::fs::write(&file, "of yesterday").expect("written");
    let path = file.to_str().expect("text");
    let mut export = program(&shop, &["export", "orders", "--output", path]);
    // Nobody listens there.
    export.env("DATABASE_URL", "mysql://root@127.0.0.1:1/none");
    let ended = export.output().await.expect("it ran");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(2) && said.contains("nothing was exported"), "{said}");
    assert_eq!(std::fs::read_to_string(&file).expect("there"), "of yesterday");
    std::fs::remove_file(file).expect("removed");
}

/// A unit that is offered is neither left, nor held, nor sold.
#[tokio::test]
async fn an_export_counts_an_open_offer() {
    let (_shop, instance) = Shop::open().await;
    let sale = json!({ "stock": 2, "strategy": "mysql-atomic", "offer_seconds": 600 });
    let item = instance.make_item(sale).await;
    let order = order_id(&instance.buyer(1).buy("default", item).await);
    order_id(&instance.buyer(2).buy("default", item).await);
    let path = format!("/api/items/{item}/waiting");
    assert_eq!(instance.buyer(3).post(&path, &json!({})).await.status, 200);
    assert_eq!(instance.buyer(1).step(&order, "cancellation").await.status, 200);
    assert_eq!(instance.buyer(3).get(&path).await.json["status"], "offered");
    let sales = records(&instance, &format!("table=sales&item={item}")).await;
    let expected = [("available", 0), ("offered", 1), ("held", 1), ("sold", 0), ("total", 2)];
    for record in &sales {
        for (column, units) in expected {
            assert_eq!(record[column], units, "{column}: {record}");
        }
        assert_eq!(record["adds_up"], true, "{record}");
    }
    let lines = csv_records(&instance.admin(), &format!("table=sales&item={item}")).await;
    assert!(lines.iter().all(|line| line["offered"] == "1"), "{lines:?}");
    assert_clean(&instance, item).await;
}

const TABLE: &str = "name,price_cents,stock,starts_at,ends_at,strategy\n\
    Lamp,250,10,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z,mysql-atomic\n\
    \"Kettle, \"\"big\"\"\",999,5,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z,\n\
    '=Mug,1,1,2026-01-01T00:00:00Z,2099-01-01T00:00:00Z,redis-lua\n";

/// A table of one sale with a further column.
fn with_column(name: &str, value: &str) -> String {
    let lines = TABLE.lines().take(2).zip([name, value]);
    lines.map(|(line, more)| format!("{line},{more}\n")).collect()
}

pub(super) async fn import(client: &Client, query: &str, table: &str) -> Answer {
    let request = client.request(Method::POST, &format!("/api/admin/import{query}"));
    let request = request.header("content-type", "text/csv; charset=utf-8");
    Client::send(request.body(table.to_owned())).await
}

pub(super) async fn items(shop: &Shop) -> i64 {
    shop.number("SELECT COUNT(*) FROM items").await
}

#[tokio::test]
async fn a_table_becomes_sales_all_or_none() {
    let (shop, instance) = Shop::open().await;
    let admin = instance.admin();
    let checked = import(&admin, "?dry_run=true", TABLE).await.expect_status(200);
    assert_eq!((&checked.json["sales"], &checked.json["faults"]), (&json!(3), &json!([])));
    assert_eq!(items(&shop).await, 0, "a check created something");
    // An import has limits.
    let answer = import(&admin, "", &format!("{TABLE}{}", "x".repeat(1 << 20))).await;
    assert_problem(&answer, (413, "payload_too_large"), "a large table");
    import(&admin, "?dry_run=perhaps", TABLE).await.expect_problem(400, "invalid_query_parameter");
    admin.post("/api/admin/import", &json!({})).await.expect_problem(415, "unsupported_media_type");

    let faulty = format!("{TABLE}Cup,-5,x,2026-01-01T00:00:00Z,2025-01-01T00:00:00Z,mysql-naive\n");
    let checked = import(&admin, "?dry_run=true", &faulty).await;
    let faults = checked.json["faults"].as_array().expect("a list");
    let brief: Vec<_> =
        faults.iter().map(|it| format!("{} {}", it["line"], it["column"])).collect();
    let columns = ["price_cents", "stock", "starts_at", "strategy"];
    assert_eq!(brief, columns.map(|column| format!("5 \"{column}\"")));
    let refused = import(&admin, "", &faulty).await.expect_problem(422, "invalid_table");
    assert_eq!(refused.json["faults"].as_array().map(Vec::len), Some(4));
    assert_eq!(items(&shop).await, 0, "a table with faults created something");

    // What is not in the table but in the ledger is checked, too, and named by its line.
    for (column, value, code) in [
        ("product_id", "77", "product_not_found"),
        ("limit_group_id", "77", "limit_group_not_found"),
    ] {
        let table = with_column(column, value);
        let checked = import(&admin, "?dry_run=true", &table).await.json["faults"].clone();
        let fault = &checked[0];
        let expected = (&json!(2), &json!(column), &json!(code));
        assert_eq!((&fault["line"], &fault["column"], &fault["code"]), expected, "{checked}");
        let refused = import(&admin, "", &table).await;
        assert_problem(&refused, (422, "invalid_table"), column);
        assert_eq!(refused.json["faults"], checked);
    }

    let made = import(&admin, "", TABLE).await.expect_status(201);
    let ids = made.json["items"].as_array().expect("a list");
    assert_eq!(ids.len(), 3);
    let mug = instance.stranger().get(&format!("/api/items/{}", ids[2])).await;
    assert_has(&mug.json, json!({ "name": "=Mug", "available": 1, "strategy": "redis-lua" }));
    assert_eq!(instance.buyer(1).buy("default", ids[2].as_i64().expect("an id")).await.status, 201);
    let log = instance.admin().get("/api/admin/actions").await;
    let actions = log.json["actions"].as_array().expect("a list");
    assert_eq!(actions.iter().filter(|it| it["action"] == "item_created").count(), 3);
}

#[tokio::test]
async fn the_command_imports_as_the_console_does() {
    let (shop, instance) = Shop::open().await;
    let file = std::env::temp_dir().join(unique("table"));
    let path = file.to_str().expect("text");
    std::fs::write(&file, TABLE).expect("written");
    let (code, said) = run(&shop, &["import", path, "--dry-run"]).await;
    assert_eq!((code, items(&shop).await), (0, 0), "{said}");
    assert!(said.contains("3 sales, no faults"), "{said}");
    // The check reads amounts as the import does: 49.00 is 49 in a shop of yen.
    let price = TABLE.replace("999", "49.00");
    assert_ne!(price, TABLE, "a price is replaced");
    std::fs::write(&file, price).expect("written");
    let mut check = program(&shop, &["import", path, "--dry-run"]);
    check.env("SECKILL_PAYMENT_CURRENCY", "JPY");
    let (code, said) = told(&check.output().await.expect("the program runs"));
    assert!(code == 1 && said.contains("JPY: 49 for this"), "{said}");
    std::fs::write(&file, TABLE).expect("written");
    let operator = shop.make_operator().await;
    let buyer = "INSERT INTO users (username, username_folded, password_hash, role, created_at) \
         VALUES ('ben', 'ben', '', 'buyer', UTC_TIMESTAMP(6))";
    let buyer = sqlx::query(buyer).execute(&shop.pool).await.expect("an account").last_insert_id();
    for nobody in [buyer.to_string(), "999999".to_owned()] {
        let (code, said) = run(&shop, &["import", path, "--operator", &nobody]).await;
        assert_eq!((code, items(&shop).await), (2, 0), "{said}");
        assert!(said.contains(&format!("user {nobody} is no operator")), "{said}");
    }
    let import = ["import", path, "--operator", &operator];
    let (code, said) = run(&shop, &import).await;
    assert_eq!((code, items(&shop).await), (0, 3), "{said}");
    for (table, expected) in [
        (TABLE.replace("999", "free"), ":3: price_cents:"),
        (with_column("product_id", "77"), ":2: product_id: Check the product's id"),
    ] {
        std::fs::write(&file, table).expect("written");
        let (code, said) = run(&shop, &import).await;
        assert_eq!((code, items(&shop).await), (1, 3), "{said}");
        assert!(said.contains(expected), "{said}");
    }
    // The id is what the command was told, so the log says who ran it.
    let log = instance.admin().get("/api/admin/actions").await;
    let created = log.json["actions"].as_array().expect("a list").iter();
    let mut created = created.filter(|line| line["detail"]["system_user"].is_string());
    let line = created.next().unwrap_or_else(|| panic!("nobody: {}", log.text));
    let user = line["detail"]["system_user"].as_str().expect("a text");
    assert!(user.contains("uid "), "{user}");
    // An import needs an operator.
    run_says(&shop, &["import", path], (2, "")).await;
    let listed = instance.stranger().get("/api/items").await;
    assert_eq!(listed.json["items"].as_array().map(Vec::len), Some(3));
    std::fs::remove_file(file).expect("removed");
}
