//! The connection dies at COMMIT: nobody is told a lie.

use std::time::Duration;

use faulty_link::{Fault, Trap};
use reqwest::Method;
use seckill::arbiter::{Arbiter, BatchConnections, GroupCommit, OrderWrite, StockWrite};
use seckill::config::{Config, Secret};
use seckill::domain::{
    ItemId, OrderId, Outcome, Purchase, Quantity, RequestKey, Unavailable, UserId,
};
use seckill::metrics::Metrics;
use seckill::store::mysql::{self as store, items};
use serde_json::json;
use time::OffsetDateTime;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::http::events::{Event, Events};
use crate::http::{BOUND, order_id};
use crate::support::{
    Answer, Client, FaultyLink, Instance, Shop, eventually, link_to_ledger, purchase_path,
};

/// COM_QUERY with the text that ends a transaction, as it stands on the wire.
const COMMIT: &[u8] = b"\x03COMMIT";

/// Passes the next COMMIT on, and breaks the connection instead of passing its answer back.
fn loses_answer() -> Trap {
    Trap::at(COMMIT).lose_answer()
}

/// Breaks the connection instead of passing the next COMMIT on.
fn loses_commit() -> Trap {
    Trap::at(COMMIT)
}

/// Loses every COMMIT; whoever sent it hears nothing until the link is mended.
fn loses_commits_in_silence() -> Trap {
    Trap::at(COMMIT).cut_server_in_silence().always()
}

/// A shop whose instance reaches the ledger through a link, and an instance beside it.
async fn linked_shop() -> (FaultyLink, Instance, Instance) {
    let (link, linked, beside, _) = linked_shop_with(|_| {}).await;
    (link, linked, beside)
}

/// The same with some settings changed, and the ledger beside the instances.
async fn linked_shop_with(
    change: impl FnOnce(&mut Config),
) -> (FaultyLink, Instance, Instance, sqlx::MySqlPool) {
    let mut shop = Shop::with_lock_servers(change).await;
    // The one beside leaves the queues to the linked one.
    shop.config.queue.claim_idle_ms = 7_200_000;
    shop.config.queue.poll_ms = 3_600_000;
    let beside = shop.start().await;
    let link = link_before(&mut shop).await;
    // The link is for the purchase alone: no job may be the one that commits.
    shop.config.job.expire_period_ms = 3_600_000;
    shop.config.job.reconcile_period_ms = 3_600_000;
    shop.config.session.revocation_period_ms = 3_600_000;
    let linked = shop.start().await;
    (link, linked, beside, shop.pool)
}

mod each {
    crate::support::strategies::test_each_strategy!(super::sells_one_although_the_link_breaks);
}

/// A strategy sells one unit although the link breaks at COMMIT: when the answer is lost, the order
/// is found in the ledger; when the COMMIT never arrived, it is done again.
async fn sells_one_although_the_link_breaks(strategy: &str) {
    let (link, linked, beside) = linked_shop().await;
    for breaks in [loses_answer(), loses_commit()] {
        let item = beside.make_item(json!({ "stock": 2 })).await;
        let cuts = link.caught();
        link.trap(breaks);
        let answer = linked.buyer(1).buy_for_good(strategy, item).await;
        // A queued order can be seen in the ledger before the link has dropped the COMMIT's answer.
        eventually("the fault to bite", || async { (link.caught() > cuts).then_some(()) }).await;
        assert_eq!(link.caught(), cuts + 1, "the fault bit more than once");
        assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
        // What was queued leaves the queue a moment after its COMMIT.
        let audit = eventually("the queue to be empty", || async {
            let audit = beside.audit(item).await;
            (audit["redis_queued"] == 0).then_some(audit)
        })
        .await;
        let expected = (&json!(1), &json!(true));
        assert_eq!((&audit["held"], &audit["clean"]), expected, "{strategy}: {audit}");
    }
}

