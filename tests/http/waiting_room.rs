//! The line in front of an item: places, tickets, and who gets past it.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use failpoint::hold::Director;
use seckill::config::WaitingRoom as RoomSettings;
use sha2::{Digest, Sha256};
use time::Duration;

use crate::support::prelude::*;

/// An item with a waiting room.
pub(super) async fn item(instance: &Instance, changes: Value) -> i64 {
    let body = json!({ "kind": "shop", "strategy": "mysql-atomic", "waiting_room": true });
    instance.make_item(changed(body, changes)).await
}

pub(super) async fn stand(buyer: &Client, item: i64, body: Value) -> Answer {
    buyer.post(&format!("/api/items/{item}/ticket"), &body).await
}

/// Leaves the line, or gives the ticket back.
pub(super) async fn leave(buyer: &Client, item: i64) {
    buyer.delete(&format!("/api/items/{item}/ticket")).await.expect_status(204);
}

pub(super) async fn buy(buyer: &Client, item: i64, ticket: &str) -> Answer {
    let request = buyer.request(Method::POST, &purchase_path("default", item));
    Client::send(request.header("purchase-ticket", ticket)).await
}

#[track_caller]
pub(super) fn place(answer: &Answer) -> &str {
    answer.assert_fields(200, json!({ "state": "waiting", "ticket": null }));
    assert!(answer.json["ask_again_ms"].as_u64().is_some_and(|pause| pause > 0));
    answer.json["place"].as_str().expect("a place")
}

#[track_caller]
pub(super) fn ticket(answer: &Answer) -> &str {
    answer.assert_fields(200, json!({ "state": "admitted" }));
    answer.json["ticket"].as_str().expect("a ticket")
}

pub(super) fn text(instant: OffsetDateTime) -> String {
    instant.format(&Rfc3339).expect("a time")
}

/// A shop with other settings of the waiting room.
pub(super) async fn shop_with(change: impl FnOnce(&mut RoomSettings)) -> Shop {
    Shop::with(|config| change(&mut config.waiting_room)).await
}

/// A shop that admits one buyer in a second: whoever is not first waits. Nobody is passed by.
pub(super) async fn slow_shop() -> Shop {
    shop_with(|room| (room.per_second, room.silent_seconds) = (1, 3_000)).await
}

/// Asks for the buyer's place until the answer is as wanted.
pub(super) async fn until_told(
    buyer: &Client,
    item: i64,
    is_wanted: impl Fn(&Answer) -> bool,
) -> Answer {
    until(BOUND, || stand(buyer, item, json!({})), is_wanted).await
}

/// Polls until it is the buyer's turn.
pub(super) async fn until_admitted(buyer: &Client, item: i64, body: Value) -> Answer {
    let turn = |answer: &Answer| answer.json["state"] == "admitted";
    until(BOUND, || stand(buyer, item, body.clone()), turn).await
}

/// The ticket with another last character.
fn forged(ticket: &str) -> String {
    let (start, last) = ticket.split_at(ticket.len() - 1);
    format!("{start}{}", if last == "A" { "E" } else { "A" })
}

