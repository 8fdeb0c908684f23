//! The shop over plain http from another machine: there a browser has no `crypto.subtle`, no `randomUUID`, no locks and no
//! clipboard.

use super::*;

const BUYER: i64 = 77;
/// What Chromium says there of a header that is good for https.
const IGNORED: &str = "The Cross-Origin-Opener-Policy header has been ignored";
/// A name that is neither `localhost` nor an address of the loopback, so browsers do not trust it.
const FAR: Look = Look { host: Some("shop.example"), ..DESKTOP };

/// Makes sure that the browser does not trust the address: otherwise the test would show nothing.
async fn assert_far(page: &Page) {
    let missing = "return [window.isSecureContext, crypto.subtle, crypto.randomUUID, navigator.locks, \
         navigator.clipboard].map((it) => it === undefined || it === false)";
    assert_eq!(page.run(missing).await, json!([true, true, true, true, true]));
}

/// The proof of work of a waiting room is made, and the unit is bought and paid; live pages go on, a purchase has a key of
/// its own, and the game's link is copied.
#[tokio::test]
async fn a_buyer_proves_work_and_buys() {
    let (_shop, instance) = Shop::open_with(|config| {
        config.http.hosts = "shop.example".to_owned();
        let room = &mut config.waiting_room;
        (room.per_second, room.inside_max, room.proof_bits_max, room.silent_seconds) =
            (1, 1, 12, 300);
    })
    .await;
    let sale = json!({ "stock": 30, "waiting_room": true, "hold_seconds": 3_600 });
    let item = make_sale(&instance, sale).await;
    // One is inside, and others stand in front, so that a turn costs a proof.
    for buyer in 1..=12 {
        let place = format!("/api/items/{item}/ticket");
        assert_eq!(instance.buyer(buyer).post(&place, &json!({})).await.status, 200);
    }
    let page = Page::open(instance.addr, FAR).await;
    page.before_scripts(
        "window.proofs = 0; const send = window.fetch; window.fetch = (address, options) => { \
         if (String(options?.body).includes('altcha')) window.proofs += 1; return send(address, options); };",
    )
    .await;
    page.visit_as(&instance, BUYER, Role::Buyer, &format!("/item.html?id={item}")).await;
    assert_far(&page).await;
    page.until_text("#buy", "Buy for $49.00").await;
    page.click("#buy").await;
    page.until("a proof", "window.proofs > 0").await;
    // The others are passed by, and the proof admits.
    instance.clock.shift(Duration::seconds(301));
    page.until_text("#outcome", "It’s yours").await;
    page.click_until("#outcome a", "#status", "Held for you").await;
    page.click_until("#pay", "#status", "Paid").await;
    assert_eq!(orders_of(&instance, BUYER).await.len(), 1);
    let item = make_sale(&instance, json!({ "stock": 5 })).await;
    page.visit_until(&format!("/item.html?id={item}"), "#stock", "5 of 5 left").await;
    page.click_until("#buy", "#outcome", "It’s yours").await;
    page.until_text("#stock", "4 of 5 left").await;
    instance.buyer(1).buy("default", item).await;
    page.until_text("#stock", "3 of 5 left").await;
    page.visit_elsewhere(&format!("http://shop.example:{}/play.html", instance.addr.port())).await;
    page.until_there("#copy").await;
    assert_far(&page).await;
    page.click_until("#copy", "body", "The link is").await;
    page.close_but_for(&[IGNORED, "favicon.ico"]).await;
}
