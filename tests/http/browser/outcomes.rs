//! What a buyer is told when it does not go smoothly.

use serde_json::json;
use web::token::Role;

use super::driver::{DESKTOP, Page};
use super::{make_sale, orders_of};
use crate::support::{Instance, Shop};

const BUYER: i64 = 78;

/// The page of an item that can be bought, in the eyes of a signed-in buyer.
async fn item_page(instance: &Instance, changes: serde_json::Value) -> Page {
    let item = make_sale(instance, changes).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_as(instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#buy", "Buy for").await;
    page
}

/// Makes the next purchases answer what `answer`, an expression, says; `count` of them.
async fn stage(page: &Page, count: u32, answer: &str) {
    stage_at(page, "/api/seckill/", count, answer).await;
}

/// The same for the requests to addresses that begin with `start`.
pub(super) async fn stage_at(page: &Page, start: &str, count: u32, answer: &str) {
    let script = format!(
        "const real = window.fetch; window.left = {count}; window.purchases = []; \
         window.fetch = async (path, options) => {{ \
           if (!String(path).startsWith('{start}')) return real(path, options); \
           window.purchases.push(options.headers['Idempotency-Key']); \
           if (window.left <= 0) return real(path, options); \
           window.left -= 1; \
           return {answer}; }};"
    );
    page.run(&script, Vec::new()).await;
}

/// An answer of the contract, as an expression.
pub(super) fn problem(status: u16, code: &str, outcome: &str, retry_after: u32) -> String {
    let body = json!({ "code": code, "status": status, "outcome": outcome, "retryable": true });
    format!(
        "new Response({}, {{ status: {status}, headers: {{ 'Retry-After': '{retry_after}' }} }})",
        json!(body.to_string())
    )
}

/// Every purchase that the page has sent used one key.
const ONE_KEY: &str = "new Set(window.purchases).size === 1";

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_again_with_the_same_key() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    // It reaches the service and takes effect; the answer does not come back.
    let lost = "await real(path, options).then(() => { throw new TypeError('lost'); })";
    stage(&page, 1, lost).await;
    page.click("#buy").await;
    page.until_text("#outcome", "It’s yours").await;
    page.until("one key", ONE_KEY).await;
    page.until("a second request", "window.purchases.length > 1").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    page.close().await;
}

#[tokio::test]
async fn an_unknown_outcome_is_told_as_one_and_settled_later() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    // The service asks for a longer pause than a page takes by itself.
    stage(&page, 1, &problem(504, "outcome_unknown", "unknown", 11)).await;
    page.click("#buy").await;
    page.until_text("#outcome", "We don’t know yet whether you got it").await;
    page.shot("item-unknown").await;
    page.click("#outcome button").await;
    page.until_text("#outcome", "It’s yours").await;
    page.until("one key", ONE_KEY).await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    page.close().await;
}

#[tokio::test]
async fn a_shop_that_is_too_busy_says_so_and_the_page_tries_again() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    stage(&page, 1, &problem(503, "overloaded", "none", 3)).await;
    page.click("#buy").await;
    page.until_text("#outcome", "Very busy right now").await;
    page.shot("item-overloaded").await;
    page.until_text("#outcome", "It’s yours").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    page.close().await;
}

#[tokio::test]
async fn sold_out_under_the_thumb_is_told_in_words() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 1 })).await;
    stage(&page, 1, &problem(409, "sold_out", "none", 0)).await;
    page.click("#buy").await;
    page.until_text("#outcome", "There were not enough units left").await;
    page.shot("item-refused").await;
    page.close().await;
}

#[tokio::test]
async fn a_page_without_a_connection_buys_when_it_is_back() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    page.offline(true).await;
    page.click("#buy").await;
    page.until_text("#outcome", "Connection lost").await;
    page.offline(false).await;
    page.until_text("#outcome", "It’s yours").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    page.close_but_for(&["ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED"]).await;
}

/// Ends the staged answers, and lets the page send again at once.
pub(super) const COME_BACK: &str = "window.left = 0; dispatchEvent(new Event('online'))";

/// While a tab waits to send a purchase again, another tab sends the same one, although nothing has happened yet.
#[tokio::test]
async fn a_second_tab_repeats_a_purchase_that_is_still_tried() {
    let (_shop, instance) = Shop::open().await;
    for (status, code) in [(503, "overloaded"), (429, "rate_limited")] {
        let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
        let path = page.run("return location.pathname + location.search", Vec::new()).await;
        let (first, second) = page.second_window().await;
        page.visit(path.as_str().expect("an address")).await;
        page.until_text("#buy", "Buy for").await;
        page.switch(&first).await;
        let before = orders_of(&instance, BUYER).await.len();
        stage(&page, u32::MAX, &problem(status, code, "none", 9)).await;
        page.click("#buy").await;
        page.until("a try", "window.purchases.length === 1").await;
        page.until_text("#buy", "Asking again").await;
        page.switch(&second).await;
        page.click("#buy").await;
        page.until_text("#outcome", "It’s yours").await;
        page.switch(&first).await;
        page.run(COME_BACK, Vec::new()).await;
        page.until_text("#outcome", "It’s yours").await;
        page.until("one key", ONE_KEY).await;
        assert_eq!(orders_of(&instance, BUYER).await.len(), before + 1, "{code}");
        page.close().await;
    }
}

/// Who loads the page again while it waits does not have to press again, and buys once.
#[tokio::test]
async fn a_reload_goes_on_with_a_purchase_that_is_still_tried() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    stage(&page, u32::MAX, &problem(503, "overloaded", "none", 9)).await;
    page.click("#buy").await;
    page.until_text("#outcome", "Very busy right now").await;
    page.reload().await;
    page.until_text("#outcome", "It’s yours").await;
    let forgotten =
        "!Object.keys(localStorage).some((name) => name.startsWith('seckill.purchase'))";
    page.until("a forgotten key", forgotten).await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    page.close().await;
}
