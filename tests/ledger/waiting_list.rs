//! Buyers who wait for units that come back: first come, first served, in the ledger.

mod busy;
mod rush;
mod timeline;

use std::ops::RangeInclusive;

use crate::support::prelude::*;

fn path(item: i64) -> String {
    format!("/api/items/{item}/waiting")
}

async fn join(client: &Client, item: i64) -> Answer {
    client.post(&path(item), &json!({})).await
}

/// Buyers with these ids join the line, one after the other.
async fn all_join(instance: &Instance, buyers: RangeInclusive<i64>, item: i64) {
    for buyer in buyers {
        join(&instance.buyer(buyer), item).await.expect_status(200);
    }
}

async fn leave(client: &Client, item: i64) -> Answer {
    client.delete(&path(item)).await
}

async fn accept(client: &Client, item: i64, key: &str) -> Answer {
    let request = client.request(Method::POST, &format!("{}/purchase", path(item)));
    Client::send(request.header("idempotency-key", key)).await
}

/// The status of a buyer's place.
async fn status(instance: &Instance, buyer: i64, item: i64) -> Value {
    instance.buyer(buyer).get(&path(item)).await.json["status"].clone()
}

async fn until_status(instance: &Instance, buyer: i64, item: i64, expected: &str) {
    let what = format!("buyer {buyer} {expected}");
    until(&what, || status(instance, buyer, item), |seen| *seen == expected).await;
}

async fn shop() -> (Shop, Instance) {
    Shop::open_with(|config| {
        config.job.expire_period_ms = 20;
        config.waiting_list.sweep_ms = 20;
        config.purchase.item_age_ms_max = 0;
        config.events.enabled = true;
        config.sections.set("events", "poll_ms", 20);
    })
    .await
}

/// An item whose units are sold to the buyers 1, 2 and so on; answers their orders.
async fn sold_out(instance: &Instance, stock: i64, changes: Value) -> (i64, Vec<String>) {
    let body = json!({ "stock": stock, "hold_seconds": 900, "strategy": "mysql-atomic" });
    let item = instance.make_item(changed(body, changes)).await;
    let mut orders = Vec::new();
    for buyer in 1..=stock {
        orders.push(order_id(&instance.buyer(buyer).buy("default", item).await));
    }
    (item, orders)
}

/// What the audit that shares no code with the service finds in an item's line; nothing if all is well.
async fn faults_of_the_line(shop: &Shop, item: i64) -> Vec<String> {
    let mut reader =
        ledger_audit::Reader::connect(shop.config.database_url.reveal()).await.expect("a reader");
    let ledger = reader.ledger(item).await.expect("the ledger");
    ledger_audit::faults_of_line(&ledger).examples
}

#[tokio::test]
async fn a_cancelled_unit_goes_to_the_first_buyer_who_waits_and_to_nobody_else() {
    let (_shop, instance) = shop().await;
    // The counter in Redis is loaded, so that it must not see the unit either.
    let (item, orders) = sold_out(&instance, 2, json!({ "strategy": "redis-lua" })).await;
    for (buyer, ahead) in [(11, 0), (12, 1), (13, 2)] {
        let place = join(&instance.buyer(buyer), item).await.expect_status(200).json;
        assert_eq!((&place["status"], &place["ahead"]), (&json!("waiting"), &json!(ahead)));
    }
    let again = join(&instance.buyer(11), item).await;
    assert_eq!(again.json["ahead"], 0, "a second request is the same place");
    let mut events = instance.buyer(11).events("/api/orders/events").await;

    assert_eq!(instance.buyer(1).step(&orders[0], "cancellation").await.status, 200);
    let offered = instance.buyer(11).get(&path(item)).await.json;
    assert_eq!(offered["status"], "offered", "{offered}");
    let told = |event: &Event| event.name == "waiting" && event.data["status"] == "offered";
    let told = events.seek(BOUND, told).await.expect("the offer is told");
    assert_eq!(told.data["offer_expires_at"], offered["offer_expires_at"]);
    assert_eq!(status(&instance, 12, item).await, "waiting");
    assert_eq!(available(&instance, item).await, 0);
    for strategy in ["mysql-atomic", "mysql-batch", "redis-lua", "lock-redis"] {
        let rush = instance.buyer(99).buy(strategy, item).await;
        assert_eq!(rush.brief(), (409, "sold_out"), "{strategy} saw the offered unit");
    }
    accept(&instance.buyer(12), item, "k").await.expect_problem(409, "no_offer");
    assert_eq!(assert_clean(&instance, item).await["offered"], 1);

    let bought = accept(&instance.buyer(11), item, "k").await.expect_status(201);
    assert_eq!(bought.json["strategy"], "waiting-list");
    let replayed = accept(&instance.buyer(11), item, "k").await;
    assert_eq!((replayed.status, &replayed.json["id"]), (201, &bought.json["id"]));
    assert_eq!(replayed.headers["idempotency-replayed"], "true");
    accept(&instance.buyer(11), item, "other").await.expect_problem(409, "limit_reached");
    let place = instance.buyer(11).get(&path(item)).await.json;
    assert_eq!((&place["status"], &place["order_id"]), (&json!("accepted"), &bought.json["id"]));
    assert_problem(&join(&instance.buyer(11), item).await, (409, "limit_reached"), "at the limit");
    // A bought unit that is cancelled goes to the next one.
    instance.buyer(11).step(&order_id(&bought), "cancellation").await;
    assert_eq!(status(&instance, 12, item).await, "offered");
    let audit = assert_clean(&instance, item).await;
    assert_eq!(["offered", "available", "held"].map(|figure| &audit[figure]), [1, 0, 1]);

    let statuses = eventually("the events of the offers", || async {
        let log = instance.admin().get("/api/admin/events").await.json;
        let events = log["events"].as_array().cloned().unwrap_or_default();
        let offers = events.iter().filter(|event| event["type"] == "offers.changed");
        let statuses: Vec<_> =
            offers.map(|event| event["data"]["offers"][0]["status"].clone()).collect();
        when(statuses.len() == 3, statuses)
    })
    .await;
    assert_eq!(statuses, ["offered", "accepted", "offered"]);
}