#[tokio::test]
async fn only_ones_own_ticket_gets_past_the_line() {
    let instance = slow_shop().await.start().await;
    let (sold, other) = (item(&instance, json!({})).await, item(&instance, json!({})).await);
    let (first, second) = (instance.buyer(1), instance.buyer(2));
    let answer = stand(&first, sold, json!({})).await;
    let good = ticket(&answer);
    let waiting = stand(&second, sold, json!({})).await;
    assert_problem(&first.buy("default", sold).await, (403, "ticket_required"), "none");
    let elsewhere = stand(&first, other, json!({})).await;
    for (what, ticket) in [
        ("forged", forged(good)),
        ("cut", good[..good.len() - 4].to_owned()),
        ("empty", String::new()),
        ("long", "wr1.".repeat(500)),
        ("a session", instance.token(1, Role::Buyer)),
        ("another item's", ticket(&elsewhere).to_owned()),
    ] {
        assert_problem(&buy(&first, sold, &ticket).await, (403, "ticket_invalid"), what);
    }
    assert_problem(&buy(&second, sold, good).await, (403, "ticket_invalid"), "another's");
    buy(&second, sold, place(&waiting)).await.expect_problem(403, "ticket_not_yet_valid");
    stand(&second, sold, json!({ "place": good })).await.expect_problem(403, "ticket_invalid");
    // Past it, the ticket is no more than that: the limit is one.
    let keyed = first.request(Method::POST, &purchase_path("default", sold));
    let keyed = keyed.header("purchase-ticket", good).header("idempotency-key", "k1");
    let order = order_id(&Client::send(keyed).await);
    assert_problem(&buy(&first, sold, good).await, (409, "limit_reached"), "again");
    // Its time over, it opens nothing; what was bought can be asked for all the same.
    instance.clock.shift(Duration::HOUR);
    let first = instance.buyer(1);
    assert_problem(&buy(&first, sold, good).await, (403, "ticket_expired"), "late");
    assert_eq!(order_id(&first.buy_with_key("default", sold, "k1").await), order);
    assert_eq!(assert_clean(&instance, sold).await["orders"], 1);
}

#[tokio::test]
async fn nobody_has_a_ticket_before_the_sale_is_open() {
    let instance = shop_with(|_| ()).await.start().await;
    let starts_at = text(instance.clock.now() + Duration::minutes(10));
    let sold = item(&instance, json!({ "starts_at": starts_at })).await;
    let held = place(&stand(&instance.buyer(1), sold, json!({})).await).to_owned();
    let again = stand(&instance.buyer(1), sold, json!({ "place": held })).await;
    assert_eq!((place(&again), &again.json["position"]), (&*held, &json!(0)));
    buy(&instance.buyer(1), sold, &held).await.expect_problem(409, "sale_not_started");
    instance.clock.shift(Duration::minutes(10));
    let answer = until_admitted(&instance.buyer(1), sold, json!({ "place": held })).await;
    assert_eq!(buy(&instance.buyer(1), sold, ticket(&answer)).await.status, 201);
    // A pause keeps everybody in line, the end sends them away.
    assert_eq!(instance.admin().edit(sold, json!({ "paused": true })).await.status, 200);
    place(&stand(&instance.buyer(2), sold, json!({})).await);
    assert_eq!(instance.admin().edit(sold, json!({ "paused": false })).await.status, 200);
    ticket(&stand(&instance.buyer(2), sold, json!({})).await);
    instance.clock.shift(Duration::DAY);
    stand(&instance.buyer(3), sold, json!({})).await.expect_problem(409, "sale_ended");
}

#[tokio::test]
async fn the_line_keeps_its_order_and_places_count_on_every_instance() {
    let (_shop, here, there) = slow_shop().await.opened_twice().await;
    let sold = item(&here, json!({})).await;
    ticket(&stand(&here.buyer(1), sold, json!({})).await);
    let mut places = Vec::new();
    for id in 2..12 {
        places.push(place(&stand(&here.buyer(id), sold, json!({})).await).to_owned());
    }
    let position = async |instance: &Instance, id: i64, body: Value| {
        let answer = stand(&instance.buyer(id), sold, body).await;
        place(&answer);
        (answer.json["position"].as_i64(), answer.json["number"].as_i64())
    };
    // The first number was that of buyer 1, and nobody is admitted without asking.
    for (id, held) in (2..).zip(&places).skip(1) {
        let expected = (Some(id - 2), Some(id));
        assert_eq!(position(&here, id, json!({ "place": held })).await, expected);
        assert_eq!(position(&there, id, json!({})).await, expected, "without the token");
    }
    assert_eq!(position(&there, 20, json!({})).await, (Some(10), Some(12)), "at the end");
    // The turn comes where the buyer asks. Whoever has not asked for long is passed by.
    there.clock.shift(Duration::minutes(51));
    let answer = stand(&there.buyer(11), sold, json!({ "place": places[9] })).await;
    assert_eq!(buy(&there.buyer(11), sold, ticket(&answer)).await.status, 201);
}

