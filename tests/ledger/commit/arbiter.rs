//! What the arbiter does when COMMIT fails or is slow: it asks the ledger, retries within its budget,
//! and begins nothing after the deadline.

use ledger::write::{
    Arbiter, BatchConnections, Conflict, GroupCommit, OrderWrite, StockWrite, order_routine,
};
use shop_domain::outcome::Dependency;
use shop_domain::{OrderId, RequestKey, Unavailable};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::support::{purchase, statements_running};

/// A shop with an item of `stock` units, and an arbiter that has the link and one connection.
async fn linked_arbiter(stock: i64) -> (FaultyLink, Shop, Instance, i64, Arbiter, Metrics) {
    let (mut shop, instance) = Shop::open().await;
    let item = instance.make_item(json!({ "stock": stock, "per_buyer_limit": stock })).await;
    let link = link_before(&mut shop).await;
    shop.config.mysql.pool_max = 1;
    let pool = mysql_connection::pool(&shop.config).expect("the URL is fine");
    drop(pool.acquire().await.expect("a connection"));
    let metrics = Metrics::new();
    let arbiter = Arbiter::new(pool, metrics.clone());
    (link, shop, instance, item, arbiter, metrics)
}

/// Group commit that has the link of the shop, and no shared queue.
async fn linked_group_commit(shop: &Shop) -> GroupCommit {
    let pool = mysql_connection::pool(&shop.config).expect("the URL is fine");
    // Connected before, since that is not what takes its time here.
    drop(pool.acquire().await.expect("a connection"));
    let arbiter = Arbiter::new(pool.clone(), Metrics::new());
    GroupCommit::new(arbiter, BatchConnections::new(pool, 2), TaskTracker::new(), Vec::new())
}

/// A purchase as a gate without a lock hands it over.
fn guarded(purchase: &Purchase, deadline: Option<Instant>) -> OrderWrite<'_> {
    OrderWrite { purchase, fence: None, stock: StockWrite::Guarded, deadline }
}

/// Writes a purchase as a gate without a lock hands it over, without a deadline.
async fn write(arbiter: &Arbiter, purchase: &Purchase) -> Outcome {
    arbiter.write(&guarded(purchase, None)).await.unwrap_or_else(Outcome::from)
}

/// A purchase of one unit by buyer 1.
async fn one_unit(shop: &Shop, item: i64) -> Purchase {
    purchase(shop, ItemId::new(item).expect("positive"), 1, ("mysql-atomic", "k")).await
}

/// One look at the ledger that fails says nothing about the COMMIT: it is asked again, for one order and for a batch.
#[tokio::test]
async fn a_ledger_that_misses_one_look_is_asked_again() {
    let (link, shop, instance, item, arbiter, _) = linked_arbiter(3).await;
    let first = one_unit(&shop, item).await;
    link.trap(loses_answer().then(Fault::RefuseNext));
    let outcome = write(&arbiter, &first).await;
    assert_eq!(link.caught(), 1, "the fault did not bite");
    assert_eq!(link.fault(), Fault::Pass, "the ledger answered the first look");
    assert!(matches!(outcome, Outcome::Sold(_)), "the ledger knows it: {outcome:?}");
    assert_held(&instance, item, 1).await;
    let batches = linked_group_commit(&shop).await.writer();
    let purchases = [2, 3].map(|buyer| purchase_of(&first.item, buyer, 1));
    link.trap(loses_answer().then(Fault::RefuseNext));
    let answers = write_batch(&batches, &purchases, None).await;
    assert_eq!(link.caught(), 2, "the fault did not bite");
    assert_eq!(link.fault(), Fault::Pass, "the ledger answered the first look");
    let are_sold = answers.iter().all(|answer| matches!(answer, Ok(Outcome::Sold(_))));
    assert!(are_sold, "the ledger knows them: {answers:?}");
    assert_held(&instance, item, 3).await;
}