#[tokio::test]
async fn when_the_ledger_cannot_be_asked_the_outcome_is_unknown_and_the_key_tells_later() {
    let (link, linked, beside) = linked_shop().await;
    let item = beside.make_item(json!({ "stock": 2 })).await;
    link.trap(loses_answer().then(Fault::Refuse));
    let answer = linked.buyer(1).buy_with_key("mysql-atomic", item, "k").await;
    assert_eq!(link.caught(), 1, "the fault did not bite");
    assert_eq!(answer.brief(), (504, "outcome_unknown"), "{}", answer.text);
    // While the ledger is away: nothing is accepted, and it is said that nothing changed.
    let away = linked.buyer(2).buy("mysql-atomic", item).await;
    assert_eq!(away.brief(), (503, "dependency_unavailable"), "{}", away.text);
    assert_eq!(away.json["outcome"], "none");
    link.mend();
    let told = eventually("the ledger to be back", || async {
        let answer = linked.buyer(1).buy_with_key("mysql-atomic", item, "k").await;
        (answer.status == 201).then_some(answer)
    });
    assert_eq!(told.await.headers["idempotency-replayed"], "true");
    let audit = beside.audit(item).await;
    assert_eq!((&audit["held"], &audit["clean"]), (&json!(1), &json!(true)), "{audit}");
}

/// A COMMIT that is only slow is waited for: when nobody may try again, "it did not happen" would be
/// a lie.
async fn a_slow_commit_is_waited_for(buyers: i64) {
    let mut shop = Shop::new().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 2 })).await;
    let link = link_before(&mut shop).await;
    let pool = store::pool(&shop.config).expect("the URL is fine");
    // Connected before, since that is not what takes its time here.
    drop(pool.acquire().await.expect("a connection"));
    let arbiter = Arbiter::new(pool.clone(), Metrics::new());
    let group_commit =
        GroupCommit::new(arbiter, BatchConnections::new(pool, 2), TaskTracker::new());
    let mut batches = group_commit.writer();
    let mut purchases = Vec::new();
    for buyer in 1..=buyers {
        let buyer = UserId::new(buyer).expect("positive");
        purchases.push(Purchase { buyer, ..a_purchase(&shop, item).await });
    }
    link.trap(Trap::at(COMMIT).cut_client_and_hold());
    let told = CancellationToken::new();
    let watch = async {
        eventually("the fault to bite", || async { (link.caught() == 1).then_some(()) }).await;
        // The order's row is locked by the transaction whose COMMIT is kept.
        eventually("the ledger to be asked", || async {
            let waiting = crate::support::statements_running(
                &shop.pool,
                "%FROM orders WHERE user_id% FOR UPDATE",
            )
            .await;
            (waiting > 0 || told.is_cancelled()).then_some(())
        })
        .await;
        link.mend();
    };
    let written = async {
        // Begun in time, and with no time for another try once the row was waited for.
        let deadline = Instant::now() + Duration::from_secs(2);
        let answers = batches.write(&purchases, None, Some(deadline)).await;
        told.cancel();
        answers
    };
    let (answers, ()) = tokio::join!(written, watch);
    eventually("the orders to be in the ledger", || async {
        (instance.audit(item).await["held"] == buyers).then_some(())
    })
    .await;
    let are_sold = answers.iter().all(|answer| matches!(answer, Ok(Outcome::Sold(_))));
    assert!(are_sold, "they are orders: {answers:?}");
}

#[tokio::test]
async fn a_commit_that_is_only_slow_is_waited_for() {
    a_slow_commit_is_waited_for(1).await;
}

#[tokio::test]
async fn a_batchs_commit_that_is_only_slow_is_waited_for() {
    a_slow_commit_is_waited_for(2).await;
}

/// Units that may be sold are not given back. Nobody repairs the counters here.
#[tokio::test]
async fn units_of_an_unknown_outcome_stay_taken() {
    let (link, linked, beside, _) =
        linked_shop_with(|config| config.job.reconcile_period_ms = 3_600_000).await;
    for strategy in ["redis-watch", "redis-lua", "redis-bucket"] {
        let item = beside.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
        // The gate's counter is loaded.
        assert_eq!(linked.buyer(2).buy(strategy, item).await.status, 201, "{strategy}");
        let cuts = link.caught();
        link.trap(loses_answer().then(Fault::Refuse));
        let answer = linked.buyer(1).buy_with_key(strategy, item, "k").await;
        assert_eq!(link.caught(), cuts + 1, "the fault did not bite");
        assert_eq!(answer.brief(), (504, "outcome_unknown"), "{strategy}: {}", answer.text);
        link.mend();
        let audit = beside.audit(item).await;
        assert_eq!((&audit["held"], &audit["clean"]), (&json!(2), &json!(true)), "{audit}");
        eventually("the ledger to be back", || async {
            let answer = linked.buyer(1).buy_with_key(strategy, item, "k").await;
            (answer.status == 201).then_some(())
        })
        .await;
    }
}

