//! Everyone can use it: by keyboard, on a phone, in the dark, in Chinese, with a screen reader, on
//! a slow line.

use super::*;

const BUYER: i64 = 79;
/// What the page of sales may weigh as it comes over the line, in bytes, pictures included.
const SHOP_BYTES_MAX: u64 = 150_000;

#[tokio::test]
async fn a_keyboard_is_enough_to_buy_and_pay() {
    let (_shop, instance, _) = selling(json!({})).await;
    let page = Page::of_buyer(&instance, DESKTOP, BUYER, "/").await;
    page.until_text("#list-open", "Aurora").await;
    // Tab goes to the way past the navigation first.
    page.press(Key::Tab).await;
    page.until("the skip link", "document.activeElement.classList.contains('skip')").await;
    walk_to(&page, ".card h3 a").await;
    page.press(Key::Enter).await;
    page.until_text("#buy", "Buy for").await;
    walk_to(&page, "#buy").await;
    page.press(Key::Enter).await;
    page.until_text("#outcome", "It’s yours").await;
    // The focus moves to the next action.
    page.until("the focus on paying", "document.activeElement.closest('#outcome') !== null").await;
    page.press(Key::Enter).await;
    page.until_text("#status", "Held for you").await;
    walk_to(&page, "#pay").await;
    page.press(Key::Enter).await;
    page.until_text("#status", "Paid").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    page.close().await;
}

/// Presses Tab until the focus is there and visible.
pub(super) async fn walk_to(page: &Page, css: &str) {
    for _ in 0..40 {
        let there = format!("return document.activeElement.matches({})", json!(css));
        if page.run(&there).await == json!(true) {
            let outlined = "const shown = (e) => getComputedStyle(e).outlineStyle !== 'none'; \
                 const e = document.activeElement; return shown(e) || shown(e.closest('.card') ?? e)";
            assert_eq!(page.run(outlined).await, json!(true), "{css} shows no focus");
            return;
        }
        page.press(Key::Tab).await;
    }
    panic!("no way to {css} by keyboard");
}

#[tokio::test]
async fn every_page_is_accessible_fits_a_phone_and_keeps_its_console_clean() {
    let (_shop, instance, item) = selling(json!({ "stock": 20 })).await;
    let order = instance.buyer(1).buy("default", item).await.json["id"].clone();
    let order = order.as_str().expect("an id").to_owned();
    let paths = format!(
        "index=/ item=/item.html?id={item} order=/order.html?id={order} orders=/orders.html cart=/cart.html \
         console=/console.html lab=/lab.html account=/account.html signin=/signin.html missing=/404.html book=/book/ \
         play=/play.html verify=/verify.html"
    );
    let phone = Look { dark: true, ..PHONE };
    let chinese = Look { language: "zh-CN", ..DESKTOP };
    let mut looks = vec![("light", DESKTOP), ("phone-dark-chinese", CHINESE_PHONE)];
    if is_whole() {
        looks.extend([("phone-dark", phone), ("chinese", chinese)]);
    }
    let mut found = Vec::new();
    for (name, look) in looks {
        let page = Page::open(instance.addr, look).await;
        for (what, path) in paths.split(' ').filter_map(|page| page.split_once('=')) {
            if what == "signin" {
                page.visit("/404.html").await;
                page.run("localStorage.clear(); document.cookie = 'seckill=; max-age=0; path=/'")
                    .await;
                page.visit(path).await;
            } else if matches!(what, "book" | "play" | "verify") {
                page.visit_elsewhere(&format!("http://{}{path}", instance.addr)).await;
            } else if what == "cart" {
                let line = json!([{ "item_id": item, "quantity": 1 }]).to_string();
                let put = "localStorage.setItem('seckill.cart', arguments[0])";
                page.run_with(put, vec![json!(line)]).await;
                page.visit(path).await;
            } else if what == "index" {
                page.visit_as(&instance, 1, Role::Admin, path).await;
            } else {
                page.visit(path).await;
            }
            settled(&page, what).await;
            page.shot(&format!("{name}-{what}")).await;
            if !page.fits().await {
                found.push(format!("{name} {what}: wider than the window"));
            }
            let violations = page.violations().await;
            found.extend(violations.into_iter().map(|line| format!("{name} {what}: {line}")));
        }
        page.close().await;
    }
    assert_eq!(found, Vec::<String>::new());
}

/// Waits until a page has what it shows.
async fn settled(page: &Page, what: &str) {
    let expression = match what {
        "index" => "document.querySelector('#list-open .card')",
        "item" => "!document.querySelector('#item.loading')",
        "order" => {
            "!document.querySelector('#order.loading') && document.querySelector('#picture img')"
        }
        "orders" => "document.querySelector('#list .row img')",
        "cart" => "document.querySelector('#lines .row img')",
        "console" => {
            "document.querySelector('#charts path.line') && document.querySelector('#jobs li')"
        }
        "lab" => "document.querySelector('#gallery li')",
        "play" | "verify" => "'ready' in document.documentElement.dataset",
        _ => "true",
    };
    page.until(what, expression).await;
    page.until("the pictures", "[...document.images].every((image) => image.complete)").await;
}

#[tokio::test]
async fn the_language_is_the_browsers_until_the_reader_chooses() {
    let (_shop, instance, _) = selling(json!({})).await;
    let page = Page::open(instance.addr, Look { language: "zh-TW,zh", ..DESKTOP }).await;
    page.visit_until("/", "nav", "我的订单").await;
    page.until("the language's tag", "document.documentElement.lang === 'zh-CN'").await;
    page.until_text("#list-open", "剩余").await;
    page.click_until(".foot-link", "nav", "My orders").await;
    page.until("the language's tag", "document.documentElement.lang === 'en'").await;
    page.visit_until("/signin.html", "#heading", "Sign in").await;
    page.close().await;
}

#[tokio::test]
async fn the_page_of_sales_is_light() {
    let (_shop, instance) = Shop::open().await;
    for picture in ["lamp", "keyboard", "kettle"] {
        make_sale(&instance, json!({ "image_url": format!("/img/goods/{picture}.svg") })).await;
    }
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit("/").await;
    settled(&page, "index").await;
    let measure = "const all = [...performance.getEntriesByType('navigation'), \
           ...performance.getEntriesByType('resource')]; \
         const paint = performance.getEntriesByName('first-contentful-paint')[0]; \
         return { bytes: all.reduce((sum, { transferSize }) => sum + transferSize, 0), \
           files: all.length, paint_ms: paint ? paint.startTime : null, \
           foreign: all.filter(({ name }) => !name.startsWith(location.origin)).length }";
    let measured = page.run(measure).await;
    let bytes = measured["bytes"].as_u64().expect("a number");
    assert!(bytes > 10_000 && bytes < SHOP_BYTES_MAX, "{measured}");
    assert_eq!(measured["foreign"], 0, "{measured}");
    // The second time nothing but the answers' heads comes over the line.
    page.reload().await;
    settled(&page, "index").await;
    let again = page.run(measure).await["bytes"].as_u64().expect("a number");
    assert!(again < bytes / 2, "{again} of {bytes} bytes again");
    page.close().await;
}
