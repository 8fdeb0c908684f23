//! Endpoints with a filter get what they name, in order, and know which positions that covers.

use seckill::failpoint::hold::Director;

use super::*;

async fn subscribe_to(instance: &Instance, receiver: &TestReceiver, filter: Value) -> i64 {
    subscribe_by(instance, receiver, &json!({ "target": receiver.url(), "filter": filter })).await
}

/// Waits until the endpoint has everything of the log, whose last position is `last`.
async fn until_at(instance: &Instance, id: i64, last: i64) {
    until_endpoint(instance, id, |seen| seen["delivered"] == last && seen["last"] == last).await;
}

/// Position, items and lines of what a receiver got.
fn got(receiver: &TestReceiver) -> Vec<(i64, Vec<i64>)> {
    let events = receiver.distinct_events();
    let items = |event: &Value| {
        let orders = event["data"]["orders"].as_array().expect("orders").iter();
        orders.map(|order| order["item_id"].as_i64().expect("an id")).collect()
    };
    let position = |event: &Value| event["position"].as_i64().expect("a number");
    events.iter().map(|event| (position(event), items(event))).collect()
}

#[tokio::test]
async fn what_does_not_match_is_not_sent_and_the_cursor_passes_it() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let open = async |currency: &str| {
        instance.make_item(json!({ "currency": currency, "per_buyer_limit": 9 })).await
    };
    let (yen, euros, more) = (open("JPY").await, open("EUR").await, open("EUR").await);
    let receivers = join_all((0..4).map(|_| TestReceiver::start())).await;
    let mut ids = Vec::new();
    for (receiver, filter) in receivers.iter().zip([
        json!({}),
        json!({ "items": [more] }),
        json!({ "currencies": ["JPY"] }),
        json!({ "types": ["offers.changed"] }),
    ]) {
        ids.push(subscribe_to(&instance, receiver, filter).await);
    }
    let buyer = instance.buyer(1);
    for item in [yen, euros, more, euros, yen] {
        assert_eq!(buyer.buy("mysql-atomic", item).await.status, 201);
    }
    // An order with a line of a wanted item is told as a whole.
    let cart = json!({ "lines": [{ "item_id": euros }, { "item_id": more }] });
    assert_eq!(buyer.post("/api/reservations", &cart).await.status, 201);
    for id in &ids {
        until_at(&instance, *id, 6).await;
    }
    let all = [(1, yen), (2, euros), (3, more), (4, euros), (5, yen), (6, euros)];
    let part = |positions: &[i64]| -> Vec<(i64, Vec<i64>)> {
        let wanted = all.iter().filter(|(position, _)| positions.contains(position));
        wanted.map(|(position, item)| (*position, vec![*item])).collect()
    };
    assert_eq!(got(&receivers[0]), part(&[1, 2, 3, 4, 5, 6]));
    assert_eq!(got(&receivers[1]), part(&[3, 6]));
    assert_eq!(got(&receivers[2]), part(&[1, 5]));
    assert_eq!(receivers[3].requests(), 0, "nothing matched");
    let cart = &receivers[1].distinct_events()[1]["data"]["orders"][0];
    assert_eq!(cart["lines"].as_array().map(Vec::len), Some(2), "{cart}");
    // Nobody has to guess whether a position was left out or lost.
    assert!(receivers[0].covers().is_empty(), "as before without a filter");
    for (receiver, wanted) in [(&receivers[1], [3, 6]), (&receivers[2], [1, 5])] {
        let mut next = 1;
        for (first, last) in receiver.covers() {
            // Positions between two messages do not match.
            let left_out: Vec<_> =
                wanted.iter().filter(|&&it| (next..first).contains(&it)).collect();
            assert!(left_out.is_empty(), "{left_out:?} before {first}");
            next = last + 1;
        }
        assert!(next > wanted[1], "all that was sent is covered: {next}");
    }

    // A filter can be changed, and delivers nothing that the cursor has passed.
    let path = format!("/api/admin/endpoints/{}", ids[3]);
    let admin = instance.admin();
    admin.patch(&path, &json!({ "filter": { "items": [yen] } })).await.expect_status(204);
    assert_eq!(endpoint(&instance, ids[3]).await["filter"], json!({ "items": [yen] }));
    assert_eq!(buyer.buy("mysql-atomic", yen).await.status, 201);
    until_at(&instance, ids[3], 7).await;
    assert_eq!(got(&receivers[3]), [(7, vec![yen])]);
    // A replay delivers it.
    admin.post(&format!("{path}/replays"), &json!({ "first": 1 })).await.expect_status(202);
    eventually("the replay", || async {
        let mut positions: Vec<i64> = got(&receivers[3]).into_iter().map(|(it, _)| it).collect();
        positions.sort_unstable();
        when(positions == [1, 5, 7], positions)
    })
    .await;
    let log = admin.get("/api/admin/actions").await.text;
    for action in ["endpoint_filtered", "events_replayed"] {
        assert_eq!(log.matches(action).count(), 1, "{action}: {log}");
    }
}