/// When every transaction fails, there are 100 retries and one more for every ten writes: a ledger in
/// trouble is not asked four times as often.
#[tokio::test]
async fn retries_end_when_all_transactions_fail() {
    const PURCHASES: u64 = 40;
    let (link, shop, instance, item, arbiter, metrics) = linked_arbiter(50).await;
    let arbiter = arbiter.with_calls(false);
    link.trap(loses_commit().always());
    let mut purchase = one_unit(&shop, item).await;
    for number in 0..PURCHASES {
        purchase.order_id = OrderId::generate();
        purchase.key = RequestKey::of_order(purchase.order_id);
        let outcome = write(&arbiter, &purchase).await;
        assert!(matches!(outcome, Outcome::Unavailable(_)), "{number}: {outcome:?}");
    }
    let retries = metrics.arbiter_retries.get();
    assert!((1..=100 + PURCHASES / 10).contains(&retries), "{retries} retries");
    assert!(metrics.arbiter_retries_unaffordable.get() > 0, "no retry was refused");
    assert!(metrics.arbiter_commits_lost.get() >= PURCHASES, "the ledger was not asked");
    assert_eq!(instance.audit(item).await["orders"], 0);
}

/// A call that was lost may begin later, so no other answer than "sold" is certain.
#[tokio::test]
async fn after_a_lost_call_the_conflict_of_the_next_try_is_no_answer() {
    let (link, shop, instance, item, arbiter, _) = linked_arbiter(2).await;
    let purchase = one_unit(&shop, item).await;
    link.trap(Trap::at(CALL));
    let stock = StockWrite::GuardedByVersion(u64::from(u32::MAX));
    let write = OrderWrite { purchase: &purchase, fence: None, stock, deadline: None };
    let answer = arbiter.write(&write).await;
    assert_eq!(link.caught(), 1, "the order was no call");
    assert!(matches!(answer, Ok(Outcome::Unknown(_))), "{answer:?}");
    assert_eq!(arbiter.write(&write).await, Err(Conflict::Stale), "an answered call is certain");
    let stock = StockWrite::GuardedByTimestamp(OffsetDateTime::UNIX_EPOCH);
    let write = OrderWrite { stock, ..write };
    assert_eq!(arbiter.write(&write).await, Err(Conflict::Stale), "the row has changed since");
    assert_eq!(instance.audit(item).await["orders"], 0);
}

/// A call that begins after the order was tried again finds its key taken.
#[tokio::test]
async fn a_call_that_begins_late_sells_nothing() {
    let (link, shop, instance, item, arbiter, _) = linked_arbiter(2).await;
    let purchase = one_unit(&shop, item).await;
    link.trap(Trap::at(CALL).cut_client_and_hold());
    let outcome = write(&arbiter, &purchase).await;
    assert_eq!(link.caught(), 1, "the order was no call");
    assert!(matches!(outcome, Outcome::Sold(_)), "{outcome:?}");
    link.mend();
    let calls = || statements_running(&shop.pool, "CALL write_order_%");
    until("the late call to have ended", calls, |calls| *calls == 0).await;
    assert_held(&instance, item, 1).await;
}

/// A unit comes back after the UPDATE has found none, and before the SELECT reads how many are left.
#[tokio::test]
async fn a_unit_that_comes_back_during_a_refusal_is_sold() {
    let (link, shop, instance, item, arbiter, _) = linked_arbiter(1).await;
    let order = order_id(&instance.buyer(2).buy("mysql-atomic", item).await);
    let purchase = one_unit(&shop, item).await;
    link.trap(Trap::at(b"SELECT available FROM stock WHERE item_id = ?").hold());
    let cancel = async {
        eventually("the look to be held", || async { (link.held() == 1).then_some(()) }).await;
        let cancelled = instance.buyer(2).step(&order, "cancellation").await;
        link.mend();
        cancelled.status
    };
    let write = guarded(&purchase, None);
    let (answer, cancelled) = tokio::join!(arbiter.write(&write), cancel);
    assert_eq!(cancelled, 200);
    assert!(matches!(answer, Ok(Outcome::Sold(_))), "{answer:?}");
    assert_eq!(instance.audit(item).await["held"], 1);
}