#[tokio::test]
async fn when_nothing_is_left_the_whole_line_is_told() {
    let instance = slow_shop().await.start().await;
    let sold = item(&instance, json!({ "stock": 1 })).await;
    let first = ticket(&stand(&instance.buyer(1), sold, json!({})).await).to_owned();
    // The last of them would be called up in five minutes.
    for id in 2..300 {
        place(&stand(&instance.buyer(id), sold, json!({})).await);
    }
    let order = order_id(&buy(&instance.buyer(1), sold, &first).await);
    until_told(&instance.buyer(299), sold, |told| told.brief() == (409, "sold_out")).await;
    for id in [2, 3, 150, 300] {
        stand(&instance.buyer(id), sold, json!({})).await.expect_problem(409, "sold_out");
    }
    // A unit that comes back opens it again, for those whose turn it was first.
    assert_eq!(instance.buyer(1).step(&order, "cancellation").await.status, 200);
    until_admitted(&instance.buyer(2), sold, json!({})).await;
    place(&stand(&instance.buyer(299), sold, json!({})).await);
}

#[tokio::test]
async fn who_comes_late_stands_behind_a_list_whose_places_are_not_drawn() {
    const EARLY: [i64; 3] = [70_001, 70_002, 70_003];
    const LATE: i64 = 70_009;
    let (_shop, here, there) = slow_shop().await.opened_twice().await;
    let shift = |span| [&here, &there].map(|instance| instance.clock.shift(span));
    let starts_at = text(here.clock.now() + Duration::minutes(10));
    let sold = item(&here, json!({ "starts_at": starts_at })).await;
    for id in EARLY {
        place(&stand(&here.buyer(id), sold, json!({})).await);
    }
    shift(Duration::minutes(10));
    // Whichever of the three is first, the places are not written yet.
    let director = Director::of(&EARLY);
    // The late one asks first, and again.
    for instance in [&there, &here, &there] {
        let late = stand(&instance.buyer(LATE), sold, json!({})).await;
        place(&late);
        assert_eq!((&late.json["number"], &late.json["drawing"]), (&json!(4), &json!(true)));
    }
    let early = stand(&there.buyer(EARLY[0]), sold, json!({})).await;
    place(&early);
    assert_eq!((&early.json["number"], &early.json["drawing"]), (&Value::Null, &json!(true)));
    drop(director);
    until_told(&here.buyer(LATE), sold, |late| late.json["drawing"] == false).await;
    let mut admitted = Vec::new();
    for _ in 0..4 {
        shift(Duration::seconds(1));
        for id in [LATE, EARLY[0], EARLY[1], EARLY[2]] {
            if admitted.contains(&id) {
                continue;
            }
            if stand(&there.buyer(id), sold, json!({})).await.json["state"] == "admitted" {
                admitted.push(id);
            }
        }
    }
    assert_eq!((admitted.len(), admitted.last()), (4, Some(&LATE)), "{admitted:?}");
}

/// The answer to the challenge of `answer`, as an official client of ALTCHA makes it.
pub(super) fn solved(answer: &Answer) -> String {
    let challenge = &answer.json["challenge"];
    let text = |name: &str| challenge["parameters"][name].as_str().expect("a text");
    let bytes = |name: &str| hex::decode(text(name)).expect("hexadecimal digits");
    let (salt, nonce, prefix) = (bytes("salt"), bytes("nonce"), bytes("keyPrefix"));
    let derive =
        |counter: u32| Sha256::digest([&salt[..], &nonce[..], &counter.to_be_bytes()[..]].concat());
    let counter = (0..).find(|&counter| derive(counter).starts_with(&prefix)).expect("a solution");
    let solution = json!({ "counter": counter, "derivedKey": hex::encode(derive(counter)) });
    BASE64.encode(json!({ "challenge": challenge, "solution": solution }).to_string())
}

