//! A buyer's way through the shop.

use super::*;

const BUYER: i64 = 77;

#[tokio::test]
async fn a_buyer_buys() {
    let (_shop, instance, item) = selling(json!({ "stock": 3 })).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_until("/", "#list-open", "3 of 3 left").await;
    page.click_until(".card h3 a", "#buy", "Sign in to buy").await;
    page.click("#buy").await;

    // Nobody has an account at first; making one leads back to where the buyer was.
    page.until_text("#back", "you return to the page where you were").await;
    page.run("document.getElementById('mode-up').click()").await;
    page.until_text("#heading", "Create an account").await;
    page.fill("#username", "ada").await;
    page.fill("#password", "short").await;
    page.click_until("#submit", "#password-error", "at least 8 characters").await;
    page.fill("#password", "correct horse").await;
    page.click("#submit").await;
    page.until("the way back", &format!("location.search === '?id={item}'")).await;
    page.until_text("#buy", "Buy for $49.00").await;

    page.click_until("#buy", "#outcome", "It’s yours").await;
    page.until_text("#stock", "2 of 3 left").await;
    page.click_until("#outcome a", "#status", "Held for you").await;
    page.click_until("#pay", "#status", "Paid").await;
    page.visit_until("/orders.html", "#list", "Aurora desk lamp").await;
    page.until_text("#list", "Paid").await;
    // The password that was too short is a refusal, and a refusal is a line of the console.
    page.close_but_for(&["/api/users - Failed to load resource"]).await;
}

#[tokio::test]
async fn two_windows_see_the_stock_fall_and_that_it_is_sold_out() {
    let (_shop, instance, item) = selling(json!({ "stock": 2 })).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    let path = format!("/item.html?id={item}");
    page.visit_as(&instance, BUYER, Role::Buyer, &path).await;
    page.until_text("#stock", "2 of 2 left").await;
    let (first, second) = page.second_window().await;
    page.visit_until(&path, "#stock", "2 of 2 left").await;

    page.click_until("#buy", "#outcome", "It’s yours").await;
    for window in [&first, &second] {
        page.switch(window).await;
        page.until_text("#stock", "1 of 2 left").await;
    }
    let order = order_id(&instance.buyer(2).buy("default", item).await);
    for window in [&first, &second] {
        page.switch(window).await;
        page.until_text("#stock", "None of 2 left").await;
        page.until_text("#state", "Sold out").await;
        page.until_text("#buy", "Sold out").await;
    }

    // What comes back wakes the button up. Whoever pressed too late is told what became of it.
    instance.buyer(2).step(&order, "cancellation").await.expect_status(200);
    page.until_text("#stock", "1 of 2 left").await;
    page.until_text("#state", "On sale").await;
    page.close().await;
}

/// The clock of the buyer opens no sale early, and none late, and ends no session and no ticket: the service decides.
#[tokio::test]
async fn a_sale_opens_in_time_by_any_clock() {
    let (_shop, instance, item) = selling(json!({ "stock": 3, "waiting_room": true })).await;
    let page = Page::open(instance.addr, PHONE).await;
    // A day ahead: by this clock all sales began long ago.
    page.before_scripts("const now = Date.now; Date.now = () => now() + 86400000;").await;
    page.visit_until(&format!("/item.html?id={item}"), "#buy", "Sign in to buy").await;
    page.click_until("#buy", "#heading", "Sign in").await;
    page.run("document.getElementById('mode-up').click()").await;
    page.fill("#username", "ada").await;
    page.fill("#password", "correct horse").await;
    page.click("#submit").await;
    page.until_text("#buy", "Buy for").await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    let item = make_sale(&instance, json!({ "starts_at": in_seconds(600) })).await;
    page.visit(&format!("/item.html?id={item}")).await;
    page.until_text("#buy", "Opens in 00:0").await;
    page.until_text("#state", "Upcoming").await;
    let item = make_sale(&instance, json!({ "stock": 2, "starts_at": in_seconds(6) })).await;
    page.visit(&format!("/item.html?id={item}")).await;
    // On a slow machine it may be open already; the press that counts comes after.
    page.until_text("#buy", "Buy for").await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    page.close().await;
}

