//! A cart: items are put aside in the browser, reserved all or none, held, extended, paid and given back.

use super::access::walk_to;
use super::outcomes::{COME_BACK, press_before_another_buyer, problem, stage_at};
use super::*;

const BUYER: i64 = 83;

/// A lamp and a kettle.
async fn sales(instance: &Instance) -> [i64; 2] {
    let lamp = json!({ "stock": 5, "per_buyer_limit": 3, "return_seconds": 600 });
    let kettle = json!({
        "name": "Copper kettle", "image_url": "/img/goods/kettle.svg", "stock": 5, "return_seconds": 600,
    });
    [make_sale(instance, lamp).await, make_sale(instance, kettle).await]
}

/// Opens the cart of the buyer with a unit of each item in it.
async fn open_cart(instance: &Instance, look: Look, items: &[i64]) -> Page {
    let page = Page::of_buyer(instance, look, BUYER, "/404.html").await;
    fill_cart(&page, items).await;
    page
}

async fn fill_cart(page: &Page, items: &[i64]) {
    let lines: Vec<_> =
        items.iter().map(|item| json!({ "item_id": item, "quantity": 1 })).collect();
    let put = "localStorage.setItem('seckill.cart', arguments[0])";
    page.run_with(put, vec![json!(json!(lines).to_string())]).await;
    page.visit_until("/cart.html", "#reserve", "Reserve all for").await;
}

#[tokio::test]
async fn a_cart_is_reserved_extended_paid_and_given_back() {
    let (_shop, instance) = Shop::open().await;
    let [lamp, kettle] = sales(&instance).await;
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, "/").await;
    page.until_text("#list-open", "Add to cart").await;
    page.click(&format!("[data-card='item-{kettle}'] .to-cart")).await;
    page.until_text("#cart-link", "Cart (1)").await;
    page.visit(&format!("/item.html?id={lamp}")).await;
    page.click_until("#to-cart button", "#to-cart", "In the cart: 1").await;
    page.until_text("#cart-link", "Cart (2)").await;
    page.click_until("#cart-link", "#lines", "Copper kettle").await;
    page.until_text("#total", "$98.00").await;
    page.click(&format!("[data-item='{lamp}'] .stepper button:last-child")).await;
    page.until_text("#total", "$147.00").await;
    page.click_until("#reserve", "#status", "Held for you").await;
    page.until_text("#lines", "2 × Aurora desk lamp").await;
    page.click_until("#extend", "#extended", "extended by 2 min").await;
    page.until("no second extension", "document.getElementById('extend').hidden").await;
    page.click_until("#pay", "#status", "Paid").await;
    page.click_until("#return", "#cancel-dialog", "your money is paid back").await;
    page.click_until("#cancel-yes", "#status", "Given back").await;
    page.visit_until("/cart.html", "#empty", "Nothing is in your cart").await;
    for item in [lamp, kettle] {
        let stock = instance.stranger().get(&format!("/api/items/{item}")).await.json;
        assert_eq!(stock["available"], 5);
    }
    page.close().await;
}

#[tokio::test]
async fn a_refused_line_is_named_and_nothing_is_reserved() {
    let (_shop, instance) = Shop::open().await;
    let [lamp, kettle] = sales(&instance).await;
    // The page does not know that the buyer has the limit of one already.
    assert_eq!(instance.buyer(BUYER).buy("default", kettle).await.status, 201);
    let small = Look { width: 360, height: 740, dark: true, ..PHONE };
    let page = open_cart(&instance, small, &[lamp, kettle]).await;
    page.click("#reserve").await;
    let line = format!("[data-item='{kettle}']");
    page.until_text(&format!("{line} .cart-reason"), "You have reached the limit").await;
    page.until_text("#outcome", "Copper kettle: You have reached the limit").await;
    page.assert_suits_everyone("a cart that is refused").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1, "nothing is reserved");
    // Without that line the rest can be had.
    page.click(&format!("{line} .row-remove")).await;
    page.until("the refusal to go", "document.getElementById('outcome').hidden").await;
    page.click_until("#reserve", "#status", "Held for you").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 2);
    page.close_but_for(&["/api/reservations - Failed to load resource"]).await;
}

