//! A pause of a sale that is drawn suspends its places and offers.

use super::*;

/// A draw of this many units that is over, with buyers 1 to 4; returns the item, and the buyers in the order of places.
async fn drawn((shop, instance): (&Shop, &Instance), units: i64) -> (i64, Vec<i64>) {
    let item = drawn_item(instance, units, 3_600).await;
    for buyer in 1..=4 {
        assert_eq!(enter(&instance.buyer(buyer), item).await.status, 200);
    }
    close_now(shop, item).await;
    until_drawn(&instance.stranger(), item).await;
    let mut places = Vec::new();
    for buyer in 1..=4 {
        let entry = instance.buyer(buyer).get(&format!("/api/items/{item}/entry")).await.json;
        places.push((entry["place"].as_i64().expect("a place"), buyer));
    }
    places.sort_unstable();
    (item, places.into_iter().map(|(_, buyer)| buyer).collect())
}

async fn set_paused(instance: &Instance, item: i64, is_paused: bool) {
    instance.admin().edit(item, json!({ "paused": is_paused })).await.expect_status(200);
}

async fn standing(instance: &Instance, item: i64, buyer: i64) -> Value {
    instance.buyer(buyer).get(&format!("/api/items/{item}/waiting")).await.json
}

async fn accept(instance: &Instance, item: i64, buyer: i64) -> Answer {
    instance.buyer(buyer).post(&format!("/api/items/{item}/waiting/purchase"), &json!({})).await
}

/// Lets the pause that goes on, and all offers, be older.
async fn pause_was_longer(shop: &Shop, seconds: i64) {
    for statement in [
        "UPDATE draws SET paused_at = paused_at - INTERVAL ? SECOND",
        "UPDATE waiting_list SET offer_expires_at = offer_expires_at - INTERVAL ? SECOND \
         WHERE status = 'offered'",
    ] {
        shop.change(sqlx::query(statement).bind(seconds)).await;
    }
}

/// An instance that learns of no pause while a test runs, instead of half a second late.
async fn unaware(shop: &Shop) -> Instance {
    shop.start_with(|config| config.purchase.item_age_ms_max = 600_000).await
}

/// Offers stay, also those whose time passes during the pause; afterwards they have their whole time again. A unit that comes
/// back meanwhile is offered to the next place, and not sold by an instance that has not read the pause yet.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn offers_run_on_after_a_pause() {
    let (shop, instance) = shop().await.opened().await;
    let unaware = unaware(&shop).await;
    let (item, buyers) = drawn((&shop, &instance), 2).await;
    let [first, second, third, fourth] = buyers[..] else { panic!("{buyers:?}") };
    // An earlier pause, which a build that knew no times of pauses has ended.
    let left = "UPDATE draws SET paused_at = UTC_TIMESTAMP(6) - INTERVAL 5000 SECOND";
    assert_eq!(shop.change(sqlx::query(left)).await, 1);
    unaware.buyer(9).buy("default", item).await.expect_problem(409, "sold_out");
    set_paused(&instance, item, true).await;
    pause_was_longer(&shop, 1_000).await;
    let is_paused = |refused: &Answer| refused.brief() == (409, "sale_paused");
    let refused = until("a refusal", || accept(&instance, item, first), is_paused).await;
    assert_problem(&refused, (409, "sale_paused"), "of an offer in a pause");
    instance.buyer(second).delete(&format!("/api/items/{item}/waiting")).await.expect_status(204);
    for (buyer, status) in [(first, "offered"), (second, "left"), (third, "offered")] {
        assert_eq!(standing(&instance, item, buyer).await["status"], status, "in the pause");
    }
    unaware.buyer(10).buy("mysql-atomic", item).await.expect_problem(409, "sold_out");
    let resumed = OffsetDateTime::now_utc();
    set_paused(&instance, item, false).await;
    for (buyer, status) in [(first, "offered"), (third, "offered"), (fourth, "waiting")] {
        assert_eq!(standing(&instance, item, buyer).await["status"], status, "after the pause");
    }
    let time = |text: &Value| {
        OffsetDateTime::parse(text.as_str().expect("a time"), &Rfc3339).expect("a time")
    };
    for buyer in [first, third] {
        let until = time(&standing(&instance, item, buyer).await["offer_expires_at"]);
        let left = until - resumed;
        let expected = Duration::seconds(599)..Duration::seconds(700);
        assert!(expected.contains(&left), "{left} for {buyer}");
    }
    instance.buyer(9).buy("default", item).await.expect_problem(409, "sold_out");
    for buyer in [first, third] {
        until("an order", || accept(&instance, item, buyer), |bought| bought.status == 201).await;
    }
    assert_clean(&instance, item).await;
}

