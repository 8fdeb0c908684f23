//! What a buyer is told when it does not go smoothly.

use super::forms::{KEEP_BACK, keep_back, until_kept_back};
use super::*;

const BUYER: i64 = 78;

/// The page of an item that can be bought, in the eyes of a signed-in buyer.
async fn item_page(instance: &Instance, changes: Value) -> Page {
    let item = make_sale(instance, changes).await;
    let page = Page::of_buyer(instance, DESKTOP, BUYER, &format!("/item.html?id={item}")).await;
    page.until_text("#buy", "Buy for").await;
    page
}

/// Makes the next purchases answer what `answer`, an expression, says; `count` of them.
async fn stage(page: &Page, count: u32, answer: &str) {
    stage_at(page, "/api/seckill/", count, answer).await;
}

/// Answers so the requests to addresses that begin with `start`.
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
    page.run(&script).await;
}

/// An answer of the contract, as an expression.
pub(super) fn problem(status: u16, code: &str, outcome: &str, retry_after: u32) -> String {
    let body = json!({ "code": code, "status": status, "outcome": outcome, "retryable": true });
    format!(
        "new Response({}, {{ status: {status}, headers: {{ 'Retry-After': '{retry_after}' }} }})",
        json!(body.to_string())
    )
}

/// The page has sent a purchase more than once, and each time with one key.
const ONE_KEY: &str = "window.purchases.length > 1 && new Set(window.purchases).size === 1";
/// The page has thrown away the keys of its purchases.
const NO_KEY: &str =
    "!Object.keys(localStorage).some((name) => name.startsWith('seckill.purchase'))";

/// What is answered to the first requests of a purchase, how many of them, what its buyer is told, and whether it goes on by
/// a press alone. In the end the unit is bought, once, under one key.
#[tokio::test]
async fn each_answer_is_told_and_the_unit_is_bought_once() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 9, "per_buyer_limit": 9 })).await;
    // It reaches the service and takes effect; the answer does not come back.
    let lost = "await real(path, options).then(() => { throw new TypeError('lost'); })";
    // Then the page of a proxy, or a body that came too slowly, says nothing about the request before.
    let proxy = "new Response('<html></html>', { status: 403 })";
    let slow = problem(408, "request_timeout", "none", 0);
    let then_proxy = format!("window.left === 1 ? {lost} : {proxy}");
    let then_slow = format!("window.left === 1 ? {lost} : {slow}");
    // The service asks for a longer pause than a page takes by itself.
    let unknown = problem(504, "outcome_unknown", "unknown", 11);
    let busy = problem(503, "overloaded", "none", 3);
    let unsure = "We don’t know yet whether you got it";
    for (bought, (name, answer, count, told, by_press)) in (1..).zip([
        ("lost", lost, 1, "It’s yours", false),
        ("of-a-captive-portal", "new Response('<html></html>')", 1, "It’s yours", false),
        ("unknown", &*unknown, 1, unsure, true),
        ("lost-then-proxy", &*then_proxy, 2, unsure, true),
        ("lost-then-slow", &*then_slow, 2, unsure, true),
        ("overloaded", &*busy, 1, "Very busy right now", false),
    ]) {
        stage(&page, count, answer).await;
        page.click_until("#buy", "#outcome", told).await;
        if by_press {
            page.click("#outcome button").await;
        }
        page.until_text("#outcome", "It’s yours").await;
        page.until("one key of several requests", ONE_KEY).await;
        assert_eq!(orders_of(&instance, BUYER).await.len(), bought, "{name}");
        page.reload_until("#buy", "Buy for").await;
    }
    // Sold out under the thumb.
    stage(&page, 1, &problem(409, "sold_out", "none", 0)).await;
    page.click_until("#buy", "#outcome", "There were not enough units left").await;
    page.close().await;
}

/// A lost answer to COMMIT is 503 with an unknown outcome, and a later try that did nothing says nothing about it.
#[tokio::test]
async fn a_payment_that_may_have_been_made_is_not_told_as_none() {
    let (_shop, instance, item) = selling(json!({ "stock": 5 })).await;
    let order = order_id(&instance.buyer(BUYER).buy("default", item).await);
    let lost = problem(503, "dependency_unavailable", "unknown", 0);
    let refused = problem(503, "dependency_unavailable", "none", 0);
    let proxy = "new Response('<html></html>', { status: 404 })".to_owned();
    let path = format!("/order.html?id={order}");
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, &path).await;
    for (last, tries) in [(&lost, 5), (&refused, 5), (&proxy, 2)] {
        page.visit_until(&path, "#pay", "Pay").await;
        // Reads of the order pass. The first try is lost.
        let answer = format!(
            "options.method === 'GET' ? await real(path, options) : \
             (window.tries = (window.tries ?? 0) + 1) === 1 ? {lost} : {last}"
        );
        stage_at(&page, "/api/orders/", u32::MAX, &answer).await;
        page.click_until("#pay", "#action-text", "The answer did not reach us").await;
        let told = "document.getElementById('action-text').innerText.includes('Nothing was')";
        page.until("no word of nothing", &format!("!{told}")).await;
        page.until("all tries", &format!("window.tries === {tries}")).await;
    }
    page.close().await;
}

