//! Endpoints: which addresses they may have, who may change them, and how far behind they may be.

use super::*;

#[tokio::test]
async fn a_webhook_never_reaches_into_a_private_network() {
    let (_shop, instance) = Shop::open_with(|config| {
        config.events.enabled = true;
        config.sections.set("events", "poll_ms", 20);
        config.sections.set("events", "pause_seconds_max", 1);
    })
    .await;
    let receiver = TestReceiver::start().await;
    let port =
        receiver.url().rsplit(':').next().expect("a port").trim_end_matches("/in").to_owned();
    let item = instance.make_item(json!({})).await;
    let mut endpoints = Vec::new();
    // As an address, as a name, and in disguise.
    for host in ["127.0.0.1", "localhost", "[::ffff:127.0.0.1]"] {
        for scheme in ["http", "https"] {
            let body = json!({ "target": format!("{scheme}://{host}:{port}/in") });
            let created = instance.admin().post("/api/admin/endpoints", &body).await;
            endpoints.push(created.json["id"].as_i64().expect("an id"));
        }
    }
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    for id in endpoints {
        let is_refused = |error: &str| error.contains("not permitted");
        until_endpoint(&instance, id, |seen| seen["last_error"].as_str().is_some_and(is_refused))
            .await;
    }
    assert_eq!(receiver.connections(), 0, "nobody connected");
    for target in ["ftp://shop.example", "https://me:pw@shop.example/", "shop.example"] {
        let refused =
            instance.admin().post("/api/admin/endpoints", &json!({ "target": target })).await;
        assert_eq!(refused.brief(), (422, "invalid_target"), "{target}");
    }
}

#[tokio::test]
async fn operators_switch_and_delete_endpoints() {
    let (_shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    let id = subscribe(&instance, &receiver).await;
    let path = format!("/api/admin/endpoints/{id}");
    let admin = instance.admin();
    assert_eq!(admin.patch(&path, &json!({ "enabled": false })).await.status, 204);
    let item = instance.make_item(json!({})).await;
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    admin.until("/api/admin/endpoints", |seen| seen.json["last"] == 1).await;
    assert_eq!(receiver.requests(), 0, "it is switched off");
    assert_eq!(admin.patch(&path, &json!({ "enabled": true })).await.status, 204);
    until("the event that waited", || async { receiver.requests() }, |sent| *sent > 0).await;
    admin.delete(&path).await.expect_status(204);
    let gone = admin.patch(&path, &json!({ "enabled": true })).await;
    assert_eq!(gone.brief(), (404, "endpoint_not_found"));
    let actions = admin.get("/api/admin/actions").await.json;
    let names = actions["actions"].as_array().expect("lines").iter();
    let names: Vec<&str> = names.filter_map(|line| line["action"].as_str()).collect();
    let done = "endpoint_deleted endpoint_switched item_created endpoint_switched endpoint_created";
    assert_eq!(names.join(" "), done);
    assert!(!actions.to_string().contains("whsec_"), "the secret is not in the log");
}

#[tokio::test]
async fn old_events_are_deleted_and_an_endpoint_that_is_too_far_behind_is_switched_off() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    receiver.answer(Answering::Status(503));
    let id = subscribe(&instance, &receiver).await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    sell(&instance, item, 2).await;
    let behind = format!("seckill_events_behind{{endpoint=\"{id}\"}} 2");
    until_metric(&instance.stranger(), &behind).await;
    // Old events wait for an endpoint that is new.
    for aged in [
        "UPDATE event_endpoints SET created_at = created_at - INTERVAL 2 HOUR",
        "UPDATE event_log SET created_at = created_at - INTERVAL 30 DAY WHERE position = 1",
    ] {
        shop.change(sqlx::query(aged)).await;
    }
    let seen = until_endpoint(&instance, id, |seen| seen["enabled"] == false).await;
    assert!(seen["last_error"].to_string().contains("switched off"), "{seen}");
    instance.until_events(1).await;
}

/// A receiver that refused an event for long can still get it; then it is as old as the others.
#[tokio::test]
async fn a_dead_letter_is_kept_until_it_was_replayed() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let receiver = TestReceiver::start().await;
    receiver.answer(Answering::RefusePosition(2));
    let id = subscribe(&instance, &receiver).await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    sell(&instance, item, 3).await;
    let is_aside = |seen: &Value| seen["delivered"] == 3 && seen["dead_letters"] == 1;
    until_endpoint(&instance, id, is_aside).await;
    for aged in [
        "UPDATE event_endpoints SET created_at = created_at - INTERVAL 2 HOUR",
        "UPDATE event_log SET created_at = created_at - INTERVAL 30 DAY",
    ] {
        shop.change(sqlx::query(aged)).await;
    }
    instance.until_events(1).await;
    receiver.answer(Answering::Status(200));
    let replays = format!("/api/admin/endpoints/{id}/replays");
    let second = json!({ "first": 2, "last": 2 });
    instance.admin().post(&replays, &second).await.expect_status(202);
    until("the second order", || async { told(&receiver).len() }, |told| *told == 3).await;
    instance.until_events(0).await;
}

/// An endpoint that begins at the start of the log and whose receiver is not ready yet: old events wait for it.
#[tokio::test]
async fn old_events_wait_for_a_new_endpoint() {
    let (shop, instance) = shop_with_events().await.opened().await;
    let item = instance.make_item(json!({ "per_buyer_limit": 5 })).await;
    sell(&instance, item, 2).await;
    let receiver = TestReceiver::start().await;
    receiver.answer(Answering::Status(503));
    let body = json!({ "target": receiver.url(), "from_start": true });
    let id = subscribe_by(&instance, &receiver, &body).await;
    until("a first try", || async { receiver.requests() }, |tried| *tried > 0).await;
    let age = "UPDATE event_log SET created_at = created_at - INTERVAL 30 DAY";
    shop.change(sqlx::query(age)).await;
    // The job that deletes has run since: two runs end, because one may have begun before.
    let runs = async || {
        let metrics = instance.stranger().get("/metrics").await.text;
        let count = metrics.lines().find_map(|line| {
            line.strip_prefix(r#"seckill_job_runs_total{job="events",result="ok"} "#)
        });
        count.map_or(0, |count| count.parse::<u64>().expect("a number"))
    };
    let before = runs().await;
    until("two runs of the job", || async { runs().await }, |now| *now >= before + 2).await;
    assert_eq!(endpoint(&instance, id).await["enabled"], true);
    receiver.answer(Answering::Status(200));
    until("both orders", || async { told(&receiver).len() }, |told| *told == 2).await;
    instance.until_events(0).await;
}
