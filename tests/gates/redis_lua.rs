//! The script of `redis-lua` checks the buyer's limit and the sale's window besides the stock.

use gates::redis_store::Take;
use ledger::rows::items;
use shop_domain::SaleWindow;
use time::Duration;
use tokio::time::Instant;

use crate::support::own_redis;
use crate::support::prelude::*;

const STRATEGY: &str = "redis-lua";

fn id_of(item: i64) -> ItemId {
    ItemId::new(item).expect("positive")
}

async fn cancel(instance: &Instance, buyer: i64, order: &Answer) {
    let id = order.json["id"].as_str().expect("an id");
    assert_eq!(instance.buyer(buyer).step(id, "cancellation").await.status, 200);
}

/// The arbiter is off, so that only the gate decides, and two instances ask it at once.
#[tokio::test]
async fn the_limit_holds_at_the_gate() {
    let (_shop, here, there) = Shop::new().await.opened_twice().await;
    let body = json!({ "stock": 50, "per_buyer_limit": 2, "arbiter": "off" });
    let item = here.make_item(body).await;
    let clients = [here.buyer(1), there.buyer(1)];
    let presses = join_all((0..20).map(|press| clients[press % 2].buy(STRATEGY, item))).await;
    assert_eq!(presses.iter().filter(|answer| answer.status == 201).count(), 2);
    assert_eq!(here.buyer(1).buy(STRATEGY, item).await.brief(), (409, "limit_reached"));
    assert_eq!(there.buyer(2).buy(STRATEGY, item).await.status, 201, "another buyer");
}

#[tokio::test]
async fn orders_that_end_give_the_limit_back() {
    let (shop, instance) = Shop::open().await;
    let body = json!({ "stock": 1, "per_buyer_limit": 1, "arbiter": "off" });
    let item = instance.make_item(body).await;
    let first = instance.buyer(1).buy(STRATEGY, item).await.expect_status(201);
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.brief(), (409, "limit_reached"));
    cancel(&instance, 1, &first).await;
    let second = instance.buyer(1).buy(STRATEGY, item).await;
    assert_eq!(second.status, 201, "cancelled: {}", second.text);
    shop.let_holds_pass(301).await;
    instance.buyer(1).until_sold(STRATEGY, item).await;

    // A restock brings units, and no more of them for the same buyer.
    assert_eq!(instance.buyer(2).buy(STRATEGY, item).await.brief(), (409, "sold_out"));
    let restock = json!({ "stock_delta": 1 });
    assert_eq!(instance.admin().edit(item, restock).await.status, 200);
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.brief(), (409, "limit_reached"));
    instance.buyer(2).until_sold(STRATEGY, item).await;
}

#[tokio::test]
async fn an_emptied_redis_knows_units_and_buyers_again() {
    let (shop, instance) = Shop::open().await;
    let body = json!({ "stock": 3, "per_buyer_limit": 1, "arbiter": "off" });
    let item = instance.make_item(body).await;
    let first = instance.buyer(1).buy(STRATEGY, item).await;
    assert_eq!(instance.buyer(2).buy(STRATEGY, item).await.status, 201);
    cancel(&instance, 1, &first).await;
    let () = shop.redis(&["DEL", &shop.counters().key(id_of(item))]).await;
    assert_eq!(instance.buyer(2).buy(STRATEGY, item).await.brief(), (409, "limit_reached"));
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.status, 201, "it has none");
    assert_eq!(instance.buyer(3).buy(STRATEGY, item).await.status, 201);
    assert_eq!(instance.buyer(4).buy(STRATEGY, item).await.brief(), (409, "sold_out"));
}

