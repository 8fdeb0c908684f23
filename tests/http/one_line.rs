//! One line for all instances: numbers, the rate, the limit inside, and the places of buyers who came before the opening.

use gates::redis_store::room::{Leaving, Left, Room, RoomLimits, RoomPoll, RoomStatus};
use seckill::failpoint::ROOM_POINT;
use shop_domain::SaleWindow;
use time::Duration;

use super::waiting_room::{
    buy, item, leave, place, shop_with, slow_shop, stand, text, ticket, until_admitted, until_told,
};
use crate::support::prelude::*;

/// The key of a part of an item's room.
fn key(shop: &Shop, item: i64, part: &str) -> String {
    format!("{}{{item:{item}}}:room{part}", shop.config.redis.prefix)
}

pub(super) async fn inside(shop: &Shop, item: i64) -> u64 {
    shop.redis(&["ZCARD", &key(shop, item, ":inside")]).await
}

pub(super) async fn redis_time(shop: &Shop) -> f64 {
    let (seconds, micros): (u64, u64) = shop.redis(&["TIME"]).await;
    seconds as f64 + micros as f64 / 1e6
}

/// One poll of each buyer, at once, alternately on both instances; returns who is admitted.
async fn all_poll(instances: [&Instance; 2], buyers: &[i64], item: i64) -> HashSet<i64> {
    let polls = buyers.iter().map(|&id| async move {
        let buyer = instances[usize::try_from(id).expect("small") % 2].buyer(id);
        let answer = stand(&buyer, item, json!({})).await.expect_status(200);
        (answer.json["state"] == "admitted").then_some(id)
    });
    join_all(polls).await.into_iter().flatten().collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_number_is_given_twice_and_each_instance_says_the_same() {
    let shop = shop_with(|room| room.silent_seconds = 3_000).await;
    let (one, two) = (shop.start().await, shop.start().await);
    let sold = item(&one, json!({})).await;
    assert_eq!(one.admin().edit(sold, json!({ "paused": true })).await.status, 200);
    // Each buyer asks both instances at once.
    let joins = (1..=150).map(|id| {
        let (one, two) = (one.buyer(id), two.buyer(id));
        async move {
            let answers = tokio::join!(stand(&one, sold, json!({})), stand(&two, sold, json!({})));
            place(&answers.0);
            assert_eq!(answers.0.json["number"], answers.1.json["number"], "buyer {id}");
            answers.0.json["number"].as_u64().expect("a number")
        }
    });
    let numbers = join_all(joins).await;
    assert_eq!(numbers.iter().collect::<HashSet<_>>().len(), 150, "{numbers:?}");
    assert_eq!((numbers.iter().min(), numbers.iter().max()), (Some(&1), Some(&150)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_instances_admit_no_more_than_may_be_inside_and_exits_count() {
    let shop = shop_with(|room| {
        (room.per_second, room.inside_max, room.silent_seconds) = (100_000, 3, 3_000);
        room.ticket_seconds = 3_000;
    })
    .await;
    let (one, two) = (shop.start().await, shop.start().await);
    let sold = item(&one, json!({ "stock": 1_000 })).await;
    let mut waiting: Vec<i64> = (1..=40).collect();
    let mut in_shop: Vec<i64> = Vec::new();
    let poll = async |waiting: &mut Vec<i64>, in_shop: &mut Vec<i64>| {
        let admitted = all_poll([&one, &two], waiting, sold).await;
        waiting.retain(|id| !admitted.contains(id));
        in_shop.extend(admitted);
    };
    for _ in 0..4 {
        poll(&mut waiting, &mut in_shop).await;
    }
    assert_eq!((in_shop.len(), inside(&shop, sold).await), (3, 3));
    let told = stand(&one.buyer(waiting[0]), sold, json!({})).await;
    assert_eq!((&told.json["inside"], &told.json["available"]), (&json!(3), &json!(1_000)));

    // One buys, one leaves, and one whose turn it was not leaves the line. Each frees its place once,
    // however often it goes.
    let buyer = one.buyer(in_shop[0]);
    let held = ticket(&stand(&buyer, sold, json!({})).await).to_owned();
    order_id(&buy(&buyer, sold, &held).await);
    buy(&two.buyer(in_shop[0]), sold, &held).await.expect_problem(409, "limit_reached");
    for id in [in_shop[1], waiting[30], in_shop[0]] {
        for instance in [&two, &one] {
            leave(&instance.buyer(id), sold).await;
        }
    }
    until("two places inside", || inside(&shop, sold), |seen| *seen == 1).await;
    waiting.remove(30);
    in_shop.drain(..2);
    for _ in 0..4 {
        poll(&mut waiting, &mut in_shop).await;
    }
    assert_eq!((in_shop.len(), inside(&shop, sold).await), (3, 3));
    // A ticket that runs out is an exit, too.
    for instance in [&one, &two] {
        instance.clock.shift(Duration::seconds(2_900));
    }
    poll(&mut waiting, &mut in_shop).await;
    assert_eq!(in_shop.len(), 3, "they are still good");
    for instance in [&one, &two] {
        instance.clock.shift(Duration::seconds(101));
    }
    let before = waiting.len();
    for _ in 0..4 {
        poll(&mut waiting, &mut in_shop).await;
        assert!(inside(&shop, sold).await <= 3);
    }
    assert_eq!(before - waiting.len(), 3, "three more");
    let metrics = [one.stranger().get("/metrics").await, two.stranger().get("/metrics").await];
    for reason in ["bought", "left", "expired"] {
        let name = format!("seckill_waiting_room_exits_total{{reason=\"{reason}\"}}");
        assert!(metrics.iter().any(|answer| answer.text.contains(&name)), "{reason}");
    }
    assert_clean(&one, sold).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_rate_holds_over_two_instances() {
    const PER_SECOND: u32 = 5;
    const SECONDS: u32 = 10;
    let shop = shop_with(|room| (room.per_second, room.silent_seconds) = (PER_SECOND, 3_000)).await;
    let (one, two) = (shop.start().await, shop.start().await);
    let sold = item(&one, json!({})).await;
    let mut waiting: Vec<i64> = (1..=120).collect();
    let shift = |seconds| [&one, &two].map(|at| at.clock.shift(Duration::seconds(seconds)));
    let began = redis_time(&shop).await;
    let mut admitted = 0;
    // The clock is shifted for ten seconds, in which two rates would admit twice as many. Each buyer asks both
    // instances, because the first of the line would stand in the way of an instance that has turns left.
    for _ in 0..SECONDS {
        shift(1);
        for instances in [[&one, &two], [&two, &one], [&one, &two], [&two, &one]] {
            let now = all_poll(instances, &waiting, sold).await;
            admitted += now.len();
            waiting.retain(|id| !now.contains(id));
        }
    }
    // One at once, and at most one second is made up for.
    let seconds = f64::from(SECONDS) + redis_time(&shop).await - began;
    let most = f64::from(PER_SECOND) * (seconds + 1.0);
    assert!(admitted as f64 <= most, "{admitted} in {seconds} s");
    let least = 1 + PER_SECOND * (SECONDS - 1);
    assert!(admitted >= least as usize, "{admitted} in {seconds} s, and {least} may");
    // Many seconds in which nobody asks are not made up for.
    shift(60);
    let began = redis_time(&shop).await;
    let now = all_poll([&one, &two], &waiting, sold).await.len();
    let seconds = redis_time(&shop).await - began;
    let most = f64::from(PER_SECOND) + seconds * f64::from(PER_SECOND);
    assert!((1.0..=most).contains(&(now as f64)), "{now} in {seconds} s after a pause");
}

#[tokio::test]
async fn a_silent_buyer_is_passed_by_and_keeps_the_number_for_a_while() {
    let shop = shop_with(|room| {
        (room.per_second, room.inside_max, room.line_max) = (1_000, 1, 3);
        (room.silent_seconds, room.ticket_seconds) = (20, 300);
    })
    .await;
    let instance = shop.start().await;
    let sold = item(&instance, json!({})).await;
    let poll = async |id: i64| stand(&instance.buyer(id), sold, json!({})).await;
    ticket(&poll(1).await);
    for id in 2..=4 {
        place(&poll(id).await);
    }
    assert_problem(&poll(5).await, (503, "overloaded"), "the line is as long as it may be");
    instance.clock.shift(Duration::seconds(21));
    let told = poll(4).await;
    assert_eq!((&told.json["position"], &told.json["number"]), (&json!(0), &json!(4)));
    assert_eq!(told.json["people"], 3, "silent buyers count, because they may come back");
    assert_has(&poll(2).await.json, json!({ "position": 0, "number": 2 }));
    assert_eq!(poll(4).await.json["position"], 1);
    // Buyer 3 is silent for longer than places are kept, and the others are not.
    for _ in 0..17 {
        instance.clock.shift(Duration::seconds(18));
        poll(2).await;
        poll(4).await;
    }
    assert!(poll(3).await.json["number"].as_u64() > Some(4));
}

#[tokio::test]
async fn without_redis_nobody_joins_and_who_has_a_ticket_buys() {
    let shop = shop_with(|room| room.silent_seconds = 3_000).await;
    let link = link_to(&redis_url().await).await;
    let by_link = |config: &mut Config| {
        config.redis_url = Secret::new(link.url());
        config.redis.command_timeout_ms = 400;
    };
    let instance = shop.start_with(by_link).await;
    let sold = item(&instance, json!({})).await;
    let held = ticket(&stand(&instance.buyer(1), sold, json!({})).await).to_owned();
    link.cut();
    stand(&instance.buyer(2), sold, json!({})).await.expect_problem(503, "dependency_unavailable");
    let path = format!("/api/items/{sold}/ticket");
    let left = instance.buyer(3).delete(&path).await;
    left.assert_fields(503, json!({ "code": "dependency_unavailable", "outcome": "unknown" }));
    order_id(&buy(&instance.buyer(1), sold, &held).await);
    // The signature and the instance's own clock decide.
    instance.clock.shift(Duration::minutes(10));
    buy(&instance.buyer(1), sold, &held).await.expect_problem(403, "ticket_expired");
    link.mend();
    until_admitted(&instance.buyer(2), sold, json!({})).await;
}

/// The numbers of some buyers by one instance, in the order of the buyers; `None` for a buyer who is admitted already.
async fn numbers(client: &Client, tokens: &[String], item: i64) -> Vec<Option<i64>> {
    let mut numbers = Vec::new();
    for chunk in tokens.chunks(100) {
        let polls = chunk.iter().map(|token| {
            let buyer = client.with_token(token);
            async move { stand(&buyer, item, json!({})).await.json["number"].as_i64() }
        });
        numbers.extend(join_all(polls).await);
    }
    numbers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_came_before_the_opening_gets_a_place_by_chance() {
    const BUYERS: i64 = 1_200;
    let (shop, maker) = slow_shop().await.opened().await;
    // Other processes have the time of the ledger's server, which no test can move.
    let opens_at = OffsetDateTime::now_utc() + Duration::seconds(15);
    let sold = item(&maker, json!({ "starts_at": text(opens_at) })).await;
    let room = key(&shop, sold, "");
    let mut secrets = HashSet::new();
    for chunk in (1..=BUYERS).collect::<Vec<_>>().chunks(100) {
        let joins = chunk.iter().map(|&id| {
            let buyer = maker.buyer(id);
            async move {
                let told = stand(&buyer, sold, json!({})).await;
                place(&told);
                told.assert_fields(200, json!({ "number": null, "estimate_basis": "opening" }));
            }
        });
        join_all(joins).await;
        secrets.insert(shop.redis::<String>(&["HGET", &room, "secret"]).await);
    }
    assert_eq!(secrets.len(), 1, "it is made once");
    assert!(maker.clock.now() < opens_at, "the machine is too slow for this test");

    // A process is killed when it has written some places; then two go on.
    let settings =
        [("SECKILL_WAITING_ROOM_PER_SECOND", "1"), ("SECKILL_WAITING_ROOM_SILENT_SECONDS", "3000")];
    let addr = free_addr();
    let mut doomed = program(&shop, &["serve"]);
    doomed.env("SECKILL_HTTP_ADDR", &addr).envs(settings).env("FAILPOINT", ROOM_POINT);
    let mut doomed = doomed.spawn().expect("started");
    let client =
        Client::new(addr.parse().expect("an address"), maker.buyer(1).token().map(str::to_owned));
    client.until_answered().await;
    let ended = tokio::time::timeout(BOUND, async {
        loop {
            // It does not answer the poll in which it dies.
            let _ = client.request(Method::POST, &format!("/api/items/{sold}/ticket")).send().await;
            if let Some(ended) = doomed.try_wait().expect("a child") {
                return ended;
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    });
    assert!(!ended.await.expect("it dies").success());
    let addr = free_addr();
    let mut other = serve(&shop, &addr, &settings).await;
    let late = stand(&maker.buyer(BUYERS + 1), sold, json!({})).await;
    assert_eq!(late.json["number"], BUYERS + 1, "behind all, also before the places are known");
    let placed = eventually("the places", || async {
        let told = stand(&maker.buyer(2), sold, json!({})).await;
        if told.json["number"].is_null() && told.json["state"] == "waiting" {
            Err(told.text)
        } else {
            Ok(())
        }
    });
    placed.await;

    // Both instances say the same, and again.
    let tokens: Vec<String> =
        (1..=BUYERS).map(|id| maker.buyer(id).token().expect("a token").to_owned()).collect();
    let there = Client::new(addr.parse().expect("an address"), None);
    let first = numbers(&maker.stranger(), &tokens, sold).await;
    for client in [&there, &maker.stranger()] {
        let again = numbers(client, &tokens, sold).await;
        for (id, (before, now)) in (1..).zip(first.iter().zip(again)) {
            assert!(now.is_none() || *before == now, "buyer {id}: {before:?}, {now:?}");
        }
    }
    // Who is admitted by now was among the first.
    let admitted = first.iter().filter(|number| number.is_none()).count();
    assert!(admitted < 60, "{admitted} are admitted");
    let known: HashSet<i64> = first.iter().copied().flatten().collect();
    assert_eq!(known.len() + admitted, first.len(), "each number once");
    assert!(known.iter().all(|number| (1..=BUYERS).contains(number)));
    // By chance, a buyer stands before the next one in about half of the cases.
    let pairs = first.windows(2).filter_map(|pair| Some((pair[0]?, pair[1]?)));
    let ascents = pairs.filter(|(one, next)| one < next).count();
    assert!((450..=750).contains(&ascents), "{ascents} of {BUYERS} before the next one");
    let told = stand(&maker.buyer(BUYERS + 1), sold, json!({})).await;
    assert_eq!(told.json["number"], BUYERS + 1);
    assert!(told.json["position"].as_i64() > Some(BUYERS - 100), "{}", told.text);
    other.kill().await.expect("killed");
}

/// Two instances may write the places of one opening, and one goes on where another was killed. Buyers who have gone still
/// wait aside then, so nobody stands behind them; and the price of a stay outlives the opening.
#[tokio::test]
async fn places_that_are_written_twice_leave_the_buyers_who_have_gone_aside() {
    const EARLY: i64 = 20;
    let shop = shop_with(|room| {
        (room.per_second, room.silent_seconds, room.ticket_seconds) = (1, 20, 3_000);
    })
    .await;
    let instance = shop.start().await;
    let opens_at = instance.clock.now() + Duration::minutes(10);
    let sold = item(&instance, json!({ "starts_at": text(opens_at) })).await;
    for id in 1..=EARLY {
        place(&stand(&instance.buyer(id), sold, json!({})).await);
    }
    let keys = ["", ":early", ":bits", ":waiting", ":silent"].map(|part| key(&shop, sold, part));
    let [room, early, bits, waiting, silent] = keys;
    let copied = format!("{early}-copy");
    let () = shop.redis(&["COPY", &early, &copied]).await;
    let late = instance.buyer(EARLY + 1);
    let opened = async || {
        place(&stand(&late, sold, json!({})).await);
        let state = || async { shop.redis::<String>(&["HGET", &room, "state"]).await };
        until("the places", state, |state| state == "open").await;
    };
    instance.clock.shift(Duration::minutes(11));
    opened().await;
    assert_eq!(shop.redis::<i64>(&["HLEN", &bits]).await, EARLY + 1, "the price of each stay");
    // As if the last part were not written yet.
    let () = shop.redis(&["RENAME", &copied, &early]).await;
    let () = shop.redis(&["HSET", &room, "state", "frozen"]).await;
    opened().await;
    let line: Vec<i64> = shop.redis(&["ZRANGE", &waiting, "0", "-1"]).await;
    assert_eq!(line, [EARLY + 1], "the buyer who is there");
    assert_eq!(shop.redis::<i64>(&["ZCARD", &silent]).await, EARLY, "aside");
    assert_eq!(stand(&instance.buyer(1), sold, json!({})).await.json["state"], "admitted");
}

/// Two instances write the places, and a buyer leaves after one of them has read the list.
#[tokio::test]
async fn no_place_is_given_twice_when_a_buyer_leaves_during_the_opening() {
    const LATE: i64 = 6;
    const LONG: std::time::Duration = std::time::Duration::from_secs(3_000);
    let shop = Shop::new().await;
    let sold = ItemId::new(1).expect("positive");
    let limits = RoomLimits {
        per_second: 1,
        inside_max: 9,
        waiting_max: 99,
        silent: LONG,
        ticket: LONG,
        proof_bits_max: 0,
    };
    let room = || Room::new(shop.redis_client(), limits);
    let one = room();
    let two = room();
    let now = OffsetDateTime::now_utc();
    let window = SaleWindow::new(now + Duration::minutes(10), now + Duration::DAY);
    let poll = |id, shift| RoomPoll {
        item: sold,
        buyer: UserId::new(id).expect("positive"),
        window: window.expect("in order"),
        paused: false,
        shift,
        shown: None,
        proof: None,
        life: LONG,
    };
    for id in 1..LATE {
        let joined = one.poll(&poll(id, Duration::ZERO)).await.expect("joined");
        assert_eq!(joined.status, RoomStatus::Early);
    }
    let shift = Duration::minutes(11);
    let late = two.poll(&poll(LATE, shift)).await.expect("joined");
    assert_eq!(late.status, RoomStatus::Behind);
    let first_list = one.early(sold).await.expect("read").expect("a list");
    let gone = first_list[0];
    let left = two.leave(sold, gone, Leaving::GivesBack, shift).await.expect("left");
    assert_eq!(left, Left::Waiting);
    let second_list = two.early(sold).await.expect("read").expect("a list");
    one.place(sold, &first_list, shift, LONG).await.expect("written");
    // As if the last part were not written yet.
    let () = shop.redis(&["HSET", &key(&shop, 1, ""), "state", "frozen"]).await;
    two.place(sold, &second_list, shift, LONG).await.expect("written");

    let mut numbers = Vec::new();
    for part in [":waiting", ":silent"] {
        let name = key(&shop, 1, part);
        let standing: Vec<(i64, f64)> =
            shop.redis(&["ZRANGE", &name, "0", "-1", "WITHSCORES"]).await;
        let has_gone = standing.iter().any(|(id, _)| *id == gone.get());
        assert_eq!(has_gone, part == ":silent", "aside, where nobody is behind: {standing:?}");
        numbers.extend(standing.into_iter().map(|(_, number)| number));
    }
    let given = numbers.len();
    numbers.sort_by(f64::total_cmp);
    numbers.dedup();
    assert_eq!((given, numbers.len()), (6, 6), "{numbers:?}");
}

#[tokio::test]
async fn the_places_of_two_sales_differ() {
    let (_shop, instance) = slow_shop().await.opened().await;
    let starts_at = text(instance.clock.now() + Duration::minutes(10));
    let mut orders = Vec::new();
    let mut sales = Vec::new();
    for _ in 0..2 {
        let sold = item(&instance, json!({ "starts_at": starts_at })).await;
        for id in 1..=20 {
            place(&stand(&instance.buyer(id), sold, json!({})).await);
        }
        sales.push(sold);
    }
    instance.clock.shift(Duration::minutes(10));
    for sold in sales {
        until_told(&instance.buyer(1), sold, |told| told.json["drawing"] == false).await;
        let mut told = Vec::new();
        for id in 1..=20 {
            told.push(stand(&instance.buyer(id), sold, json!({})).await.json["number"].as_i64());
        }
        orders.push(told);
    }
    assert_ne!(orders[0], orders[1]);
}
