//! The receipt that a buyer keeps of an order, and the page that checks it: with the log of the sale, from the shop and as a
//! file.

use std::net::SocketAddr;

use seckill::account::Role;
use serde_json::{Value, json};
use thirtyfour::Key;

use super::draw::{KEEP, new_folder, one_file, save};
use super::driver::{DESKTOP, Look, PHONE, Page};
use super::{make_sale, orders_of};
use crate::process::program::run;
use crate::support::{Client, Shop, eventually, when};

const BUYER: i64 = 77;

async fn shop() -> Shop {
    Shop::with(|config| {
        config.receipts.enabled = true;
        config.receipts.append_ms = 20;
    })
    .await
}

/// Waits until an order is in the log: a page that is told to wait writes that to its console.
pub async fn until_logged(buyer: &Client, order: &Value) {
    let path = format!("/api/orders/{}/receipt", order["id"].as_str().expect("an id"));
    eventually("the receipt", || async {
        let receipt = buyer.get(&path).await;
        when(receipt.status == 200, receipt.text)
    })
    .await;
}

#[tokio::test]
async fn a_buyer_keeps_the_receipt_of_an_order_and_checks_it_without_the_shop() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = make_sale(&instance, json!({ "stock": 2 })).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#buy", "Buy for").await;
    page.click("#buy").await;
    page.until_text("#outcome", "It’s yours").await;
    page.click("#outcome a").await;
    page.click("#pay").await;
    page.until_text("#status", "Paid").await;
    let order = orders_of(&instance, BUYER).await.remove(0);
    until_logged(&instance.buyer(BUYER), &order).await;
    page.run(KEEP, Vec::new()).await;
    // By keyboard alone.
    page.run("document.querySelector('.receipt summary').focus()", Vec::new()).await;
    page.press(Key::Enter).await;
    page.until("the code", "document.querySelector('.receipt-code')?.width > 30").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("order-receipt").await;
    page.press(Key::Tab).await;
    page.press(Key::Enter).await;
    page.until("the file", "typeof globalThis.kept === 'string'").await;
    let kept = page.run("return globalThis.kept", Vec::new()).await;
    let kept = kept.as_str().expect("a text").to_owned();
    // The address of the code finds the order in the log.
    page.click(".receipt-checks a").await;
    let id = order["id"].as_str().expect("an id");
    page.until_text("#result", &format!("Your order {id} is in the log")).await;

    let log = instance.stranger().get(&format!("/api/items/{item}/log/entries")).await.text;
    let folder = new_folder();
    let forged = kept.replace(id, "00000000-0000-4000-8000-000000000000");
    let file = |name: &str, text: &str| save(&folder, name, text);
    let (log, kept, forged) =
        (file("log.txt", &log), file("kept.json", &kept), file("forged.json", &forged));
    let alone = one_file(&instance, &folder).await;
    instance.stop().await;
    page.visit_elsewhere(&alone).await;
    page.until("the page", "'ready' in document.documentElement.dataset").await;
    page.fill("#receipt", &kept).await;
    page.click("#form .button").await;
    page.until_text("#result", "The shop has signed this").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("receipt-verified-alone").await;
    page.fill("#proof", &log).await;
    page.click("#form .button").await;
    page.until_text("#result", "The log proves the sale").await;
    page.until_text("#result", "Your receipts (1) are in the log").await;
    page.fill("#receipt", &forged).await;
    page.click("#form .button").await;
    page.until_text("#result", "A receipt does not prove what it says").await;
    page.close().await;
    // The command reads the same file.
    assert_eq!(run(&shop, &["verify", &log, "--receipt", &kept]).await.0, 0);
    assert_eq!(run(&shop, &["verify", &kept]).await.0, 0);
    assert_eq!(run(&shop, &["verify", &forged]).await.0, 1);
}

