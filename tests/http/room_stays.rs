//! A queue token, a proof of work and a ticket are of one stay in the line: what it has ended with is worth nothing
//! in the next.

use super::one_line::{inside, redis_time};
use super::waiting_room::{buy, item, leave, place, shop_with, solved, stand, ticket};
use crate::support::prelude::*;

/// Eight buyers join while nobody is there, at the price of nothing, and leave. When the line is long, they show what
/// they have kept.
#[tokio::test]
async fn what_a_stay_of_before_cost_makes_no_turn_cheaper() {
    const ATTACKERS: std::ops::Range<i64> = 20..28;
    let shop = shop_with(|room| {
        (room.per_second, room.proof_bits_max) = (1_000, 3);
        (room.silent_seconds, room.ticket_seconds) = (300, 3_000);
    })
    .await;
    let instance = shop.start().await;
    let sold = item(&instance, json!({})).await;
    let pause = async |paused: bool| {
        assert_eq!(instance.admin().edit(sold, json!({ "paused": paused })).await.status, 200);
    };
    pause(true).await;
    let mut kept = Vec::new();
    for id in ATTACKERS {
        let free = stand(&instance.buyer(id), sold, json!({})).await;
        assert_eq!(free.json["proof_bits"], 0, "nobody is there");
        leave(&instance.buyer(id), sold).await;
        // One other waits: the cheapest work that there is.
        place(&stand(&instance.buyer(1), sold, json!({})).await);
        let cheap = stand(&instance.buyer(id), sold, json!({})).await;
        assert_eq!(cheap.json["proof_bits"], 1);
        leave(&instance.buyer(id), sold).await;
        leave(&instance.buyer(1), sold).await;
        kept.push((id, place(&free).to_owned(), solved(&cheap)));
    }
    for id in 1..=10 {
        place(&stand(&instance.buyer(id), sold, json!({})).await);
    }
    for (id, held, _) in &kept {
        let shown = stand(&instance.buyer(*id), sold, json!({ "place": held })).await;
        assert_eq!(shown.json["proof_bits"], 3, "a long line: {}", shown.text);
    }
    // Their turn: all others are silent.
    pause(false).await;
    instance.clock.shift(time::Duration::seconds(301));
    for (id, held, cheap) in &kept {
        let buyer = instance.buyer(*id);
        for shown in
            [json!({ "place": held }), json!({ "place": held, "altcha": cheap }), json!({})]
        {
            stand(&buyer, sold, shown).await.expect_problem(403, "challenge_failed");
        }
        let refused = stand(&buyer, sold, json!({})).await;
        ticket(&stand(&buyer, sold, json!({ "altcha": solved(&refused) })).await);
    }
}

/// A proof is in time by the clock that its challenge was made by.
#[tokio::test]
async fn a_proof_that_comes_too_late_admits_nobody() {
    let shop = shop_with(|room| {
        (room.per_second, room.proof_bits_max) = (1_000, 3);
        (room.silent_seconds, room.ticket_seconds) = (3_000, 3_000);
    })
    .await;
    let instance = shop.start().await;
    let sold = item(&instance, json!({})).await;
    assert_eq!(instance.admin().edit(sold, json!({ "paused": true })).await.status, 200);
    place(&stand(&instance.buyer(1), sold, json!({})).await);
    let proof = solved(&stand(&instance.buyer(2), sold, json!({})).await);
    instance.clock.shift(time::Duration::seconds(601));
    assert_eq!(instance.admin().edit(sold, json!({ "paused": false })).await.status, 200);
    ticket(&stand(&instance.buyer(1), sold, json!({})).await);
    let late = stand(&instance.buyer(2), sold, json!({ "altcha": proof })).await;
    assert_problem(&late, (403, "challenge_failed"), "eleven minutes");
    ticket(&stand(&instance.buyer(2), sold, json!({ "altcha": solved(&late) })).await);
}

