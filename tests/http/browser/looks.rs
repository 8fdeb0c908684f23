//! The states of a line, a draw and an order, on a narrow phone in the dark without motion and on a desk, in both
//! languages: nothing is wider than its window, nothing moves, and axe-core finds nothing. The pictures are for the eye.
//! Each language has one of the two in `make test`, and both in `make test-all`.

use super::*;

const BUYERS: [i64; 3] = [77, 78, 79];
/// The states of a draw, as its panel names them.
const ENTERED: &str = "#draw[data-status='entered']";

/// Loads the page again in this language.
async fn choose(page: &Page, language: &str) {
    let choose = "localStorage.setItem('seckill.language', JSON.stringify(arguments[0]))";
    page.run_with(choose, vec![json!(language)]).await;
    page.reload().await;
}

/// Looks at the state in which `css` is there.
async fn look(page: &Page, name: &str, css: &str) {
    for language in ["zh", "en"] {
        choose(page, language).await;
        page.until_there(css).await;
        for (width, dark, first) in [(360, true, "zh"), (1280, false, "en")] {
            if language != first && !is_whole() {
                continue;
            }
            page.look_as(width, dark).await;
            let wide = "return [...document.querySelectorAll('main *')].filter((one) => \
                one.getBoundingClientRect().right > window.innerWidth + 1).map((one) => one.outerHTML)";
            let moves = "return document.getAnimations().length";
            let name = format!("look-{name}-{language}-{width}");
            page.shot(&name).await;
            assert_eq!(page.run(wide).await, json!([]), "{name}");
            assert!(!dark || page.run(moves).await == json!(0), "{name} moves");
            assert_eq!(page.violations().await, Vec::<String>::new(), "{name}");
        }
    }
}

async fn post(instance: &Instance, buyer: i64, path: &str) -> Value {
    let answer = instance.buyer(buyer).post(path, &json!({})).await;
    assert!([200, 201].contains(&answer.status), "{}", answer.text);
    answer.json
}

#[tokio::test]
async fn every_state_of_a_draw_and_its_order_can_be_looked_at() {
    let (_shop, instance) = draw::shop().await;
    let upcoming =
        json!({ "mode": "draw", "starts_at": in_seconds(900), "draw_closes_at": in_seconds(1800) });
    let upcoming = make_sale(&instance, upcoming).await;
    let open = json!({ "mode": "draw", "draw_closes_at": in_seconds(900), "draw_party_max": 4 });
    let open = make_sale(&instance, open).await;
    let page = Page::open(instance.addr, DESKTOP).await;
    page.visit(&format!("/item.html?id={upcoming}")).await;
    look(&page, "draw-upcoming", "#draw[data-status='upcoming']").await;
    page.visit(&format!("/item.html?id={open}")).await;
    look(&page, "draw-stranger", "#draw[data-status='open']").await;
    page.visit_as(&instance, BUYERS[0], Role::Buyer, &format!("/item.html?id={open}")).await;
    look(&page, "draw-open", "#draw[data-status='open']").await;
    page.click("#draw .button.quiet").await;
    page.until_there(ENTERED).await;
    look(&page, "draw-friends", ENTERED).await;

    let entered =
        make_sale(&instance, json!({ "mode": "draw", "draw_closes_at": in_seconds(900) })).await;
    post(&instance, BUYERS[0], &format!("/api/items/{entered}/entry")).await;
    page.visit(&format!("/item.html?id={entered}")).await;
    look(&page, "draw-entered", ENTERED).await;
    page.visit_as(&instance, 1, Role::Admin, &format!("/console.html?id={entered}")).await;
    look(&page, "console-draw-open", "#draw:not([hidden])").await;

    let closing = json!({ "stock": 1, "mode": "draw", "draw_closes_at": in_seconds(6) });
    let item = make_sale(&instance, closing).await;
    for buyer in BUYERS {
        post(&instance, buyer, &format!("/api/items/{item}/entry")).await;
    }
    page.visit_as(&instance, BUYERS[0], Role::Buyer, &format!("/item.html?id={item}")).await;
    page.until_there("#draw[data-status='placed']").await;
    let (mut winner, mut loser) = (0, 0);
    for buyer in BUYERS {
        let entry = instance.buyer(buyer).get(&format!("/api/items/{item}/entry")).await.json;
        match entry["place"].as_u64() {
            Some(1) => winner = buyer,
            Some(3) => loser = buyer,
            _ => {}
        }
    }
    let path = format!("/item.html?id={item}");
    page.visit_as(&instance, loser, Role::Buyer, &path).await;
    look(&page, "draw-waits", "#waiting[data-status='waiting']").await;
    page.visit_as(&instance, winner, Role::Buyer, &path).await;
    look(&page, "draw-won", "#waiting[data-status='offered']").await;
    page.click("#waiting .button").await;
    page.until_there("#outcome[data-tone='good']").await;
    let order = orders_of(&instance, winner).await[0]["id"].clone();
    page.visit(&format!("/order.html?id={}", order.as_str().expect("an id"))).await;
    look(&page, "order", "#order:not(.loading)").await;
    page.visit_as(&instance, loser, Role::Buyer, &path).await;
    look(&page, "draw-lost", "#draw[data-status='placed']").await;
    page.visit_elsewhere(&format!("http://{}/verify.html", instance.addr)).await;
    look(&page, "draw-verify", "html[data-ready] #form").await;
    page.visit_as(&instance, 1, Role::Admin, &format!("/console.html?id={item}")).await;
    look(&page, "console-draw-over", "#draw:not([hidden])").await;
    for (language, worth) in [("zh", "不是证明"), ("en", "not a proof")] {
        choose(&page, language).await;
        page.until_text("#draw-facts", "3").await;
        page.until_text("#draw-facts", worth).await;
    }
    page.close().await;
}