#[tokio::test]
async fn an_order_of_two_items_has_two_codes_on_a_narrow_phone_and_in_chinese() {
    let shop = shop().await;
    let instance = shop.start().await;
    let mut lines = Vec::new();
    for name in ["Aurora desk lamp", "Copper kettle"] {
        let item = make_sale(&instance, json!({ "stock": 2, "name": name })).await;
        lines.push(json!({ "item_id": item }));
    }
    let buyer = instance.buyer(BUYER);
    let order = buyer.post("/api/reservations", &json!({ "lines": lines })).await.json;
    until_logged(&buyer, &order).await;
    let look = Look { language: "zh-CN", width: 360, height: 740, dark: true, ..PHONE };
    let page = Page::open(instance.addr, look).await;
    let path = format!("/order.html?id={}", order["id"].as_str().expect("an id"));
    page.visit_as(&instance, BUYER, Role::Buyer, &path).await;
    page.until_text(".receipt summary", "保存回执").await;
    page.click(".receipt summary").await;
    page.until("two codes", "document.querySelectorAll('.receipt-code').length === 2").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    let fits = "return document.documentElement.scrollWidth <= window.innerWidth";
    assert_eq!(page.run(fits, Vec::new()).await, json!(true));
    page.shot("phone-order-receipt").await;
    page.click(".receipt-checks li:last-child a").await;
    page.until_text("#result", "日志中有您的订单").await;
    page.close().await;
}

#[tokio::test]
async fn a_shop_without_logs_offers_no_receipt() {
    let (_shop, instance) = Shop::open().await;
    let item = make_sale(&instance, json!({ "stock": 2 })).await;
    let order = instance.buyer(BUYER).buy("default", item).await.json;
    let page = Page::open(instance.addr, DESKTOP).await;
    let path = format!("/order.html?id={}", order["id"].as_str().expect("an id"));
    page.visit_as(&instance, BUYER, Role::Buyer, &path).await;
    page.until_text("#status", "Held for you").await;
    page.until("no receipt", "document.querySelector('.receipt').hidden").await;
    page.close().await;
}

#[tokio::test]
async fn the_checking_page_finds_every_fraud_in_a_log_without_a_server() {
    let page = Page::open(SocketAddr::from(([127, 0, 0, 1], 9)), DESKTOP).await;
    let address = format!("file://{}/static/verify.html", env!("CARGO_MANIFEST_DIR"));
    page.visit_elsewhere(&address).await;
    page.until("the checker", "typeof SaleLog === 'object'").await;
    let cases: Value =
        serde_json::from_str(include_str!("../../../crates/verify/vectors-log.json"))
            .expect("cases");
    let script = "const cases = arguments[0]; \
        Promise.all(cases.map((one) => SaleLog.check(one.log.map((line) => line + '\\n').join(''), \
          { keys: one.keys ?? null, earlier: one.earlier ?? [], receipts: one.receipts ?? [] }))) \
        .then((found) => { globalThis.found = found.map((one) => one.faults.sort()); })";
    page.run(script, vec![cases.clone()]).await;
    page.until("every case", "Array.isArray(globalThis.found)").await;
    let found = page.run("return globalThis.found", Vec::new()).await;
    let cases = cases.as_array().expect("a list").iter();
    for (case, found) in cases.zip(found.as_array().expect("a list")) {
        let mut expected: Vec<&str> =
            case["faults"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        expected.sort_unstable();
        assert_eq!(found, &json!(expected), "{}", case["name"]);
    }
    page.close().await;
}

#[tokio::test]
async fn a_log_of_the_shop_is_checked_on_a_phone_and_in_chinese() {
    let shop = shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 2 })).await;
    let buyer = instance.buyer(1);
    until_logged(&buyer, &buyer.buy("mysql-batch", item).await.json).await;
    let address = format!("http://{}/verify.html#log={item}", instance.addr);
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_elsewhere(&address).await;
    page.until_text("#result", "The log proves the sale").await;
    page.until_text("#result", "1 orders have 1 units").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("log-verified").await;
    page.close().await;
    let page = Page::open(instance.addr, Look { language: "zh-CN", dark: true, ..PHONE }).await;
    page.visit_elsewhere(&address).await;
    page.until_text("#result", "日志证明了这次销售").await;
    page.shot("phone-log-verified").await;
    page.close().await;
}
