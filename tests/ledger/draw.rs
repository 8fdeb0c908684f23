//! Sales that are drawn: entering, the draw on several instances that are killed, and its proof.

mod closing;
mod frozen;
mod key;
mod many;
mod parties;
mod pause;

use seckill::failpoint::DRAW_POINTS;
use time::Duration;
use verify::{Fault, Known, Proof};

use crate::support::prelude::*;

/// Short, because the times of a draw go by the database's clock, which no test can move.
pub(crate) async fn shop() -> Shop {
    Shop::with(|config| {
        config.sections.set("draw", "poll_ms", 50);
        config.sections.set("draw", "round_after_seconds", 5);
        config.purchase.item_age_ms_max = 0;
    })
    .await
}

pub(crate) fn from_now(seconds: i64) -> String {
    (OffsetDateTime::now_utc() + Duration::seconds(seconds)).format(&Rfc3339).expect("a time")
}

/// An item that is drawn `seconds` from now.
pub(crate) async fn drawn_item(instance: &Instance, stock: i64, seconds: i64) -> i64 {
    drawn_with(instance, stock, seconds, json!({})).await
}

/// An item that is drawn `seconds` from now, with other fields of its request.
async fn drawn_with(instance: &Instance, stock: i64, seconds: i64, changes: Value) -> i64 {
    let body = json!({
        "kind": "shop", "stock": stock, "strategy": "mysql-batch", "offer_seconds": 600,
        "mode": "draw", "draw_closes_at": from_now(seconds),
    });
    instance.make_item(changed(body, changes)).await
}

/// An instance that draws nothing while a test runs: it makes the items.
async fn idle_instance(shop: &Shop) -> Instance {
    shop.start_with(|config| config.sections.set("draw", "poll_ms", 60_000)).await
}

pub(super) async fn enter(client: &Client, item: i64) -> Answer {
    client.post(&format!("/api/items/{item}/entry"), &json!({})).await
}

/// Closes the entries of a draw now. Its round is over, so it is drawn at once; its proof does not hold.
async fn close_now(shop: &Shop, item: i64) {
    let close = "UPDATE draws SET closes_at = UTC_TIMESTAMP(6), round = 1 WHERE item_id = ?";
    shop.change(sqlx::query(close).bind(item)).await;
}

/// A draw of some tests is 20 s away.
pub(crate) async fn until_drawn(client: &Client, item: i64) -> Value {
    let path = format!("/api/items/{item}/draw");
    let is_drawn = |draw: &Answer| draw.json["state"] == "drawn";
    until(RECOVERY_MAX, || client.get(&path), is_drawn).await.json
}

/// The published proof, as the checker reads it.
pub(crate) async fn proof(client: &Client, item: i64) -> Proof {
    let text = client.get(&format!("/api/items/{item}/draw/entries")).await.text;
    verify::read(text.as_bytes()).expect("a proof")
}

/// What the shop has announced so far, as a buyer saves it.
pub(crate) async fn announcement(client: &Client, item: i64) -> String {
    client.get(&format!("/api/items/{item}/draw/announcement")).await.text
}

pub(crate) fn faults(proof: &Proof, known: Known<'_>) -> Vec<Fault> {
    verify::check(proof, known).into_iter().map(|(fault, _)| fault).collect()
}

