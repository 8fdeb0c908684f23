//! Orders of several items: all lines of an order leave together, after the files of all its items are written.

use serde_json::{Value, json};

use super::{ENDED, Folder, archive, assert_both_clean, count, set, step};
use crate::http::{assert_problem, order_id};
use crate::support::{Client, Instance, Shop, assert_clean};

/// Units of each item.
const STOCK: i64 = 20;

async fn reserve(buyer: &Client, items: &[i64]) -> String {
    let lines: Vec<Value> =
        items.iter().map(|item| json!({ "item_id": item, "quantity": 1 })).collect();
    order_id(&buyer.post("/api/reservations", &json!({ "lines": lines })).await)
}

/// Sells two items alone and together, and a third one together with the second. Returns the items, and the ids of
/// all orders.
async fn sell(instance: &Instance) -> ([i64; 3], Vec<String>) {
    let mut items = [0; 3];
    for item in &mut items {
        *item = instance.make_item(json!({ "stock": STOCK, "kind": "shop" })).await;
    }
    let [first, second, third] = items;
    let carts: [&[i64]; 5] =
        [&[first], &[second], &[first, second], &[second, third], &[first, second, third]];
    let mut orders = Vec::new();
    for (buyer, (cart, word)) in
        (1..).zip(carts.iter().flat_map(|cart| [(cart, "payment"), (cart, "cancellation")]))
    {
        let order = reserve(&instance.buyer(buyer), cart).await;
        step(instance, buyer, &order, word).await;
        orders.push(order);
    }
    let single = order_id(&instance.buyer(11).buy("mysql-atomic", first).await);
    step(instance, 11, &single, "payment").await;
    orders.push(single);
    (items, orders)
}

/// Each line of the item's orders that the files have.
fn lines_in_files(folder: &Folder) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(&folder.0).expect("a folder") {
        let lines = super::lines_of(&entry.expect("a file").path());
        let orders = lines.iter().filter(|line| line["table"] == "orders");
        found.extend(orders.map(|line| {
            let text = |column: &str| line["row"][column].as_str().expect("a text").to_owned();
            (text("item_id"), text("id"))
        }));
    }
    found.sort();
    found
}

#[tokio::test]
async fn orders_of_several_items_leave_whole_after_all_their_items() {
    let folder = Folder::new();
    let (shop, instance) = Shop::open().await;
    let (items, orders) = sell(&instance).await;
    let [first, second, third] = items;
    let mut before = Vec::new();
    for item in items {
        before.push(assert_clean(&instance, item).await);
    }
    let mut rows: Vec<(String, String)> =
        sqlx::query_as("SELECT CAST(item_id AS CHAR), id FROM orders")
            .fetch_all(&shop.pool)
            .await
            .expect("read");
    rows.sort();

    // A sale that goes on keeps the items with which it was sold.
    set(&shop, ENDED, first).await;
    set(&shop, ENDED, second).await;
    for item in [first, second] {
        let (code, text) = archive(&shop, &folder.0, item, None).await;
        let why = "a line of an item whose sale has not ended";
        assert_eq!((code, text.contains(why)), (1, true), "{text}");
    }
    set(&shop, ENDED, third).await;
    // What the first one sold alone leaves, and what it sold with the others waits for them.
    let (code, text) = archive(&shop, &folder.0, first, None).await;
    assert_eq!((code, text.contains("run this again")), (0, true), "{text}");
    assert_eq!(count(&shop, "orders", first).await, 4);
    all_clean(&shop, &instance, items).await;
    // An order of which one item is closed is not given back any more.
    let window = |seconds: u32| format!("UPDATE items SET return_seconds = {seconds} WHERE id = ?");
    for item in [first, second] {
        set(&shop, &window(3_600), item).await;
    }
    let path = format!("/api/orders/{}/return", orders[4]);
    let back = instance.buyer(5).post(&path, &json!({})).await;
    assert_problem(&back, (409, "order_not_returnable"), "an item is closed");
    set(&shop, &window(0), second).await;

    // Without the file of the first one, no order with a line of it is deleted.
    let file = std::fs::read_dir(&folder.0).expect("a folder").next().expect("it").expect("it");
    let away = folder.0.with_extension("away");
    std::fs::rename(file.path(), &away).expect("moved");
    let (code, text) = archive(&shop, &folder.0, second, None).await;
    let why = format!("the file of item {first}");
    assert_eq!((code, text.contains(&why)), (1, true), "{text}");
    assert_eq!(count(&shop, "orders", first).await, 4);
    std::fs::rename(&away, file.path()).expect("moved back");

    // Killed in the middle of a chunk, where lines of two items leave.
    for point in ["archive-chunk-half:1", "archive-chunk-half:4", "archive-chunk-half:6"] {
        let (code, text) = archive(&shop, &folder.0, second, Some(point)).await;
        assert_eq!(code, -1, "{point} did not kill it: {text}");
        all_clean(&shop, &instance, items).await;
    }
    let (code, text) = archive(&shop, &folder.0, second, Some("archive-chunk-removed:2")).await;
    assert_eq!(code, -1, "{text}");
    all_clean(&shop, &instance, items).await;
    let (code, text) = archive(&shop, &folder.0, second, None).await;
    assert_eq!(code, 0, "{text}");
    assert_eq!([count(&shop, "orders", first).await, count(&shop, "orders", second).await], [2, 4]);
    all_clean(&shop, &instance, items).await;
    for item in [third, first, second] {
        let (code, text) = archive(&shop, &folder.0, item, None).await;
        assert_eq!((code, text.contains("run this again")), (0, false), "{text}");
        all_clean(&shop, &instance, items).await;
    }
    for (item, before) in items.into_iter().zip(before) {
        for table in ["orders", "stock_movements", "buyer_limits", "waiting_list"] {
            assert_eq!(count(&shop, table, item).await, 0, "{table} of {item}");
        }
        let after = assert_clean(&instance, item).await;
        for field in ["total", "available", "sold", "orders"] {
            assert_eq!(after[field], before[field], "{field} of {item}");
        }
    }
    assert_eq!(lines_in_files(&folder), rows, "each line is in the file of its item");
    let gone = instance.buyer(5).get(&format!("/api/orders/{}", orders[4])).await;
    assert_problem(&gone, (404, "order_not_found"), "an archived order");
}

async fn all_clean(shop: &Shop, instance: &Instance, items: [i64; 3]) {
    for item in items {
        assert_both_clean(shop, instance, item, STOCK).await;
    }
}