/// Ends the staged answers, and lets the page send again at once.
pub(super) const COME_BACK: &str = "window.left = 0; dispatchEvent(new Event('online'))";

/// While a tab waits to send a purchase again, another tab sends the same one, although nothing has happened yet.
#[tokio::test]
async fn a_second_tab_repeats_a_purchase_that_is_still_tried() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let path = page.run("return location.pathname + location.search").await;
    let (first, second) = page.second_window().await;
    for (bought, (status, code)) in (1..).zip([(503, "overloaded"), (429, "rate_limited")]) {
        for window in [&second, &first] {
            page.switch(window).await;
            page.visit_until(path.as_str().expect("an address"), "#buy", "Buy for").await;
        }
        stage(&page, u32::MAX, &problem(status, code, "none", 9)).await;
        page.click("#buy").await;
        page.until("a try", "window.purchases.length === 1").await;
        page.until_text("#buy", "Asking again").await;
        page.switch(&second).await;
        page.click_until("#buy", "#outcome", "It’s yours").await;
        page.switch(&first).await;
        page.run(COME_BACK).await;
        page.until_text("#outcome", "It’s yours").await;
        page.until("one key", ONE_KEY).await;
        assert_eq!(orders_of(&instance, BUYER).await.len(), bought, "{code}");
    }
    page.close().await;
}

/// Buyers who press twice, who load the page again while it waits, or whose connection comes back, do not have to press
/// again, and buy once.
#[tokio::test]
async fn a_purchase_goes_on_after_a_reload_and_after_a_lost_connection() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 9, "per_buyer_limit": 9 })).await;
    // Two presses in one go, and the page is gone before the answer.
    let press_twice =
        "const buy = document.getElementById('buy'); buy.click(); buy.click(); location.reload();";
    page.run(press_twice).await;
    // Whether the answer came before the page went or was asked for again after, it is known in
    // the end, and the key is thrown away.
    page.until_text("#stock", "8 of 9 left").await;
    page.until("a forgotten key", NO_KEY).await;
    page.reload_until("#mine", "You have 1 order of this item").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    // A new press, once the outcome is known, is a new purchase.
    page.click_until("#buy", "#stock", "7 of 9 left").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 2);
    // The stock may be told before the answer, and a purchase without one is sent again after the reload.
    page.until("a forgotten key", NO_KEY).await;
    page.reload_until("#buy", "Buy for").await;
    stage(&page, u32::MAX, &problem(503, "overloaded", "none", 9)).await;
    page.click_until("#buy", "#outcome", "Very busy right now").await;
    page.reload_until("#outcome", "It’s yours").await;
    page.until("a forgotten key", NO_KEY).await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 3);
    page.reload_until("#buy", "Buy for").await;
    page.offline(true).await;
    page.click_until("#buy", "#outcome", "Connection lost").await;
    page.offline(false).await;
    page.until_text("#outcome", "It’s yours").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 4);
    page.close_but_for(&["ERR_INTERNET_DISCONNECTED", "ERR_NETWORK_CHANGED"]).await;
}

/// Lets the page answer with `window.changeBuyer()`: another buyer is the one of this browser, as when another tab signs out
/// and in. `window.dueMs` is when a pause of at most two seconds is over.
async fn prepare_another_buyer(page: &Page, instance: &Instance, user: i64) {
    let change = "const [token, session] = arguments; window.changeBuyer = () => { \
           document.cookie = `seckill=${token}; path=/`; \
           localStorage.setItem('seckill.session', session); \
           dispatchEvent(new StorageEvent('storage', { key: 'seckill.session' })); \
           window.dueMs = performance.now() + 2000; };";
    page.run_with(change, signed_in(instance, user, Role::Buyer)).await;
}

/// Stages one answer that asks for another try, in whose pause another buyer signs in, and presses a button.
pub(super) async fn press_before_another_buyer(
    page: &Page,
    instance: &Instance,
    (button, start): (&str, &str),
    user: i64,
) {
    prepare_another_buyer(page, instance, user).await;
    let answer = problem(503, "overloaded", "none", 1);
    stage_at(page, start, 1, &format!("(setTimeout(window.changeBuyer, 100), {answer})")).await;
    page.click_until(button, "#account", &format!("user-{user}")).await;
    page.until("the end of the pause", "performance.now() > window.dueMs").await;
    let sent = page.run("return window.purchases.length").await;
    assert_eq!(sent, json!(1), "the purchase of the buyer before goes on");
    assert_eq!(orders_of(instance, user).await.len(), 0);
}