#[tokio::test]
async fn buyers_enter_and_the_first_places_are_offered_the_units() {
    let (shop, instance) = shop().await.opened().await;
    let item = drawn_item(&instance, 2, 15).await;
    let stranger = instance.stranger();
    let draw = stranger.get(&format!("/api/items/{item}/draw")).await.json;
    assert_has(&draw, json!({ "state": "open", "proof": "local", "party_max": 1 }));
    let announced = announcement(&stranger, item).await;
    assert_eq!((draw["rules"].as_str(), &draw["head"]), (Some(announced.as_str()), &Value::Null));

    let mut entries = Vec::new();
    let mut promises = Vec::new();
    let path = format!("/api/items/{item}/entry");
    for buyer in 1..=5 {
        let entered = enter(&instance.buyer(buyer), item).await;
        assert_eq!((entered.status, &entered.json["status"]), (200, &json!("entered")));
        assert_eq!(entered.json["party"], Value::Null, "each is alone");
        let promise = entered.json["promise"].as_str().expect("a promise").to_owned();
        for again in
            [enter(&instance.buyer(buyer), item).await, instance.buyer(buyer).get(&path).await]
        {
            assert_eq!(again.json["entry"], entered.json["entry"], "a second request is the same");
            assert_eq!(again.json["promise"], promise, "byte by byte");
        }
        promises.push(promise);
        entries.push(entered.json["entry"].as_str().expect("an id").to_owned());
    }
    let party = instance.buyer(9).post(&path, &json!({ "party": "new" })).await;
    assert_problem(&party, (409, "party_full"), "no parties were promised");
    let gone = instance.buyer(5);
    for _ in 0..2 {
        gone.delete(&path).await.expect_status(204);
    }
    gone.get(&path).await.assert_fields(200, json!({ "status": "none", "promise": null }));
    // Nobody buys, and nobody stands in line without an entry.
    assert_problem(&instance.buyer(9).buy("default", item).await, (409, "draw_only"), "of a draw");
    let waiting = format!("/api/items/{item}/waiting");
    instance.buyer(9).post(&waiting, &json!({})).await.expect_problem(409, "draw_only");
    let list = stranger.get(&format!("/api/items/{item}/draw/entries")).await;
    assert_problem(&list, (409, "entries_open"), "of a draw");
    // As if a writer had taken it whose clock was ahead.
    let ahead = "UPDATE draw_entries SET entered_at = \
                 (SELECT closes_at + INTERVAL 2 SECOND FROM draws WHERE item_id = ?) WHERE item_id = ? AND user_id = 2";
    shop.change(sqlx::query(ahead).bind(item).bind(item)).await;
    let ahead = instance.buyer(2).get(&path).await.json["promise"].as_str().map(str::to_owned);

    until_drawn(&stranger, item).await;
    assert_problem(&enter(&instance.buyer(9), item).await, (409, "entries_closed"), "of a draw");
    let proof = proof(&stranger, item).await;
    let known = Known { announced: Some(&announced), promise: Some(&promises[0]) };
    assert_eq!(faults(&proof, known), []);
    assert!(!proof.is_public(), "the shop made the value");
    assert_eq!(proof.entries.len(), 4);
    assert!(proof.entries.iter().any(|entry| entry.id == entries[0]));
    let known = Known { promise: ahead.as_deref(), ..known };
    assert_eq!(faults(&proof, known), [], "no entry is later than the list");
    let left_out = Known { promise: Some(&promises[4]), ..known };
    assert_eq!(faults(&proof, left_out), [Fault::MissingEntry]);
    let all = announcement(&stranger, item).await;
    assert!(all.starts_with(&announced) && all.contains("\nsignature "), "{all}");

    let mut accepted = 0;
    for buyer in 1..=4 {
        let client = instance.buyer(buyer);
        let place = client.get(&path).await.json["place"].as_i64().expect("a place");
        let standing = client.get(&waiting).await.json;
        let is_offered = place <= 2;
        assert_eq!(standing["status"], if is_offered { "offered" } else { "waiting" });
        if is_offered {
            client.post(&format!("{waiting}/purchase"), &json!({})).await.expect_status(201);
            accepted += 1;
        } else {
            assert_eq!(standing["ahead"], place - 3, "behind the buyers with an offer");
        }
    }
    assert_eq!(accepted, 2);
    assert_clean(&instance, item).await;
}

/// Somebody writes an entry into the table after the list was signed.
#[tokio::test]
async fn no_place_is_written_by_another_list_than_the_signed_one() {
    let mut shop = shop().await;
    shop.config.sections.set("draw", "round_after_seconds", 10);
    let instance = shop.start().await;
    let item = drawn_item(&instance, 1, 3).await;
    assert_eq!(enter(&instance.buyer(7), item).await.status, 200);
    let stranger = instance.stranger();
    stranger.until(&format!("/api/items/{item}/draw"), |draw| !draw.json["head"].is_null()).await;
    insert_entries(&shop.pool, item, 1).await;
    stranger.until_job("draws", |job| job["ok"] == false).await;
    let places = "SELECT COUNT(*) FROM draw_entries WHERE place IS NOT NULL";
    assert_eq!(shop.number(places).await, 0);
    shop.change(sqlx::query("DELETE FROM draw_entries WHERE user_id <> 7")).await;
    until_drawn(&stranger, item).await;
    assert_eq!(faults(&proof(&stranger, item).await, Known::default()), []);
}