/// A name proves nothing: whoever may make procedures could have made one of ours. Without one, as where an engine or
/// an account has none, an order is sold by its statements, too.
#[tokio::test]
async fn a_procedure_of_our_name_with_another_text_is_not_called() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 4, "per_buyer_limit": 4 })).await;
    let name = &*order_routine::NAME;
    let own = order_routine::TEXT.as_str();
    let drop = format!("DROP PROCEDURE {name}");
    let without_stock = own.replacen("available = available - p_units", "available = available", 1);
    let other_rights = own.replacen("SQL SECURITY INVOKER", "SQL SECURITY DEFINER", 1);
    let swapped = own
        .replacen("p_item BIGINT", "p_swap BIGINT", 1)
        .replacen("p_buyer BIGINT", "p_item BIGINT", 1)
        .replacen("p_swap BIGINT", "p_buyer BIGINT", 1);
    let mut sold = 0;
    for foreign in [None, Some(without_stock), Some(other_rights), Some(swapped)] {
        sqlx::raw_sql(&drop).execute(&shop.pool).await.expect("it was there");
        let mut connection = shop.pool.acquire().await.expect("a connection");
        if let Some(foreign) = foreign {
            assert_ne!(foreign, own);
            let foreign = foreign.replacen("ORDER_ROUTINE", name, 1);
            sqlx::raw_sql(&foreign).execute(&shop.pool).await.expect("it is made");
            let found = order_routine::compare(&mut connection).await.expect("a look");
            assert_eq!(found, order_routine::RoutineState::Foreign);
        }
        let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
        let item_id = ItemId::new(item).expect("positive");
        let purchase = purchase(&shop, item_id, 1, ("mysql-atomic", &format!("k{sold}"))).await;
        let outcome = write(&arbiter, &purchase).await;
        assert!(matches!(outcome, Outcome::Sold(_)), "{outcome:?}");
        sold += 1;
        assert_held(&instance, item, sold).await;
        // A migration makes or replaces it, and the next one finds it.
        for _ in 0..2 {
            order_routine::install(&mut connection).await.expect("it is there");
        }
        let found = order_routine::compare(&mut connection).await.expect("a look");
        assert_eq!(found, order_routine::RoutineState::Own);
    }
}

#[tokio::test]
async fn an_order_is_sold_by_its_statements_after_the_procedure_is_gone() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 2, "per_buyer_limit": 2 })).await;
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let first = one_unit(&shop, item).await;
    let drop = format!("DROP PROCEDURE {}", *order_routine::NAME);
    let sold = write(&arbiter, &first).await;
    assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
    sqlx::raw_sql(&drop).execute(&shop.pool).await.expect("it was there");
    let sold = write(&arbiter, &purchase_of(&first.item, 1, 1)).await;
    assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
    assert_held(&instance, item, 2).await;
}

/// Makes the INSERT of each order end with this SIGNAL.
async fn refuse_orders(shop: &Shop, signal: &str) {
    let trigger = "TRIGGER refuses BEFORE INSERT ON orders FOR EACH ROW SIGNAL";
    for statement in ["DROP TRIGGER IF EXISTS refuses", &format!("CREATE {trigger} {signal}")] {
        sqlx::raw_sql(statement).execute(&shop.pool).await.expect("a trigger");
    }
}

/// The procedure says that its COMMIT failed, or the server that it ends the connection: both may have committed.
#[tokio::test]
async fn a_call_that_fails_at_its_commit_is_looked_for_in_the_ledger() {
    let (shop, _instance, item) = Shop::selling(json!({ "stock": 2 })).await;
    let purchase = one_unit(&shop, item).await;
    for signal in [
        "SQLSTATE '45000' SET MESSAGE_TEXT = 'seckill: COMMIT failed'",
        "SQLSTATE '08S01' SET MYSQL_ERRNO = 1053, MESSAGE_TEXT = 'the server shuts down'",
    ] {
        refuse_orders(&shop, signal).await;
        let metrics = Metrics::new();
        let outcome = write(&Arbiter::new(shop.pool.clone(), metrics.clone()), &purchase).await;
        let away = Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql));
        assert_eq!(outcome, away, "{signal}");
        assert!(metrics.arbiter_commits_lost.get() > 0, "{signal}: the ledger was not asked");
    }
}