#[tokio::test]
async fn an_offer_that_lapses_is_declined_or_expires_with_its_order_goes_to_the_next_one() {
    let (shop, instance) = shop().await;
    let (item, _) = sold_out(&instance, 1, json!({ "offer_seconds": 600 })).await;
    all_join(&instance, 11..=14, item).await;
    assert_eq!(leave(&instance.buyer(12), item).await.status, 204);
    assert_eq!(leave(&instance.buyer(12), item).await.status, 204, "once more changes nothing");
    shop.let_holds_pass(900).await;
    until_status(&instance, 11, item, "offered").await;
    shop.let_holds_pass(601).await;
    until_status(&instance, 13, item, "offered").await;
    assert_eq!(status(&instance, 11, item).await, "lapsed");
    assert_problem(&accept(&instance.buyer(11), item, "late").await, (409, "no_offer"), "too late");
    assert_eq!(leave(&instance.buyer(13), item).await.status, 204);
    assert_eq!(status(&instance, 13, item).await, "left");
    assert_eq!(status(&instance, 14, item).await, "offered");
    // Nobody is left: the unit is everybody's.
    assert_eq!(leave(&instance.buyer(14), item).await.status, 204);
    assert_eq!(available(&instance, item).await, 1);
    assert_problem(&join(&instance.buyer(11), item).await, (409, "units_left"), "no need to wait");
    assert_eq!(instance.buyer(99).buy("mysql-atomic", item).await.status, 201);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn an_offer_is_over_at_its_time_although_nobody_has_swept_it_yet() {
    let (shop, instance) = Shop::open_with(|config| config.waiting_list.sweep_ms = 60_000).await;
    let (item, orders) = sold_out(&instance, 1, json!({ "offer_seconds": 60 })).await;
    join(&instance.buyer(11), item).await;
    instance.buyer(1).step(&orders[0], "cancellation").await;
    shop.let_holds_pass(60).await;
    assert_eq!(status(&instance, 11, item).await, "offered");
    assert_problem(&accept(&instance.buyer(11), item, "k").await, (409, "no_offer"), "too late");
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn restocked_units_go_to_the_line_first_and_the_rest_to_everybody() {
    let (_shop, instance) = shop().await;
    let (item, _) = sold_out(&instance, 1, json!({ "strategy": "redis-lua" })).await;
    all_join(&instance, 11..=13, item).await;
    let edit = format!("/api/admin/items/{item}");
    let edited = instance.admin().patch(&edit, &json!({ "stock_delta": 2 })).await;
    assert_eq!((edited.status, &edited.json["available"]), (200, &json!(0)), "{}", edited.text);
    assert_eq!(status(&instance, 12, item).await, "offered");
    let edited = instance.admin().patch(&edit, &json!({ "stock_delta": 3 })).await;
    assert_eq!(edited.json["available"], 2);
    assert_eq!(status(&instance, 13, item).await, "offered");
    let live = instance.admin().get(&format!("{edit}/live")).await.json;
    assert_eq!((&live["offered"], &live["waiting"]), (&json!(3), &json!(0)));
    // The counter in Redis has the two units, and no more.
    let clients: Vec<_> = (21..=24).map(|buyer| instance.buyer(buyer)).collect();
    let bought = join_all(clients.iter().map(|client| client.buy("redis-lua", item))).await;
    assert_eq!(bought.iter().filter(|answer| answer.status == 201).count(), 2);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn a_pause_and_the_end_of_the_sale_end_the_line() {
    let (_shop, instance) = shop().await;
    let (item, orders) = sold_out(&instance, 2, json!({})).await;
    all_join(&instance, 11..=12, item).await;
    instance.buyer(1).step(&orders[0], "cancellation").await;
    let paused = instance.admin().edit(item, json!({ "paused": true })).await;
    assert_eq!(paused.json["available"], 1, "the offered unit is back");
    for buyer in 11..=12 {
        assert_eq!(status(&instance, buyer, item).await, "ended");
    }
    assert_problem(&accept(&instance.buyer(11), item, "k").await, (409, "sale_paused"), "paused");
    assert_problem(&join(&instance.buyer(11), item).await, (409, "sale_paused"), "paused");
    instance.buyer(2).step(&orders[1], "cancellation").await;
    assert_eq!(available(&instance, item).await, 2, "nobody waits any more");
    assert_clean(&instance, item).await;

    let (item, orders) = sold_out(&instance, 2, json!({})).await;
    all_join(&instance, 11..=12, item).await;
    instance.buyer(1).step(&orders[0], "cancellation").await;
    instance.clock.shift(time::Duration::days(2));
    until_status(&instance, 11, item, "ended").await;
    until_status(&instance, 12, item, "ended").await;
    assert_eq!(available(&instance, item).await, 1);
    assert_problem(&join(&instance.buyer(13), item).await, (409, "sale_ended"), "over");
    assert_problem(&accept(&instance.buyer(11), item, "k").await, (409, "sale_ended"), "over");
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn who_cannot_wait_is_told_why() {
    let (_shop, instance) = shop().await;
    let (item, _) = sold_out(&instance, 1, json!({ "per_buyer_limit": 2 })).await;
    assert_problem(&join(&instance.buyer(9), 999_999).await, (404, "item_not_found"), "no item");
    assert_eq!(join(&instance.buyer(1), item).await.status, 200, "below the limit");
    assert_eq!(status(&instance, 8, item).await, "none");
    let (none, _) = sold_out(&instance, 1, json!({ "offer_seconds": 0 })).await;
    assert_problem(&join(&instance.buyer(9), none).await, (409, "no_waiting_list"), "switched off");
    let unguarded = instance.make_item(json!({ "stock": 0, "arbiter": "off" })).await;
    assert_problem(&join(&instance.buyer(9), unguarded).await, (409, "no_waiting_list"), "lab");
    let ended = instance.admin().edit(item, json!({ "offer_seconds": 0 })).await;
    assert_eq!((ended.status, &ended.json["offer_seconds"]), (200, &json!(0)));
    assert_eq!(status(&instance, 1, item).await, "ended");
    let far = instance.admin().edit(item, json!({ "offer_seconds": 86_401 })).await;
    assert_problem(&far, (422, "offer_out_of_range"), "too long");
}

/// Returns, joins and purchases at the same moment: whatever their order, no unit lies idle while
/// a buyer waits, and no purchase gets a unit that a buyer in the line could have had.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn joining_and_returning_at_once_leaves_nobody_waiting_for_an_available_unit() {
    // No sweep: it would hide what the transactions miss.
    let shop = Shop::with(|config| config.waiting_list.sweep_ms = 60_000).await;
    let (one, two) = (shop.start().await, shop.start().await);
    let rounds = if is_whole() { 12 } else { 4 };
    for round in 0..rounds {
        let (item, orders) = sold_out(&one, 4, json!({})).await;
        let client = |id: i64| if id % 2 == 0 { one.buyer(id) } else { two.buyer(id) };
        let cancelled = orders.iter().zip(1..).map(|(order, id)| {
            let buyer = client(id);
            async move { buyer.step(order, "cancellation").await.status }
        });
        let joined = (11..=18).map(async |id| join(&client(id), item).await.code().to_owned());
        let rushed = (31..=36).map(async |id| client(id).buy("mysql-atomic", item).await.status);
        let (cancelled, joined, _) =
            tokio::join!(join_all(cancelled), join_all(joined), join_all(rushed));
        assert_eq!(cancelled, [200; 4], "round {round}");
        let is_told = |code: &String| ["", "units_left"].contains(&code.as_str());
        assert!(joined.iter().all(is_told), "{joined:?}");
        let audit = one.audit(item).await;
        assert_eq!(audit["clean"], true, "round {round}: {audit}");
    }
}

/// Otherwise the unit is everybody's, although a buyer in the line has an answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_unit_that_comes_back_waits_for_a_buyer_who_is_joining() {
    let (shop, instance) = Shop::open_with(|config| {
        // No sweep: it would hide what the transactions miss.
        config.waiting_list.sweep_ms = 60_000;
        config.mysql.lock_wait_timeout_seconds = 5;
    })
    .await;
    let (item, orders) = sold_out(&instance, 1, json!({})).await;
    let link = link_to_ledger(&shop).await;
    let far = shop.start_with(|config| config.database_url = Secret::new(link.url())).await;
    link.trap(Trap::at(b"INSERT INTO waiting_list").hold());
    let buyer = far.buyer(11);
    let joining = tokio::spawn(async move { join(&buyer, item).await });
    eventually("the buyer to join", || async { (link.held() == 1).then_some(()) }).await;
    let owner = instance.buyer(1);
    let cancelling = tokio::spawn(async move { owner.step(&orders[0], "cancellation").await });
    until_running(&shop.pool, "UPDATE stock SET available%", 1).await;
    link.mend();
    joining.await.expect("no panic").expect_status(200);
    cancelling.await.expect("no panic").expect_status(200);
    assert_eq!(status(&instance, 11, item).await, "offered");
    instance.buyer(99).buy("mysql-atomic", item).await.expect_problem(409, "sold_out");
    assert_clean(&instance, item).await;
}

/// Another request of the buyer commits the place while this one waits for its row.
#[tokio::test]
async fn the_slower_of_two_joins_finds_the_place_of_the_quicker() {
    let (shop, instance) = shop().await;
    let (item, _) = sold_out(&instance, 1, json!({})).await;
    let mut quicker = shop.pool.begin().await.expect("a transaction");
    let insert = "INSERT INTO waiting_list (item_id, user_id, status, live, joined_at) \
                  VALUES (?, 11, 'waiting', 1, UTC_TIMESTAMP(6))";
    sqlx::query(insert).bind(item).execute(&mut *quicker).await.expect("joined");
    let commit = async {
        until_running(&shop.pool, "INSERT INTO waiting_list%", 1).await;
        quicker.commit().await.expect("committed");
    };
    let buyer = instance.buyer(11);
    let (slower, ()) = tokio::join!(join(&buyer, item), commit);
    assert_eq!((slower.status, &slower.json["ahead"]), (200, &json!(0)), "{}", slower.text);
}

/// The place is committed before the buyers in front are counted.
#[tokio::test]
async fn a_join_whose_count_gets_no_answer_is_not_called_undone() {
    let (shop, instance) = shop().await;
    let (item, _) = sold_out(&instance, 1, json!({})).await;
    let link = link_to_ledger(&shop).await;
    let far = shop.start_with(|config| config.database_url = Secret::new(link.url())).await;
    link.trap(Trap::at(b"AND status = 'waiting' AND place < ?").always());
    let joined = join(&far.buyer(11), item).await;
    joined.assert_fields(503, json!({ "code": "dependency_unavailable", "outcome": "unknown" }));
    assert_eq!(status(&instance, 11, item).await, "waiting");
}

#[tokio::test]
async fn the_metrics_tell_of_lines_and_units_that_lie_idle() {
    let (shop, instance) = shop().await;
    let (item, orders) = sold_out(&instance, 1, json!({})).await;
    all_join(&instance, 11..=12, item).await;
    instance.buyer(1).step(&orders[0], "cancellation").await;
    eventually("the metrics", || async {
        let metrics = instance.stranger().get("/metrics").await.text;
        let lines = [
            "seckill_waiting_list_buyers 1\n",
            "seckill_waiting_list_offers 1\n",
            "seckill_waiting_list_idle_units 0\n",
            "seckill_waiting_list_places_total{status=\"offered\"} 1\n",
        ];
        when(lines.iter().all(|line| metrics.contains(line)), ())
    })
    .await;
    // As an instance of an older version would return a unit: the sweep offers it.
    let unit = "UPDATE stock SET total = total + 1, available = available + 1, version = version + 1 WHERE item_id = ?";
    shop.change(sqlx::query(unit).bind(item)).await;
    shop.change(sqlx::query("UPDATE items SET first_stock = NULL WHERE id = ?").bind(item)).await;
    until_status(&instance, 12, item, "offered").await;
    assert_clean(&instance, item).await;
}