/// Two may be inside. Thirty take a ticket and give it back, and then come with it.
#[tokio::test]
async fn a_ticket_that_was_given_back_buys_nothing() {
    let shop = shop_with(|room| {
        (room.per_second, room.inside_max, room.ticket_seconds) = (100_000, 2, 3_000);
    })
    .await;
    let (one, two) = (shop.start().await, shop.start().await);
    let sold = item(&one, json!({ "stock": 100, "per_buyer_limit": 2 })).await;
    let mut given_back = Vec::new();
    for id in 1..=30 {
        let held = ticket(&stand(&one.buyer(id), sold, json!({})).await).to_owned();
        leave(&two.buyer(id), sold).await;
        given_back.push((id, held));
    }
    for (id, held) in &given_back {
        for instance in [&one, &two] {
            buy(&instance.buyer(*id), sold, held).await.expect_problem(403, "ticket_expired");
        }
    }
    let line = json!({ "lines": [{ "item_id": sold, "quantity": 1, "ticket": given_back[0].1 }] });
    one.buyer(1).post("/api/reservations", &line).await.expect_problem(403, "ticket_expired");
    assert_eq!(one.audit(sold).await["orders"], 0);
    // Whoever joins again has another ticket, which is good until its end, also after a purchase.
    let again = ticket(&stand(&one.buyer(1), sold, json!({})).await).to_owned();
    assert_ne!(again, given_back[0].1);
    for instance in [&one, &two] {
        assert_eq!(buy(&instance.buyer(1), sold, &again).await.status, 201);
    }
    buy(&two.buyer(1), sold, &given_back[0].1).await.expect_problem(403, "ticket_expired");
}

/// Buyer 2, whose ticket ends last, leaves first; buyer 1 leaves within the last second of the own ticket.
#[tokio::test]
async fn a_ticket_that_was_given_back_stays_so_when_others_end() {
    let shop = shop_with(|room| (room.per_second, room.ticket_seconds) = (100_000, 300)).await;
    let instance = shop.start().await;
    let sold = item(&instance, json!({ "stock": 10 })).await;
    let seconds = |seconds| instance.clock.shift(time::Duration::seconds(seconds));
    ticket(&stand(&instance.buyer(1), sold, json!({})).await);
    seconds(200);
    let held = ticket(&stand(&instance.buyer(2), sold, json!({})).await).to_owned();
    leave(&instance.buyer(2), sold).await;
    seconds(99);
    leave(&instance.buyer(1), sold).await;
    // By the clock of Redis, until a key that lives for a second from now on is gone.
    let began = redis_time(&shop).await;
    until(BOUND, || redis_time(&shop), |now| *now >= began + 2.0).await;
    buy(&instance.buyer(2), sold, &held).await.expect_problem(403, "ticket_expired");
}

/// A buyer is out after a purchase. The tickets in hand are given back all the same, also those of earlier stays.
#[tokio::test]
async fn whoever_has_bought_gives_all_tickets_back() {
    let shop = shop_with(|room| (room.per_second, room.ticket_seconds) = (100_000, 3_000)).await;
    let instance = shop.start().await;
    let sold = item(&instance, json!({ "stock": 10, "per_buyer_limit": 9 })).await;
    let buyer = instance.buyer(1);
    let bought_with = async || {
        let held = ticket(&stand(&buyer, sold, json!({})).await).to_owned();
        assert_eq!(buy(&buyer, sold, &held).await.status, 201);
        until(BOUND, || inside(&shop, sold), |seen| *seen == 0).await;
        held
    };
    let held = [bought_with().await, bought_with().await];
    assert_eq!(buy(&buyer, sold, &held[0]).await.status, 201, "good until its end");
    leave(&instance.buyer(1), sold).await;
    for given_back in &held {
        assert_problem(&buy(&buyer, sold, given_back).await, (403, "ticket_expired"), "given back");
    }
    let again = ticket(&stand(&buyer, sold, json!({})).await).to_owned();
    assert_eq!(buy(&buyer, sold, &again).await.status, 201, "a ticket of a new stay");
}