/// The keyboard is enough to change and reserve the cart, to extend the hold and to pay.
#[tokio::test]
async fn a_cart_has_a_sum_for_each_currency_and_an_order_has_one() {
    let (_shop, instance, lamp) = selling(json!({ "per_buyer_limit": 3 })).await;
    let yen = json!({ "name": "Copper kettle", "price_cents": 3_900, "currency": "JPY" });
    let kettle = make_sale(&instance, yen).await;
    let page = open_cart(&instance, DESKTOP, &[lamp, kettle]).await;
    page.until_text("#total", "$49.00 + ¥3,900").await;
    page.click("#reserve").await;
    let line = format!("[data-item='{kettle}'] .cart-reason");
    page.until_text(&line, "These items have different currencies").await;
    page.run("document.getElementById('main').focus()").await;
    walk_to(&page, &format!("[data-item='{lamp}'] .row-remove")).await;
    page.press(Key::Enter).await;
    let next = format!("document.activeElement.matches(\"[data-item='{kettle}'] .row-remove\")");
    page.until("the focus on the next line", &next).await;
    page.until_text("#reserve", "Reserve all for ¥3,900").await;
    for (button, shown, words) in [
        ("#reserve", "#status", "Held for you"),
        ("#extend", "#extended", "extended by"),
        ("#pay", "#status", "Paid"),
    ] {
        walk_to(&page, button).await;
        page.press(Key::Enter).await;
        page.until_text(shown, words).await;
    }
    page.close_but_for(&["/api/reservations - Failed to load resource"]).await;
}

/// What is added to the cart while a reservation has no answer is neither lost nor reserved with it. A cart that waits for
/// its next try is not reserved with the cookie of the next buyer. Another tab of the same buyer reserves the same one,
/// although nothing has happened yet.
#[tokio::test]
async fn a_cart_whose_answer_is_lost_is_reserved_once() {
    const NEXT: i64 = BUYER + 1;
    let (_shop, instance) = Shop::open().await;
    let items = sales(&instance).await;
    let [lamp, kettle] = items;
    let page = open_cart(&instance, DESKTOP, &items).await;
    // Two presses in one go, and the page is gone before the answer.
    let press_twice = "const reserve = document.getElementById('reserve'); \
         reserve.click(); reserve.click(); location.reload();";
    page.run(press_twice).await;
    page.until("the order", "location.pathname === '/order.html'").await;
    page.until_text("#status", "Held for you").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    let sent = json!({
        "key": "0a0b0c0d-0000-4000-8000-000000000000", "lines": [{ "item_id": lamp, "quantity": 1 }],
        "madeAtMs": 0, "uncertain": true,
    });
    let cart = json!([{ "item_id": lamp, "quantity": 2 }, { "item_id": kettle, "quantity": 1 }]);
    let put = "localStorage.setItem(`seckill.reservation.${arguments[0]}`, arguments[1]); \
         localStorage.setItem('seckill.cart', arguments[2]);";
    page.run_with(put, vec![json!(BUYER), json!(sent.to_string()), json!(cart.to_string())]).await;
    page.visit_until("/cart.html", "#outcome", "had no answer yet").await;
    page.until_text("#total", "$147.00").await;
    page.click_until("#reserve", "#status", "Held for you").await;
    page.until_text("#amount", "$49.00").await;
    page.visit_until("/cart.html", "#total", "$98.00").await;
    page.until_text("#lines", "Copper kettle").await;
    page.until_text("#lines", "Aurora desk lamp").await;

    let of_cart = ("#reserve", "/api/reservations");
    press_before_another_buyer(&page, &instance, of_cart, NEXT).await;
    page.click_until("#reserve", "#status", "Held for you").await;
    assert_eq!(orders_of(&instance, NEXT).await.len(), 1);
    assert_eq!(orders_of(&instance, BUYER).await.len(), 2);
    fill_cart(&page, &items[..1]).await;
    let (first, second) = page.second_window().await;
    page.visit_until("/cart.html", "#reserve", "Reserve all for").await;
    page.switch(&first).await;
    stage_at(&page, "/api/reservations", u32::MAX, &problem(503, "contended", "none", 9)).await;
    page.click_until("#reserve", "#reserve", "Asking again").await;
    page.switch(&second).await;
    page.click_until("#reserve", "#status", "Held for you").await;
    page.switch(&first).await;
    page.run(COME_BACK).await;
    page.until_text("#status", "Held for you").await;
    assert_eq!(orders_of(&instance, NEXT).await.len(), 2);
    page.close().await;
}
