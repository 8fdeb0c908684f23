//! Buyers enter a draw, see their place, buy, and check the proof; and the checking page as a file.

use std::net::SocketAddr;

use seckill::account::Role;
use serde_json::{Value, json};

use super::driver::{DESKTOP, Look, PHONE, Page};
use super::{in_seconds, make_sale, orders_of};
use crate::support::{Instance, Shop};

const BUYER: i64 = 77;

/// A sale of one unit that is drawn `seconds` from now.
async fn drawn_sale(instance: &Instance, seconds: i64) -> i64 {
    let closes_at = in_seconds(seconds);
    let draw = json!({ "stock": 1, "mode": "draw", "draw_closes_at": closes_at });
    make_sale(instance, draw).await
}

async fn shop() -> (Shop, Instance) {
    let shop = Shop::with(|config| {
        // The list must be published before the round, on a busy machine too.
        config.draw.round_after_seconds = 5;
        config.draw.poll_ms = 50;
    })
    .await;
    let instance = shop.start().await;
    (shop, instance)
}

#[tokio::test]
async fn a_buyer_enters_wins_buys_and_checks_the_proof() {
    let (_shop, instance) = shop().await;
    let item = drawn_sale(&instance, 10).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#draw", "Enter until").await;
    page.until("no button to buy", "document.getElementById('buy-form').hidden").await;
    page.click("#draw .button").await;
    page.until_text("#draw", "You are in the draw").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-entered").await;
    page.until_text("#draw", "Your place is 1").await;
    page.until_text("#waiting", "held for you").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-placed").await;
    page.click("#waiting .button").await;
    page.until_text("#outcome", "It’s yours").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    // The link of the page leads to the check of this very entry.
    page.run("document.querySelector('#draw a[href^=\"/verify\"]').click()", Vec::new()).await;
    page.until_text("#result", "The places are right").await;
    page.until_text("#result", "Your entry is in the list. Its place is 1").await;
    assert_eq!(page.violations().await, Vec::<String>::new());
    page.shot("draw-verified").await;
    page.close().await;
}

#[tokio::test]
async fn a_buyer_withdraws_on_a_phone_and_in_chinese() {
    let (_shop, instance) = shop().await;
    let item = drawn_sale(&instance, 600).await;
    let page = Page::open(instance.addr, Look { language: "zh-CN", dark: true, ..PHONE }).await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#draw", "参加抽签").await;
    page.click("#draw .button").await;
    page.until_text("#draw", "您已报名").await;
    page.shot("phone-draw-entered").await;
    page.click("#draw .button").await;
    page.until_text("#draw .button", "参加抽签").await;
    let entry = instance.buyer(BUYER).get(&format!("/api/items/{item}/entry")).await;
    assert_eq!(entry.json["status"], "none");
    page.close().await;
}

#[tokio::test]
async fn the_checking_page_finds_every_fraud_without_a_server() {
    let page = Page::open(SocketAddr::from(([127, 0, 0, 1], 9)), DESKTOP).await;
    let address = format!("file://{}/static/verify.html", env!("CARGO_MANIFEST_DIR"));
    page.visit_elsewhere(&address).await;
    page.until("the checker", "typeof DrawProof === 'object'").await;
    let cases: Value =
        serde_json::from_str(include_str!("../../../crates/verify/vectors.json")).expect("cases");
    let script = "const cases = arguments[0]; \
        Promise.all(cases.map((one) => DrawProof.check(one, \
          { announced: one.announced ?? null, entry: one.entry ?? null }))) \
        .then((found) => { globalThis.found = found.map((one) => one.faults.sort()); })";
    page.run(script, vec![cases.clone()]).await;
    page.until("every case", "Array.isArray(globalThis.found)").await;
    let found = page.run("return globalThis.found", Vec::new()).await;
    for (case, found) in
        cases.as_array().expect("a list").iter().zip(found.as_array().expect("a list"))
    {
        let mut expected: Vec<&str> =
            case["faults"].as_array().expect("a list").iter().filter_map(Value::as_str).collect();
        expected.sort_unstable();
        assert_eq!(found, &json!(expected), "{}", case["name"]);
    }
    page.close().await;
}