/// An instance that works on a replay while the filter is changed does not take the next replay by the old filter.
#[tokio::test]
async fn a_replay_after_a_change_of_the_filter_is_by_the_new_one() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let item = instance.make_item(json!({})).await;
    let receiver = TestReceiver::start().await;
    let id = subscribe_to(&instance, &receiver, json!({ "types": ["offers.changed"] })).await;
    instance.buyer(1).buy("mysql-atomic", item).await.expect_status(201);
    until_at(&instance, id, 1).await;
    let director = Director::of(&[id]);
    let path = format!("/api/admin/endpoints/{id}");
    let replay = async || {
        let replays = format!("{path}/replays");
        instance.admin().post(&replays, &json!({ "first": 1 })).await.expect_status(202);
    };
    replay().await;
    let arrival = director.arrival(id, "replay-read");
    tokio::time::timeout(RECOVERY_MAX, arrival).await.expect("the first replay is read");
    instance.admin().patch(&path, &json!({ "filter": {} })).await.expect_status(204);
    replay().await;
    drop(director);
    let times = || async { receiver.times_of_position(1) };
    until("both replays", times, |times| *times >= 2).await;
}

#[tokio::test]
async fn a_refused_event_becomes_a_dead_letter_among_those_that_do_not_match() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let wanted = instance.make_item(json!({ "per_buyer_limit": 9 })).await;
    let other = instance.make_item(json!({ "per_buyer_limit": 9 })).await;
    let receiver = TestReceiver::start().await;
    receiver.answer(Answering::RefusePosition(4));
    let id = subscribe_to(&instance, &receiver, json!({ "items": [wanted] })).await;
    let buyer = instance.buyer(1);
    for item in [wanted, other, other, wanted, other, wanted] {
        assert_eq!(buyer.buy("mysql-atomic", item).await.status, 201);
    }
    until_at(&instance, id, 6).await;
    assert_eq!(got(&receiver).iter().map(|(it, _)| *it).collect::<Vec<_>>(), [1, 6]);
    let letters = format!("/api/admin/endpoints/{id}/dead-letters");
    let letters = instance.admin().get(&letters).await.json;
    assert_eq!(letters["dead_letters"][0]["position"], 4, "{letters}");
    assert_eq!(letters["dead_letters"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn a_filter_names_only_what_there_is() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let admin = instance.admin();
    let target = "https://shop.example/in";
    for wrong in [
        json!({ "types": ["orders.deleted"] }),
        json!({ "items": [0] }),
        json!({ "currencies": ["eur"] }),
        json!({ "items": (1..=101).collect::<Vec<i64>>() }),
    ] {
        let body = json!({ "target": target, "filter": wrong });
        let refused = admin.post("/api/admin/endpoints", &body).await;
        assert_problem(&refused, (422, "invalid_filter"), &wrong.to_string());
    }
    for list in ["types", "items", "currencies"] {
        let body = json!({ "target": target, "filter": { list: [] } });
        let refused = admin.post("/api/admin/endpoints", &body).await;
        assert_problem(&refused, (422, "invalid_type"), &body.to_string());
    }
    let unknown = json!({ "target": target, "filter": { "buyers": [1] } });
    assert_problem(&admin.post("/api/admin/endpoints", &unknown).await, (422, "unknown_field"), "");
    let receiver = TestReceiver::start().await;
    let id = subscribe_to(&instance, &receiver, json!({ "items": [7] })).await;
    let path = format!("/api/admin/endpoints/{id}");
    assert_problem(&admin.patch(&path, &json!({})).await, (422, "missing_field"), "no change");
    let wrong = json!({ "filter": { "items": [-1] } });
    assert_problem(&admin.patch(&path, &wrong).await, (422, "invalid_filter"), "an item");
    // A filter of a later build is not guessed: nothing is sent.
    shop.change(sqlx::query("UPDATE event_endpoints SET filter = '{\"buyers\":[1]}'")).await;
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    let has_failed = |seen: &Value| seen["last_error"].is_string() && seen["filter"].is_null();
    until_endpoint(&instance, id, has_failed).await;
    assert_eq!(receiver.requests(), 0);
    admin.patch(&path, &json!({ "filter": {} })).await.expect_status(204);
    until_at(&instance, id, 1).await;
    assert_eq!(got(&receiver), [(1, vec![item])]);
}