#[tokio::test]
async fn every_state_of_a_line_can_be_looked_at() {
    let (_shop, instance) = Shop::open_with(|config| {
        let room = &mut config.waiting_room;
        (room.per_second, room.silent_seconds) = (1, 3_000);
    })
    .await;
    let starts_at = in_seconds(250);
    let sale =
        json!({ "stock": 9, "per_buyer_limit": 2, "waiting_room": true, "starts_at": starts_at });
    let item = make_sale(&instance, sale).await;
    let (ticket, edit) = (format!("/api/items/{item}/ticket"), format!("/api/admin/items/{item}"));
    for buyer in 1..=20 {
        post(&instance, buyer, &ticket).await;
    }
    let page =
        Page::of_buyer(&instance, DESKTOP, BUYERS[0], &format!("/item.html?id={item}")).await;
    look(&page, "line-before", "#buy:not([aria-disabled='true'])").await;
    page.click("#buy").await;
    page.until_there("#outcome .line-facts").await;
    look(&page, "line-early", "#outcome .line-facts").await;
    // Who leaves has no place, and may come back.
    page.click("#outcome button").await;
    page.until("no panel", "document.getElementById('outcome').hidden").await;
    assert_eq!(post(&instance, 1, &ticket).await["people"], 20);
    page.click("#buy").await;
    page.until_there("#outcome .line-facts").await;
    let pause = async |paused: bool| {
        instance.admin().patch(&edit, &json!({ "paused": paused })).await.expect_status(200);
    };
    pause(true).await;
    instance.clock.shift(Duration::seconds(251));
    // With a number there is one fact more.
    page.until_there("#outcome .line-facts div:nth-child(4)").await;
    look(&page, "line-paused", "#outcome .line-facts").await;
    // A page that is loaded again is still in line, and so is a second one. Both buy one and the same order.
    let (first, _) = page.second_window().await;
    page.visit(&format!("/item.html?id={item}")).await;
    page.until_there("#outcome .line-facts").await;
    pause(false).await;
    instance.clock.shift(Duration::seconds(3_001));
    // The clock of the ledger stays, so the hold is over at once for these pages.
    page.until_there("#outcome [href^='/order.html']").await;
    page.switch(&first).await;
    page.until_there("#outcome [href^='/order.html']").await;
    assert_eq!(orders_of(&instance, BUYERS[0]).await.len(), 1);
    page.close().await;
}