/// Units of a purchase that died on its way stay counted; the ledger has the last word.
#[tokio::test]
async fn a_count_that_is_too_high_denies_nobody_for_good() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 3, "per_buyer_limit": 1 })).await;
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.status, 201);
    let key = shop.counters().key(id_of(item));
    let () = shop.redis(&["HSET", &key, "b:2", "1"]).await;
    assert_eq!(instance.buyer(2).buy(STRATEGY, item).await.status, 201);
    for buyer in [1, 2] {
        let again = instance.buyer(buyer).buy(STRATEGY, item).await;
        assert_eq!(again.brief(), (409, "limit_reached"), "buyer {buyer}");
    }
    // Too low is for the arbiter, and what it refuses is given back.
    let () = shop.redis(&["HDEL", &key, "b:1"]).await;
    assert_eq!(instance.buyer(1).buy(STRATEGY, item).await.brief(), (409, "limit_reached"));
    assert_eq!(instance.buyer(3).buy(STRATEGY, item).await.status, 201, "the third unit is left");
}

#[tokio::test]
async fn the_window_is_compared_with_the_clock_of_redis() {
    let (shop, _instance, item) = Shop::selling(json!({})).await;
    let found = items::find(&shop.pool, id_of(item)).await.expect("read").expect("an item");
    let (now, counters) = (OffsetDateTime::now_utc(), shop.counters());
    let windows = [
        (now + Duration::HOUR, now + Duration::DAY, Take::NotStarted),
        (now - Duration::DAY, now - Duration::HOUR, Take::Ended),
    ];
    for (starts_at, ends_at, expected) in windows {
        let mut item = (*found.item).clone();
        item.window = SaleWindow::new(starts_at, ends_at).expect("in order");
        let purchase = Purchase { strategy: STRATEGY, ..purchase_of(&item.into(), 3, 1) };
        assert_eq!(counters.take_once(&purchase, in_a_minute()).await.expect("asked"), expected);
    }
}

/// Redis stands still for longer than a command may take, and runs all takes when it goes on: nobody hears their
/// answers, and none of the buyers tries again. The units are back after two inspections, and all are sold.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn units_that_a_redis_took_while_it_stood_still_are_sold_to_others() {
    const STOCK: i64 = 200;
    let redis = &own_redis(1, &[]).await[0];
    let shop = Shop::with(|config| config.redis_url = Secret::new(redis.url())).await;
    let instances = [shop.start().await, shop.start().await];
    let item = instances[0].make_item(json!({ "stock": STOCK })).await;
    let buyer = |id: i64| instances[usize::try_from(id).expect("small") % 2].buyer(id);
    let press = async |buyers: std::ops::Range<i64>| {
        let buyers: Vec<_> = buyers.map(&buyer).collect();
        let answers = join_all(buyers.iter().map(|buyer| buyer.buy(STRATEGY, item))).await;
        let count = |status| answers.iter().filter(|answer| answer.status == status).count();
        (count(201), count(409), count(503))
    };
    let left = async || shop.counters().peek(id_of(item)).await.expect("read").expect("loaded");
    assert_eq!(press(1..51).await, (50, 0, 0));
    assert!(redis.pause());
    let unanswered = press(100..220).await;
    let stopped = Instant::now();
    assert!(redis.resume());
    let taken = eventually("the takes to be run", || async {
        let available = left().await.available;
        (available < STOCK - 50).then_some(STOCK - 50 - available)
    })
    .await;
    until("the units to be back", || async { left().await.available }, |it| *it == STOCK - 50)
        .await;
    println!(
        "{unanswered:?} sold, refused, unavailable while Redis stood still; it then took at least {taken} units \
         without an order; back after {:?}",
        stopped.elapsed()
    );
    assert_eq!((unanswered.0, unanswered.1), (0, 0), "nobody is told that it is sold out");
    // The breaker is open for a while yet.
    let mut after = (0, 0);
    for id in 300..500 {
        let buyer = buyer(id);
        let ask = || buyer.buy(STRATEGY, item);
        let told = until("Redis to be asked again", ask, |told| told.status != 503).await;
        after = if told.status == 201 { (after.0 + 1, after.1) } else { (after.0, after.1 + 1) };
    }
    println!("sold to others after {:?}", stopped.elapsed());
    assert_eq!(after, (150, 50));
    assert_clean(&instances[0], item).await;
}