/// A purchase that waits for its next try is not sent with the cookie of the next buyer, who is not shown the answer to
/// the buyer before, either.
#[tokio::test]
async fn a_change_of_the_buyer_ends_what_is_under_way() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let of_item = ("#buy", "/api/seckill/");
    press_before_another_buyer(&page, &instance, of_item, BUYER + 1).await;
    page.until("no panel of the buyer before", "document.getElementById('outcome').hidden").await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    page.until("a key of each buyer", "new Set(window.purchases).size === 2").await;
    assert_eq!(orders_of(&instance, BUYER + 1).await.len(), 1);
    assert_eq!(orders_of(&instance, BUYER).await.len(), 0);
    page.until("no kept key", NO_KEY).await;

    let item = make_sale(&instance, json!({ "stock": 1, "offer_seconds": 600 })).await;
    assert_eq!(instance.buyer(1).buy("default", item).await.status, 201);
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_text("#waiting", "Wait for a unit").await;
    let keep_back = "const real = window.fetch; window.held = []; \
         window.fetch = async (path, options) => { \
           const answer = await real(path, options); \
           const joins = String(path).endsWith('/waiting') && options.method === 'POST'; \
           if (joins) await new Promise((go) => window.held.push(go)); \
           return answer; };";
    page.run(keep_back).await;
    page.click("#waiting .button").await;
    page.until("an answer that is kept back", "window.held.length === 1").await;
    prepare_another_buyer(&page, &instance, BUYER + 1).await;
    let watch = "window.changeBuyer(); window.seen = []; \
         const place = document.getElementById('waiting'); \
         new MutationObserver(() => window.seen.push(place.dataset.status)) \
           .observe(place, { attributes: true, attributeFilter: ['data-status'] });";
    page.run(watch).await;
    page.until_text("#account", &format!("user-{}", BUYER + 1)).await;
    page.run("window.held[0]()").await;
    let is_over =
        "document.querySelector('#waiting .button').getAttribute('aria-disabled') === 'false'";
    page.until("the end of the request", is_over).await;
    page.until_text("#waiting", "Wait for a unit").await;
    page.until("the place of nobody else", "!window.seen.includes('waiting')").await;
    page.close().await;
}

#[tokio::test]
async fn orders_and_an_account_go_with_their_buyer() {
    let (_shop, instance, item) = selling(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let order = order_id(&instance.buyer(BUYER).buy("default", item).await);
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, "/orders.html").await;
    page.until_text("#list", "Aurora").await;
    prepare_another_buyer(&page, &instance, BUYER + 1).await;
    page.run("window.changeBuyer()").await;
    page.until("no order of another buyer", "!document.getElementById('empty').hidden").await;
    page.visit(&format!("/order.html?id={order}")).await;
    page.until("no such order", "!document.getElementById('missing').hidden").await;
    // The page of an account goes with its buyer, too.
    page.visit("/account.html").await;
    prepare_another_buyer(&page, &instance, BUYER).await;
    page.run("window.changeBuyer()").await;
    page.until_text("#signed-in", &format!("user-{BUYER}")).await;
    // The orders of an item are not shown to the next buyer, either.
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until("the first order", "!document.getElementById('mine').hidden").await;
    page.run(KEEP_BACK).await;
    keep_back(&page, "/api/orders").await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    until_kept_back(&page).await;
    prepare_another_buyer(&page, &instance, BUYER + 1).await;
    page.run("window.changeBuyer()").await;
    page.until_text("#account", &format!("user-{}", BUYER + 1)).await;
    // The answer comes before that to a later question. The one to the next buyer is kept back.
    page.run("window.held[0](); return fetch('/api/items').then((answer) => answer.text())").await;
    let is_hidden = page.run("return document.getElementById('mine').hidden").await;
    assert_eq!(is_hidden, json!(true), "the orders of another buyer");
    // The 404 is a line of the console.
    page.close_but_for(&["/api/orders/"]).await;
}

/// After Back the page is shown as it was: the order may be paid since, and the buyer may have signed out, of which the
/// browser tells a page nothing that it has set aside.
#[tokio::test]
async fn a_page_that_comes_back_is_up_to_date() {
    let (_shop, instance) = Shop::open().await;
    let page = item_page(&instance, json!({ "stock": 5, "per_buyer_limit": 2 })).await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    let order = page.run("return document.querySelector('#outcome a').search.slice(4)").await;
    let order = order.as_str().expect("the id in the address of the order");
    instance.buyer(BUYER).step(order, "payment").await.expect_status(200);
    let come_back = "dispatchEvent(new PageTransitionEvent('pageshow', { persisted: true }));";
    page.run(come_back).await;
    page.until_text("#mine", "Paid").await;
    page.until("no panel", "document.getElementById('outcome').hidden").await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    page.run(&format!("localStorage.removeItem('seckill.session'); {come_back}")).await;
    page.until_text("#buy", "Sign in to buy").await;
    page.until("no panel", "document.getElementById('outcome').hidden").await;
    page.until("no name", "!document.getElementById('account').innerText.includes('user')").await;
    page.close().await;
}
