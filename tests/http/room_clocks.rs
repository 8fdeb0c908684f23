//! Wrong clocks: the server's of Redis, which is set right again, and one instance's.

use time::Duration;

use super::waiting_room::{
    buy, item, place, shop_with, slow_shop, stand, text, ticket, until_admitted,
};
use crate::process::program::faketime;
use crate::support::prelude::*;

/// Buyer 1 was admitted, and buyer 2 joined, while the clock was an hour ahead; both go away. The others wait for no
/// hour.
#[tokio::test]
async fn a_clock_of_redis_that_is_set_right_stops_no_line() {
    let shop = shop_with(|room| {
        (room.per_second, room.inside_max) = (1_000, 1);
        (room.silent_seconds, room.ticket_seconds) = (6, 8);
    })
    .await;
    let instance = shop.start().await;
    let sold = item(&instance, json!({ "stock": 10 })).await;
    instance.clock.shift(Duration::HOUR);
    let early = ticket(&stand(&instance.buyer(1), sold, json!({})).await).to_owned();
    place(&stand(&instance.buyer(2), sold, json!({})).await);
    instance.clock.shift(-Duration::HOUR);
    place(&stand(&instance.buyer(3), sold, json!({})).await);
    buy(&instance.buyer(1), sold, &early).await.expect_problem(403, "ticket_expired");
    // The ticket of buyer 1 ends, and then buyer 2 has been silent for long enough.
    let admitted = until_admitted(&instance.buyer(3), sold, json!({})).await;
    assert_eq!(buy(&instance.buyer(3), sold, ticket(&admitted)).await.status, 201);
}

/// As before, with the rate alone: one buyer in a second.
#[tokio::test]
async fn a_clock_of_redis_that_is_set_right_does_not_stop_the_rate() {
    let (_shop, instance) = slow_shop().await.opened().await;
    let sold = item(&instance, json!({ "stock": 10 })).await;
    instance.clock.shift(Duration::HOUR);
    ticket(&stand(&instance.buyer(1), sold, json!({})).await);
    instance.clock.shift(-Duration::HOUR);
    until_admitted(&instance.buyer(2), sold, json!({})).await;
}

/// An instance whose clock is an hour ahead takes a sale for open, and each ticket for over. Redis' clock decides.
#[tokio::test]
async fn an_instance_with_a_wrong_clock_neither_opens_a_line_nor_ends_tickets() {
    let shop = shop_with(|room| (room.per_second, room.silent_seconds) = (1_000, 3_000)).await;
    let (right, ahead) = (shop.start().await, shop.start().await);
    // Only signs sessions that are good by the wrong clock.
    ahead.clock.shift(Duration::HOUR);
    let now = right.clock.now();
    let schedule =
        |starts_at| json!({ "starts_at": text(starts_at), "ends_at": text(now + Duration::DAY) });
    let sold = item(&right, schedule(now + Duration::minutes(10))).await;
    let addr = free_addr();
    let library = faketime();
    let settings = [
        ("SECKILL_WAITING_ROOM_PER_SECOND", "1000"),
        ("SECKILL_WAITING_ROOM_SILENT_SECONDS", "3000"),
        ("LD_PRELOAD", library.to_str().expect("a path")),
        ("FAKETIME", "+3600s"),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
    ];
    let _process = serve(&shop, &addr, &settings).await;
    let addr = addr.parse().expect("an address");
    let wrong = |buyer| Client::new(addr, Some(ahead.token(buyer, Role::Buyer)));

    for (id, buyer) in [(1, right.buyer(1)), (2, wrong(2)), (3, right.buyer(3)), (4, wrong(4))] {
        let told = stand(&buyer, sold, json!({})).await;
        place(&told);
        let early = (&told.json["number"], &told.json["drawing"], &told.json["estimate_basis"]);
        assert_eq!(early, (&Value::Null, &json!(false), &json!("opening")), "buyer {id}");
    }
    right.admin().edit(sold, schedule(now - Duration::SECOND)).await.expect_status(200);
    for (id, buyer) in [(1, right.buyer(1)), (2, wrong(2))] {
        let admitted = until_admitted(&buyer, sold, json!({})).await;
        buy(&wrong(id), sold, ticket(&admitted)).await.expect_status(201);
    }
}