#[tokio::test]
async fn what_cannot_be_drawn_is_refused() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    assert_problem(&enter(&instance.buyer(1), item).await, (409, "no_draw"), "of a draw");
    // For its row nobody waits.
    let held = hold_stock_row(&shop.pool, item).await;
    let path = format!("/api/items/{item}/entry");
    let left = instance.buyer(1).delete(&path).await;
    assert_problem(&left, (409, "no_draw"), "of a draw");
    held.rollback().await.expect("rolled back");
    let draw = instance.stranger().get(&format!("/api/items/{item}/draw")).await;
    assert_problem(&draw, (409, "no_draw"), "of a draw");
    let right = json!({ "mode": "draw", "draw_closes_at": from_now(600) });
    for change in [
        json!({ "draw_closes_at": null }),
        json!({ "mode": "race" }),
        json!({ "mode": "lottery" }),
        json!({ "draw_closes_at": from_now(999_999) }),
        // The values of rounds that are over are known.
        json!({ "draw_closes_at": from_now(-1), "starts_at": from_now(-60) }),
        json!({ "offer_seconds": 0 }),
        // The round would be after the last time that there is.
        json!({ "draw_closes_at": "9999-12-31T23:59:40Z", "ends_at": "9999-12-31T23:59:59Z" }),
        // The offers of the first places would end with the sale.
        json!({ "ends_at": from_now(900) }),
        json!({ "arbiter": "off", "strategy": "mysql-naive" }),
        json!({ "draw_party_max": 0 }),
        json!({ "draw_party_max": 5 }),
    ] {
        let body = item_body(changed(right.clone(), change.clone()));
        let refused = instance.admin().post("/api/admin/items", &body).await;
        assert_problem(&refused, (422, "invalid_draw"), "of a draw");
        let names_end = refused.text.contains("Send ends_at of 20");
        let ends_early = change["ends_at"].is_string() && change["draw_closes_at"].is_null();
        assert_eq!(names_end, ends_early, "{}", refused.text);
    }
    // The close and the round are announced: the sale cannot be moved away from them.
    let item = drawn_item(&instance, 1, 600).await;
    for (edit, problem) in [
        (json!({ "ends_at": from_now(300) }), "invalid_schedule"),
        (json!({ "ends_at": from_now(610) }), "invalid_schedule"),
        (json!({ "offer_seconds": 0 }), "invalid_draw"),
    ] {
        assert_problem(&instance.admin().edit(item, edit).await, (422, problem), "of a draw");
    }
    assert_eq!(instance.admin().edit(item, json!({ "ends_at": from_now(700) })).await.status, 200);
}

/// The answer was lost, and the close has passed meanwhile. Units without an entry are sold after the draw.
#[tokio::test]
async fn a_draw_that_is_made_again_is_the_same() {
    let (_shop, instance) = shop().await.opened().await;
    let body = item_body(json!({
        "kind": "shop", "stock": 3, "strategy": "mysql-batch", "mode": "draw", "draw_closes_at": from_now(4),
    }));
    let make = || {
        let request = instance.admin().request(Method::POST, "/api/admin/items");
        Client::send(request.header("idempotency-key", "one").json(&body))
    };
    let item = make().await.expect_status(201).json["id"].as_i64().expect("an id");
    assert_eq!(enter(&instance.buyer(1), item).await.status, 200);
    until_drawn(&instance.stranger(), item).await;
    let again = make().await;
    assert_eq!((again.status, again.json["id"].as_i64()), (201, Some(item)), "{}", again.text);
    assert_eq!(again.headers["idempotency-replayed"], "true");
    instance.buyer(2).until_sold("default", item).await;
    assert_clean(&instance, item).await;
}

/// Entries without requests, with ids of their own; one in four is followed by friends, two to four with it.
pub(crate) async fn insert_entries(pool: &Database, item: i64, count: i64) {
    let buyers: Vec<i64> = (1..=count).collect();
    for buyers in buyers.chunks(1_000) {
        let mut rows = sqlx::QueryBuilder::new(
            "INSERT INTO draw_entries (item_id, user_id, entry, party, entered_at) ",
        );
        let mut party: (String, u8) = Default::default();
        rows.push_values(buyers, |mut row, buyer| {
            let id = hex::encode(rand::random::<[u8; 16]>());
            if party.1 == 0 {
                let is_alone = rand::random_range(0..4) > 0;
                party = match is_alone {
                    true => (id.clone(), 1),
                    false => (hex::encode(rand::random::<[u8; 16]>()), rand::random_range(2..=4)),
                };
            }
            party.1 -= 1;
            row.push_bind(item).push_bind(buyer).push_bind(id).push_bind(party.0.clone());
            row.push("UTC_TIMESTAMP(6)");
        });
        rows.build().persistent(false).execute(pool).await.expect("inserted");
    }
}

