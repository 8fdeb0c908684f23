//! Buyers wait for a unit that comes back, and operators see it; with the keyboard, on a phone, and in
//! Chinese.

use super::*;

const BUYER: i64 = 77;

/// A sale of one unit that buyer 1 has, and for which buyer 2 waits; answers item and order.
async fn sold_sale(instance: &Instance) -> (i64, String) {
    let item = make_sale(instance, json!({ "stock": 1, "offer_seconds": 600 })).await;
    let order = order_id(&instance.buyer(1).buy("default", item).await);
    let waiting = format!("/api/items/{item}/waiting");
    instance.buyer(2).post(&waiting, &json!({})).await.expect_status(200);
    (item, order)
}

async fn cancel(instance: &Instance, buyer: i64, order: &str) {
    assert_eq!(instance.buyer(buyer).step(order, "cancellation").await.status, 200);
}

async fn leave(instance: &Instance, buyer: i64, item: i64) {
    let client = instance.buyer(buyer);
    let request = client.request(Method::DELETE, &format!("/api/items/{item}/waiting"));
    assert_eq!(request.send().await.expect("an answer").status(), 204);
}

/// Puts the keyboard's focus on an element.
async fn focus(page: &Page, css: &str) {
    page.run(&format!("document.querySelector(\"{css}\").focus()")).await;
}

#[tokio::test]
async fn a_buyer_waits_and_buys_the_unit_that_comes_back() {
    let (_shop, instance) = Shop::open().await;
    let (item, order) = sold_sale(&instance).await;
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, &format!("/item.html?id={item}")).await;
    page.until_text("#waiting", "Wait for a unit").await;
    // By the keyboard alone.
    focus(&page, "#waiting .button").await;
    page.press("\u{e007}").await;
    page.until_text("#waiting", "One buyer is in front of you").await;
    leave(&instance, 2, item).await;
    cancel(&instance, 1, &order).await;
    page.until_text("#waiting", "held for you").await;
    page.until("a countdown", "/\\d/.test(document.querySelector('.waiting-left').textContent)")
        .await;
    page.until_text("#buy", "Sold out").await;
    // The focus was on leaving the list; it moves to buying by itself.
    let on_buying = "document.activeElement.textContent.startsWith('Buy it')";
    page.until("the focus on buying", on_buying).await;
    page.press("\u{e007}").await;
    page.until_text("#outcome", "It’s yours").await;
    page.until("no offer any more", "document.getElementById('waiting').hidden").await;
    let orders = orders_of(&instance, BUYER).await;
    assert_eq!((orders.len(), &orders[0]["strategy"]), (1, &json!("waiting-list")));
    page.close().await;
}

/// While the page asks for the place again, the place and the focus stay, however late the answer comes.
#[tokio::test]
async fn a_late_answer_keeps_the_focus() {
    let (_shop, instance) = Shop::open().await;
    let (item, _) = sold_sale(&instance).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    // The page draws itself again each second, so once while an answer is late.
    page.before_scripts(
        "const sent = window.fetch; window.answered = 0; \
         window.fetch = async (path, options) => { \
           const answer = await sent(path, options); \
           if (!String(path).endsWith('/waiting') || options?.method === 'POST') return answer; \
           await new Promise((done) => setTimeout(done, 2500)); \
           window.answered += 1; \
           return answer; }; \
         window.lost = 0; \
         setInterval(() => { if (document.activeElement === document.body) window.lost += 1; }, 20);",
    )
    .await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until("the first answer", "window.answered === 1").await;
    page.click_until("#waiting .button", "#waiting", "One buyer is in front of you").await;
    page.run("window.lost = 0").await;
    page.until("a later answer", "window.answered === 2").await;
    let lost = page.run("return window.lost").await;
    assert_eq!(lost, json!(0), "looks that found the focus nowhere");
    page.close().await;
}

#[tokio::test]
async fn a_buyer_declines_on_a_phone_and_in_chinese() {
    let (_shop, instance) = Shop::open().await;
    let (item, order) = sold_sale(&instance).await;
    let page =
        Page::of_buyer(&instance, CHINESE_PHONE, BUYER, &format!("/item.html?id={item}")).await;
    page.until_text("#waiting", "候补").await;
    page.click_until("#waiting .button", "#waiting", "您前面还有 1 位买家").await;
    page.click_until("#waiting .button.quiet", "#waiting", "加入候补名单").await;
    page.click_until("#waiting .button", "#waiting", "您前面还有 1 位买家").await;
    leave(&instance, 2, item).await;
    page.reload_until("#waiting", "您排在第一位").await;
    cancel(&instance, 1, &order).await;
    page.until_text("#waiting", "已为您保留").await;
    page.click("#waiting .button.quiet").await;
    page.until("a unit for everybody", "document.getElementById('item').dataset.state === 'open'")
        .await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 0);
    page.close().await;
}

#[tokio::test]
async fn an_operator_sees_the_line_and_sets_a_shared_limit() {
    let (_shop, instance) = Shop::open().await;
    let (item, order) = sold_sale(&instance).await;
    cancel(&instance, 1, &order).await;
    instance.buyer(3).post(&format!("/api/items/{item}/waiting"), &json!({})).await;
    let page = Page::of_operator(&instance, DESKTOP, &format!("/console.html?id={item}")).await;
    page.until_text("#figure-waiting", "1, 1").await;
    page.fill("#group-name", "Lamps").await;
    page.click_until("#group-form button[type='submit']", "#group-result", "Created: Lamps").await;
    page.run("document.getElementById('edit-group').selectedIndex = 1").await;
    page.fill("#edit-offer", "120").await;
    page.click_until("#waiting-form button[type='submit']", "#waiting-result", "Done").await;
    page.assert_accessible().await;
    page.click_until("#audit", "#audit-verdict", "Clean").await;
    let seen = instance.stranger().get(&format!("/api/items/{item}")).await;
    seen.assert_fields(200, json!({ "offer_seconds": 120 }));
    assert_eq!(seen.json["limit_group"]["name"], "Lamps");
    page.visit(&format!("/item.html?id={item}")).await;
    page.until_text("#group", "2 of all items of “Lamps” together").await;
    page.close().await;
}