/// Changes the shop's settings: new instances reach its ledger through the link.
async fn link_before(shop: &mut Shop) -> FaultyLink {
    let link = link_to_ledger(shop).await;
    shop.config.database_url = Secret::new(link.url());
    link
}

/// A shop with an item of `stock` units, and an arbiter that has the link and one connection.
async fn linked_arbiter(stock: i64) -> (FaultyLink, Shop, Instance, i64, Arbiter, Metrics) {
    let mut shop = Shop::new().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": stock, "per_buyer_limit": stock })).await;
    let link = link_before(&mut shop).await;
    shop.config.mysql.pool_max = 1;
    let pool = store::pool(&shop.config).expect("the URL is fine");
    drop(pool.acquire().await.expect("a connection"));
    let metrics = Metrics::new();
    let arbiter = Arbiter::new(pool, metrics.clone());
    (link, shop, instance, item, arbiter, metrics)
}

/// One look at the ledger that fails says nothing about the COMMIT: it is asked again.
#[tokio::test]
async fn a_ledger_that_misses_one_look_is_asked_again() {
    let (link, shop, instance, item, arbiter, _) = linked_arbiter(2).await;
    let purchase = a_purchase(&shop, item).await;
    link.trap(loses_answer().then(Fault::RefuseNext));
    let outcome = arbiter.write(&guarded(&purchase, None)).await;
    assert_eq!(link.caught(), 1, "the fault did not bite");
    assert_eq!(link.fault(), Fault::Pass, "the ledger answered the first look");
    assert!(matches!(outcome, Outcome::Sold(_)), "the ledger knows it: {outcome:?}");
    assert_eq!(instance.audit(item).await["held"], 1);
}

/// When every transaction fails, there are 100 retries and one more for every ten writes: a ledger in
/// trouble is not asked four times as often.
#[tokio::test]
async fn retries_end_when_all_transactions_fail() {
    const PURCHASES: u64 = 40;
    let (link, shop, instance, item, arbiter, metrics) = linked_arbiter(50).await;
    link.trap(loses_commit().always());
    let mut purchase = a_purchase(&shop, item).await;
    for number in 0..PURCHASES {
        purchase.order_id = OrderId::generate();
        purchase.key = RequestKey::of_order(purchase.order_id);
        let outcome = arbiter.write(&guarded(&purchase, None)).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{number}: {outcome:?}");
    }
    let retries = metrics.arbiter_retries.get();
    assert!((1..=100 + PURCHASES / 10).contains(&retries), "{retries} retries");
    assert!(metrics.arbiter_retries_unaffordable.get() > 0, "no retry was refused");
    assert_eq!(instance.audit(item).await["orders"], 0);
}

/// A purchase as a gate without a lock hands it over.
fn guarded(purchase: &Purchase, deadline: Option<Instant>) -> OrderWrite<'_> {
    OrderWrite { purchase, fence: None, stock: StockWrite::Guarded, deadline }
}

/// A purchase of one unit by buyer 1.
async fn a_purchase(shop: &Shop, item: i64) -> Purchase {
    let id = ItemId::new(item).expect("positive");
    let found = items::find(&shop.pool, id).await.expect("read").expect("an item");
    let now = OffsetDateTime::now_utc();
    Purchase {
        order_id: OrderId::generate(),
        amount: found.item.price,
        item: found.item,
        buyer: UserId::new(1).expect("positive"),
        quantity: Quantity::ONE,
        key: RequestKey::parse("k").expect("a key"),
        strategy: "mysql-atomic",
        created_at: now,
        expires_at: now + time::Duration::HOUR,
    }
}