/// Any number of offers gets its time, in transactions of 2,000; until all have it none ends, and each can be accepted.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_offers_get_their_time_in_steps() {
    let (shop, instance) = shop().await.opened().await;
    let (item, buyers) = drawn((&shop, &instance), 4).await;
    // Their time ends before that of the four, so they are the first to get it again.
    for first in [1_000, 2_500, 4_000] {
        let mut rows = sqlx::QueryBuilder::new(
            "INSERT INTO waiting_list (item_id, user_id, status, live, joined_at, offered_at, offer_expires_at) ",
        );
        rows.push_values(first..first + 1_500, |mut row, buyer: i64| {
            row.push_bind(item).push_bind(buyer);
            row.push("'offered', 1, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6) + INTERVAL 300 SECOND");
        });
        rows.build().persistent(false).execute(&shop.pool).await.expect("inserted");
    }
    let held = "UPDATE stock SET offered = offered + 4500 WHERE item_id = ?";
    shop.change(sqlx::query(held).bind(item)).await;
    set_paused(&instance, item, true).await;
    pause_was_longer(&shop, 1_000).await;
    set_paused(&instance, item, false).await;
    until("an order", || accept(&instance, item, buyers[3]), |bought| bought.status == 201).await;
    let whole = "SELECT COUNT(*) FROM waiting_list JOIN draws USING (item_id) WHERE status = 'offered' \
         AND offer_expires_at > UTC_TIMESTAMP(6) AND paused_at IS NULL";
    shop.until_count(whole, 4_503).await;
}

/// Else each look for draws would read all entries, and compute all places.
#[tokio::test]
async fn a_paused_draw_is_left_alone_once_its_value_is_known() {
    let (shop, instance) = shop().await.opened().await;
    let item = drawn_item(&instance, 1, 3_600).await;
    assert_eq!(enter(&instance.buyer(1), item).await.status, 200);
    set_paused(&instance, item, true).await;
    close_now(&shop, item).await;
    shop.until_count("SELECT COUNT(*) FROM draws WHERE beacon_signature IS NOT NULL", 1).await;
    let stranger = instance.stranger();
    let job = || async { stranger.get("/readyz").await.json["jobs"]["draws"].clone() };
    let earlier = job().await["ended_at"].clone();
    let is_later = |run: &Value| run["said"] == "0 draws due" && run["ended_at"] != earlier;
    until("a later run without this draw", job, is_later).await;
    set_paused(&instance, item, false).await;
    until_drawn(&instance.stranger(), item).await;
    assert_clean(&instance, item).await;
}

/// What a pause did in earlier builds: it ended the line, and the units went to whoever was quick.
#[tokio::test]
async fn a_purchase_without_a_place_after_a_pause_is_found() {
    let (shop, instance) = shop().await.opened().await;
    // Its proof has to hold, so it closes when it was announced.
    let item = drawn_item(&instance, 2, 12).await;
    for buyer in 1..=4 {
        assert_eq!(enter(&instance.buyer(buyer), item).await.status, 200);
    }
    until_drawn(&instance.stranger(), item).await;
    assert_clean(&instance, item).await;
    for statement in [
        "UPDATE waiting_list SET status = 'ended', live = NULL, closed_at = UTC_TIMESTAMP(6) \
         WHERE live = 1 AND item_id = ?",
        "UPDATE stock SET available = available + offered, offered = 0, version = version + 1 \
         WHERE item_id = ?",
    ] {
        shop.change(sqlx::query(statement).bind(item)).await;
    }
    // Without a purchase the units are only where they should not be.
    assert_clean(&instance, item).await;
    instance.buyer(9).until_sold("default", item).await;
    assert_eq!(instance.broken(item).await, ["I21"]);
    // The audit of the load test, which shares no code with the service, finds the same.
    let mut reader = ledger_audit::Reader::connect(shop.config.database_url.reveal()).await;
    let ledger = reader.as_mut().expect("connected").ledger(item).await.expect("read");
    let findings = ledger_audit::judge_draw(2, &ledger).expect("judged");
    let found = findings.iter().find(|found| found.invariant == "I21").expect("I21");
    let text = found.examples.join("\n");
    assert!(text.contains("has no place, and place"), "{text}");
}