#[tokio::test]
async fn work_is_asked_of_buyers_who_join_a_line() {
    let shop = shop_with(|room| {
        (room.per_second, room.proof_bits_max, room.ticket_seconds) = (1, 3, 3_000);
        room.silent_seconds = 3_000;
    })
    .await;
    let (here, there) = (shop.start().await, shop.start().await);
    let sold = item(&here, json!({})).await;
    ticket(&stand(&here.buyer(1), sold, json!({})).await);
    let mut joined = Vec::new();
    for id in 2..20 {
        joined.push(stand(&here.buyer(id), sold, json!({})).await);
    }
    let bits: Vec<u64> =
        joined.iter().map(|answer| answer.json["proof_bits"].as_u64().expect("bits")).collect();
    assert_eq!((bits[0], bits[1], bits[3], bits[17]), (0, 1, 2, 3), "{bits:?}");
    assert_eq!(joined[0].json["challenge"], json!(null), "nobody was there");

    // Their turns: all others have been silent for long.
    let turn = async |id: i64, body: Value| {
        for instance in [&here, &there] {
            instance.clock.shift(Duration::seconds(3_001));
        }
        stand(&there.buyer(id), sold, body).await
    };
    let held = place(&joined[17]).to_owned();
    let unproved = turn(19, json!({ "place": held })).await.expect_problem(403, "challenge_failed");
    // Whoever proves nothing is in nobody's way.
    let other = stand(&there.buyer(18), sold, json!({})).await;
    assert_problem(&other, (403, "challenge_failed"), "the work is by the line's length");
    let proof = solved(&other);
    let of_another = stand(&there.buyer(19), sold, json!({ "altcha": proof })).await;
    assert_problem(&of_another, (403, "challenge_failed"), "another buyer's proof");
    ticket(&stand(&there.buyer(18), sold, json!({ "altcha": proof })).await);
    // A proof is used once: the buyer leaves, and comes back with it.
    leave(&there.buyer(18), sold).await;
    here.clock.shift(Duration::seconds(2));
    there.clock.shift(Duration::seconds(2));
    let replayed = stand(&here.buyer(18), sold, json!({ "altcha": proof })).await;
    assert_problem(&replayed, (403, "challenge_failed"), "a proof that was used");
    ticket(&stand(&here.buyer(18), sold, json!({ "altcha": solved(&replayed) })).await);
    // A challenge of the refusal, with the place of before.
    here.clock.shift(Duration::seconds(2));
    let proved = json!({ "place": held, "altcha": solved(&unproved) });
    let answer = stand(&here.buyer(19), sold, proved).await;
    assert_eq!(buy(&here.buyer(19), sold, ticket(&answer)).await.status, 201);
}

#[tokio::test]
async fn a_room_can_be_opened_and_closed_during_a_sale() {
    let instance = Shop::new().await.start().await;
    let sold = item(&instance, json!({ "waiting_room": false })).await;
    let path = format!("/api/items/{sold}");
    stand(&instance.buyer(1), sold, json!({})).await.expect_problem(409, "no_waiting_room");
    stand(&instance.buyer(1), 4711, json!({})).await.expect_problem(404, "item_not_found");
    assert_eq!(instance.stranger().get(&path).await.json["waiting_room"], false);
    let opened = instance.admin().edit(sold, json!({ "waiting_room": true })).await;
    assert_eq!((opened.status, &opened.json["waiting_room"]), (200, &json!(true)));
    instance.buyer(1).buy("default", sold).await.expect_problem(403, "ticket_required");
    instance.admin().edit(sold, json!({ "waiting_room": false })).await;
    assert_eq!(instance.buyer(1).buy("default", sold).await.status, 201);
    let log = instance.admin().get("/api/admin/actions").await.json;
    assert_eq!(log["actions"][0]["detail"], json!({ "waiting_room": false }));
}