#[tokio::test]
async fn nothing_is_begun_for_a_purchase_that_is_late() {
    let (shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": 2 })).await;
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let purchase = a_purchase(&shop, item).await;
    let lanes_pool = BatchConnections::new(shop.pool.clone(), 2);
    let group_commit = GroupCommit::new(arbiter.clone(), lanes_pool, TaskTracker::new());
    let contended = Outcome::Unavailable(Unavailable::Contended);
    let late = Some(Instant::now());
    assert_eq!(arbiter.write(&guarded(&purchase, late)).await, contended);
    assert_eq!(group_commit.write(purchase.clone(), late).await, contended, "in a lane");
    assert_eq!(instance.audit(item).await["orders"], 0);
    let in_time = Some(Instant::now() + Duration::from_secs(600));
    let sold = group_commit.write(purchase, in_time).await;
    assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
}

#[tokio::test]
async fn a_step_of_an_order_whose_answer_is_lost_is_made_once() {
    let (link, linked, beside) = linked_shop().await;
    let item = beside.make_item(json!({ "stock": 2, "per_buyer_limit": 2 })).await;
    for (step, trap) in [("cancellation", loses_answer()), ("payment", loses_commit())] {
        let order = beside.buyer(1).buy("mysql-atomic", item).await;
        let id = order.json["id"].as_str().expect("an id").to_owned();
        link.trap(trap);
        let cuts = link.caught();
        let answer = linked.buyer(1).post(&format!("/api/orders/{id}/{step}"), &json!({})).await;
        assert_eq!(link.caught(), cuts + 1, "the fault did not bite");
        assert_eq!(answer.status, 200, "{step}: {}", answer.text);
    }
    let audit = beside.audit(item).await;
    assert_eq!(
        (&audit["sold"], &audit["held"], &audit["clean"]),
        (&json!(1), &json!(0), &json!(true)),
        "{audit}"
    );
}

/// How long a buyer waits whose purchase the test holds up.
const PATIENT_MS: u64 = 60_000;

/// Buys with the key `k`.
async fn buy_units(buyer: Client, strategy: &str, item: i64, units: i64) -> Answer {
    let request = buyer.request(Method::POST, &purchase_path(strategy, item));
    Client::send(request.header("idempotency-key", "k").json(&json!({ "quantity": units }))).await
}

/// The COMMIT of `pressed` is lost; before it is settled, another instance makes an order of one
/// unit with the same key, by `strategy`. Answers what the request was told.
async fn overtaken(
    (link, beside): (&FaultyLink, &Instance),
    (strategy, item): (&str, i64),
    pressed: impl Future<Output = Answer> + Send + 'static,
) -> Answer {
    let cuts = link.caught();
    let pressed = tokio::spawn(pressed);
    eventually("the fault to bite", || async { (link.caught() > cuts).then_some(()) }).await;
    let other = buy_units(beside.buyer(1), strategy, item, 1).await;
    assert_eq!(other.status, 201, "{strategy}: {}", other.text);
    link.mend();
    pressed.await.expect("no panic")
}

/// A request for as many units as the other order has is a replay; one for more is refused.
fn assert_told_of_the_other_order(strategy: &str, units: i64, answer: &Answer) {
    if units == 1 {
        assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
        let replayed = answer.headers.contains_key("idempotency-replayed");
        assert!(replayed, "{strategy}: told as sold: {}", answer.text);
    } else {
        let expected = (422, "idempotency_key_reused");
        assert_eq!(answer.brief(), expected, "{strategy}: {}", answer.text);
    }
}

#[tokio::test]
async fn a_lost_commit_is_not_answered_with_another_requests_order() {
    // No reconciliation: the gates give back by themselves.
    let (link, linked, beside, _) = linked_shop_with(|config| {
        config.job.reconcile_period_ms = 3_600_000;
        config.purchase.deadline_ms = PATIENT_MS;
    })
    .await;
    for strategy in
        ["mysql-atomic", "mysql-batch", "lock-redis", "redis-watch", "redis-lua", "redis-bucket"]
    {
        for units in [2, 1] {
            let item = beside.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await;
            // The gate's counter is loaded.
            assert_eq!(linked.buyer(2).buy(strategy, item).await.status, 201);
            link.trap(loses_commits_in_silence());
            let pressed = buy_units(linked.buyer(1), strategy, item, units);
            // The item's lock is taken; the other order comes without it.
            let other = if strategy == "lock-redis" { "mysql-atomic" } else { strategy };
            let answer = overtaken((&link, &beside), (other, item), pressed).await;
            assert_told_of_the_other_order(strategy, units, &answer);
            let audit = linked.audit(item).await;
            assert_eq!((&audit["held"], &audit["clean"]), (&json!(2), &json!(true)), "{audit}");
        }
    }
}

#[tokio::test]
async fn a_lost_batch_is_not_answered_with_another_requests_order() {
    let (link, linked, beside, pool) = linked_shop_with(|config| {
        config.mysql.lock_wait_timeout_seconds = 60;
        config.purchase.deadline_ms = PATIENT_MS;
    })
    .await;
    for strategy in ["mysql-batch", "redis-lua", "redis-bucket"] {
        for units in [2, 1] {
            let item = beside.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await;
            assert_eq!(linked.buyer(9).buy(strategy, item).await.status, 201);
            // The next one's transaction waits for this row; those who come meanwhile are one batch.
            let holder = crate::support::hold_stock_row(&pool, item).await;
            let mut presses = Vec::new();
            for buyer in [8, 2] {
                let client = linked.buyer(buyer);
                presses.push(tokio::spawn(async move { client.buy(strategy, item).await }));
                in_flight(&linked, presses.len()).await;
            }
            let pressed = tokio::spawn(buy_units(linked.buyer(1), strategy, item, units));
            in_flight(&linked, 3).await;
            link.trap(loses_commits_in_silence().skip(1));
            holder.rollback().await.expect("the row is free");
            let pressed = async { pressed.await.expect("no panic") };
            let answer = overtaken((&link, &beside), ("mysql-atomic", item), pressed).await;
            assert_told_of_the_other_order(strategy, units, &answer);
            for press in presses {
                assert_eq!(press.await.expect("no panic").status, 201, "{strategy}");
            }
        }
    }
}

async fn in_flight(instance: &Instance, purchases: usize) {
    let line = format!("seckill_purchases_in_flight {purchases}\n");
    eventually("the press to be under way", || async {
        instance.stranger().get("/metrics").await.text.contains(&line).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_batch_whose_commit_is_lost_settles_each_of_its_orders() {
    for breaks in [loses_answer(), loses_commit()] {
        let (link, linked, beside) = linked_shop().await;
        let item = beside.make_item(json!({ "stock": 30 })).await;
        // The first buyer's batch is that buyer alone; the next one is the crowd.
        link.trap(breaks.skip(1));
        let presses = (1..=40).map(|id| {
            let buyer = linked.buyer(id);
            async move { buyer.buy("mysql-batch", item).await.status }
        });
        let statuses = futures::future::join_all(presses).await;
        assert_eq!(link.caught(), 1, "the fault did not bite");
        assert_eq!(statuses.iter().filter(|status| **status == 201).count(), 30, "{statuses:?}");
        let audit = beside.audit(item).await;
        assert_eq!((&audit["held"], &audit["clean"]), (&json!(30), &json!(true)), "{audit}");
    }
}

/// A shop whose one instance reaches the ledger through a link, and whose counters nobody repairs.
async fn lone_shop() -> (FaultyLink, Shop, Instance) {
    let mut shop = Shop::with(|config| {
        config.job.expire_period_ms = 200;
        config.job.reconcile_period_ms = 3_600_000;
        config.session.revocation_period_ms = 3_600_000;
    })
    .await;
    let link = link_before(&mut shop).await;
    let instance = shop.start().await;
    (link, shop, instance)
}

#[tokio::test]
async fn a_step_whose_answer_is_lost_is_told_and_counted() {
    let (link, shop, instance) = lone_shop().await;
    let item = instance.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
    let buyer = instance.buyer(1);
    let mut events = Events::open(buyer.request(Method::GET, "/api/orders/events")).await;
    let steps = [("payment", "paid"), ("cancellation", "cancelled"), ("expiry", "expired")];
    for (number, (step, status)) in (1..).zip(steps) {
        let order = order_id(&buyer.buy("redis-lua", item).await);
        link.trap(loses_answer());
        if step == "expiry" {
            sqlx::query(
                "UPDATE orders SET expires_at = UTC_TIMESTAMP(6) - INTERVAL 1 SECOND WHERE id = ?",
            )
            .bind(&order)
            .execute(&shop.pool)
            .await
            .expect("its hold ends");
        } else {
            let answer = buyer.post(&format!("/api/orders/{order}/{step}"), &json!({})).await;
            assert_eq!(answer.status, 200, "{step}: {}", answer.text);
        }
        let told = |event: &Event| {
            event.name == "order" && event.data["id"] == *order && event.data["status"] == status
        };
        events.seek(BOUND, told).await.expect("the step is told");
        assert_eq!(link.caught(), number, "{step}: the fault did not bite");
    }
    // The counter was told, too: it equals the ledger, and nobody repairs it here.
    let audit = eventually("the counter to follow", || async {
        let audit = instance.audit(item).await;
        (audit["clean"] == true).then_some(audit)
    })
    .await;
    assert_eq!((&audit["sold"], &audit["available"]), (&json!(1), &json!(4)), "{audit}");
    let metrics = instance.stranger().get("/metrics").await.text;
    assert!(metrics.contains("seckill_orders_expired_total 1\n"), "{metrics}");
}