/// Units that are available although they are enough for a buyer in the line.
async fn idle_units(shop: &Shop, item: i64) -> i64 {
    let read = "SELECT CAST(COALESCE(MAX(available), 0) AS SIGNED) FROM stock JOIN waiting_list USING (item_id) \
         WHERE item_id = ? AND status = 'waiting' AND available >= party_size";
    shop.read(sqlx::query_scalar(read).bind(item)).await
}

/// `SECKILL_TEST_ENTRIES=100000` is the whole run, with 20 kills.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn instances_that_are_killed_at_any_step_make_one_draw() {
    let asked = std::env::var("SECKILL_TEST_ENTRIES").ok();
    let parts = if asked.is_some() { 17 } else { 3 };
    let step_max = if asked.is_some() { 10 * BOUND } else { BOUND };
    let count = asked.map_or(4_000, |text| text.parse().expect("a number"));
    let stock = 700;
    let shop = shop().await;
    let maker = idle_instance(&shop).await;
    let item = drawn_with(&maker, stock, 5 + count / 20_000, json!({ "draw_party_max": 4 })).await;
    insert_entries(&shop.pool, item, count).await;
    maker.stop().await;
    // Each process goes on where the one before was killed; the last point is reached with each part of the list.
    let parts = (1..=parts).map(|time| format!("draw-part-placed:{time}"));
    let points = DRAW_POINTS[..3].iter().map(|point| (*point).to_owned()).chain(parts);
    for point in points {
        let mut doomed = program(&shop, &["serve"]);
        doomed.env("SECKILL_HTTP_ADDR", free_addr()).env("SECKILL_DRAW_POLL_MS", "50");
        doomed.env("FAILPOINT", &point);
        let mut doomed = doomed.spawn().expect("started");
        let ended = tokio::time::timeout(step_max, doomed.wait()).await;
        assert!(
            !ended.unwrap_or_else(|_| panic!("{point} is not reached")).expect("it ran").success(),
            "{point}"
        );
        assert_eq!(idle_units(&shop, item).await, 0, "nobody is left to offer them: {point}");
    }
    let addresses = [free_addr(), free_addr()];
    let mut services = Vec::new();
    for address in &addresses {
        services.push(serve(&shop, address, &[("SECKILL_DRAW_POLL_MS", "50")]).await);
    }
    let client = Client::new(addresses[0].parse().expect("an address"), None);
    until_drawn(&client, item).await;

    let proof = proof(&client, item).await;
    assert_eq!(faults(&proof, Known::default()), []);
    assert_eq!(proof.entries.len() as i64, count);
    let line = "SELECT CAST(draw_entries.place AS SIGNED), waiting_list.user_id, status, draw_entries.party \
         FROM waiting_list JOIN draw_entries USING (item_id, user_id) WHERE item_id = ? \
         ORDER BY waiting_list.place";
    let line = sqlx::query_as(line).bind(item).fetch_all(&shop.pool).await;
    let line: Vec<(i64, i64, String, String)> = line.expect("read");
    let buyers: HashSet<i64> = line.iter().map(|(_, buyer, ..)| *buyer).collect();
    assert_eq!((line.len() as i64, buyers.len() as i64), (count, count), "lost or twice");
    let (mut left, mut at) = (stock, 0);
    for friends in line.chunk_by(|one, next| one.3 == next.3) {
        let is_offered = friends.len() as i64 <= left;
        left -= if is_offered { friends.len() as i64 } else { 0 };
        for (place, _, status, _) in friends {
            at += 1;
            assert_eq!(*place, at, "the line is in the order of places");
            assert_eq!(status, if is_offered { "offered" } else { "waiting" }, "place {at}");
        }
    }
    assert_eq!(left, 0, "all units are offered");
    assert_clean(&shop.start().await, item).await;
    for mut service in services {
        service.kill().await.expect("killed");
    }
}
