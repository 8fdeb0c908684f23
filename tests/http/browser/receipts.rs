//! The page that checks a sale: the log of a sale, from the shop and as a file.

use std::net::SocketAddr;

use serde_json::{Value, json};

use super::driver::{DESKTOP, Look, PHONE, Page};
use crate::support::{Shop, eventually, when};

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
    let shop = Shop::with(|config| {
        config.receipts.enabled = true;
        config.receipts.append_ms = 20;
    })
    .await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 2 })).await;
    let buyer = instance.buyer(1);
    let order = buyer.buy("mysql-batch", item).await.json;
    let path = format!("/api/orders/{}/receipt", order["id"].as_str().expect("an id"));
    eventually("the receipt", || async {
        let receipt = buyer.get(&path).await;
        when(receipt.status == 200, receipt)
    })
    .await;
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