#[tokio::test]
async fn a_cart_hears_why_the_ledger_does_not_take_it() {
    let (mut shop, instance) = Shop::open().await;
    let items = instance.make_items(2, &json!({})).await;
    let link = link_before(&mut shop).await;
    let group_commit = linked_group_commit(&shop).await;
    let order = OrderId::generate();
    let mut lines = Vec::new();
    for (number, item) in (0..).zip(items) {
        let line = one_unit(&shop, item).await;
        lines.push(Purchase { order_id: order.line(number), line_count: Some(2), ..line });
    }
    let write = || group_commit.write_order(lines.clone(), None, None);
    for (number, why) in
        [(1290, Unavailable::ReadOnly), (1644, Unavailable::Faulty(Dependency::Mysql))]
    {
        let signal = format!("SQLSTATE 'HY000' SET MYSQL_ERRNO = {number}, MESSAGE_TEXT = 'no'");
        refuse_orders(&shop, &signal).await;
        assert_eq!(write().await, Outcome::Unavailable(why), "{number}");
    }
    link.cut();
    // A write that loses its connection on the way is answered otherwise.
    let away = Outcome::Unavailable(Unavailable::Dependency(Dependency::Mysql));
    until("a write without a connection", write, |outcome| *outcome == away).await;
}

#[tokio::test]
async fn nothing_is_begun_for_a_purchase_that_is_late() {
    let (shop, instance, item) = Shop::selling(json!({ "stock": 2 })).await;
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let purchase = one_unit(&shop, item).await;
    let connections = BatchConnections::new(shop.pool.clone(), 2);
    let group_commit =
        GroupCommit::new(arbiter.clone(), connections, TaskTracker::new(), Vec::new());
    let contended = Outcome::Unavailable(Unavailable::Contended);
    let late = Some(Instant::now());
    assert_eq!(arbiter.write(&guarded(&purchase, late)).await, Ok(contended.clone()));
    assert_eq!(group_commit.write(purchase.clone(), late).await, contended, "in a batch");
    assert_eq!(instance.audit(item).await["orders"], 0);
    let in_time = Some(Instant::now() + Duration::from_secs(600));
    let sold = group_commit.write(purchase, in_time).await;
    assert!(matches!(sold, Outcome::Sold(_)), "{sold:?}");
}

/// A COMMIT that is only slow is waited for: when nobody may try again, "it did not happen" would be
/// a lie.
#[tokio::test]
async fn a_commit_that_is_only_slow_is_waited_for() {
    for buyers in [1, 2] {
        a_slow_commit_is_waited_for(buyers).await;
    }
}

async fn a_slow_commit_is_waited_for(buyers: i64) {
    let (mut shop, instance, item) = Shop::selling(json!({ "stock": 2 })).await;
    let link = link_before(&mut shop).await;
    let batches = linked_group_commit(&shop).await.writer();
    let mut purchases = Vec::new();
    for buyer in 1..=buyers {
        let buyer = UserId::new(buyer).expect("positive");
        purchases.push(Purchase { buyer, ..one_unit(&shop, item).await });
    }
    link.trap(at_commit().cut_client_and_hold());
    let told = CancellationToken::new();
    let watch = async {
        until_caught(&link, 0).await;
        // The order's row is locked by the transaction whose COMMIT is kept.
        eventually("the ledger to be asked", || async {
            let waiting = statements_running(&shop.pool, "%FROM orders %WHERE % FOR UPDATE").await;
            (waiting > 0 || told.is_cancelled()).then_some(())
        })
        .await;
        link.mend();
    };
    let written = async {
        // Begun in time, also on a busy machine.
        let deadline = Instant::now() + Duration::from_secs(10);
        let answers = write_batch(&batches, &purchases, Some(deadline)).await;
        told.cancel();
        answers
    };
    let (answers, ()) = tokio::join!(written, watch);
    instance.until_audit(item, "held", buyers).await;
    let are_sold = answers.iter().all(|answer| matches!(answer, Ok(Outcome::Sold(_))));
    assert!(are_sold, "they are orders: {answers:?}");
}