/// While a computer sleeps, the steady clock of a browser may stand still, and nothing tells a page that stays in view.
#[tokio::test]
async fn a_computer_that_slept_shows_the_time_of_the_shop() {
    let (_shop, instance, _) = selling(json!({ "starts_at": in_seconds(7_200) })).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit_until("/", "#hero-clock", "01:5").await;
    // Answers are slower than before the sleep, so that none is a better sample for its speed.
    let sleep = "const steady = performance.now.bind(performance); \
         performance.now = () => steady() - 3600000; \
         const sent = window.fetch; window.answers = 0; \
         window.fetch = async (...request) => { \
           const answer = await sent(...request); \
           await new Promise((go) => setTimeout(go, 300)); \
           window.answers += 1; \
           return answer; };";
    page.run(sleep).await;
    page.until("two answers", "window.answers > 1").await;
    page.until_text("#hero-clock", "01:5").await;
    page.close().await;
}

/// On the page of the order, and on that of the item, which no longer names a time to pay.
#[tokio::test]
async fn the_hold_runs_out_before_the_buyers_eyes() {
    let (_shop, instance, item) = selling(json!({ "stock": 1, "hold_seconds": 4 })).await;
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, &format!("/item.html?id={item}")).await;
    page.until_text("#buy", "Buy for").await;
    let (first, second) = page.second_window().await;
    page.switch(&first).await;
    page.click("#buy").await;
    let bought = until("the order", || orders_of(&instance, BUYER), |all| all.len() == 1).await;
    page.switch(&second).await;
    page.visit(&format!("/order.html?id={}", bought[0]["id"].as_str().expect("an id"))).await;
    page.until_text("#status", "The hold ran out").await;
    page.switch(&first).await;
    page.until_text("#outcome", "Time is up").await;
    page.switch(&second).await;
    instance.until_available(item, 1).await;
    // Late, but while it lasts.
    page.click_until("#pay", "#status", "Paid").await;
    page.close().await;
}

/// A list of orders that was read before a payment may come after its event.
#[tokio::test]
async fn a_late_list_of_orders_takes_no_payment_back() {
    let (_shop, instance, item) = selling(json!({ "stock": 5 })).await;
    let order = order_id(&instance.buyer(BUYER).buy("default", item).await);
    let page = Page::open(instance.addr, DESKTOP).await;
    let tell = "const Stream = window.EventSource; \
         window.EventSource = class extends Stream { \
           constructor(path) { \
             super(path); this.addEventListener('alive', () => (window.isAlive = true)); } };";
    page.before_scripts(tell).await;
    page.visit_as(&instance, BUYER, Role::Buyer, "/orders.html").await;
    page.until_text("#list", "Unpaid").await;
    page.until("the stream", "window.isAlive").await;
    // The next list comes late. It has an order more, which shows that the page has read it.
    let keep_back = "const sent = window.fetch; window.held = []; \
         window.fetch = async (path, options) => { \
           const answer = await sent(path, options); \
           if (path !== '/api/orders') return answer; \
           const body = await answer.json(); \
           body.orders.push({ ...body.orders[0], id: 'late' }); \
           await new Promise((go) => window.held.push(go)); \
           return new Response(JSON.stringify(body)); }; \
         document.dispatchEvent(new Event('visibilitychange'));";
    page.run(keep_back).await;
    page.until("a list that is kept back", "window.held.length > 0").await;
    assert_eq!(instance.buyer(BUYER).step(&order, "payment").await.status, 200);
    let row = format!("#list .row:has([href$='{order}']) .chip");
    page.until_text(&row, "Paid").await;
    page.run("window.held.forEach((go) => go())").await;
    page.until_there("#list [href$='late']").await;
    let state = format!("return document.querySelector({}).dataset.state", json!(row));
    assert_eq!(page.run(&state).await, json!("paid"));
    page.close().await;
}
