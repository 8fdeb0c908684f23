//! Batches of one item: a refusal follows from written orders, never from orders that were only planned.

use ledger::rows::items;
use ledger::write::{Answer, Arbiter, BatchConnections, BatchWriter, GroupCommit};
use shop_domain::trace::{EndedSpan, Span, SpanKind, SpanSink, TraceContext};
use shop_domain::{Doubt, Item, OrderId, Refusal, RequestKey, Unavailable};
use sqlx::{MySql, Transaction};
use tokio::time::{Instant, timeout};

use crate::support::prelude::*;

/// A buyer who has nothing left to buy.
const AT_THE_LIMIT: i64 = 90;

struct BatchTestbed {
    shop: Shop,
    _instance: Instance,
    item: Arc<Item>,
    group_commit: GroupCommit,
    batches: BatchWriter,
    metrics: Metrics,
}

impl BatchTestbed {
    /// An item of `stock` units, two for each buyer, and a writer that looks before it writes,
    /// since somebody of the batch before had to be refused.
    async fn new(stock: i64) -> Self {
        let (shop, instance) = Shop::open_with(patient).await;
        let item = instance.make_item(json!({ "stock": stock + 1, "per_buyer_limit": 2 })).await;
        let id = ItemId::new(item).expect("positive");
        let item = items::find(&shop.pool, id).await.expect("read").expect("an item").item;
        let pool = mysql_connection::pool(&shop.config).expect("the URL is fine");
        let metrics = Metrics::new();
        let arbiter = Arbiter::new(pool.clone(), metrics.clone());
        let connections = BatchConnections::new(pool, 2);
        let group_commit = GroupCommit::new(arbiter, connections, TaskTracker::new(), Vec::new());
        let batches = group_commit.writer();
        let testbed = Self { shop, _instance: instance, item, group_commit, batches, metrics };
        testbed.count(AT_THE_LIMIT, 2).await.commit().await.expect("at the limit");
        let first = [testbed.purchase(AT_THE_LIMIT, 1), testbed.purchase(91, 1)];
        let answers = write_batch(&testbed.batches, &first, None).await;
        assert!(
            matches!(answers[..], [Ok(Outcome::Refused(_)), Ok(Outcome::Sold(_))]),
            "{answers:?}"
        );
        testbed
    }

    fn purchase(&self, buyer: i64, units: u32) -> Purchase {
        purchase_of(&self.item, buyer, units)
    }

    /// Counts units for a buyer, in a transaction that is not committed.
    async fn count(&self, buyer: i64, units: i64) -> Transaction<'static, MySql> {
        let insert =
            "INSERT INTO buyer_limits (item_id, user_id, bought, allowed) VALUES (?, ?, ?, 2)";
        self.shop.hold(sqlx::query(insert).bind(self.item.id.get()).bind(buyer).bind(units)).await
    }

    /// Takes units, in a transaction that is not committed.
    async fn take(&self, units: i64) -> Transaction<'static, MySql> {
        let update = "UPDATE stock SET available = available - ? WHERE item_id = ?";
        self.shop.hold(sqlx::query(update).bind(units).bind(self.item.id.get())).await
    }

    /// Writes a batch; once it waits in a statement, `rival` is committed.
    async fn write_beside(
        &self,
        purchases: &[Purchase],
        rival: Transaction<'static, MySql>,
        statement: &str,
    ) -> Vec<Answer> {
        let pool = &self.shop.pool;
        let comes_first = async {
            until_running(pool, statement, 1).await;
            rival.commit().await.expect("committed");
        };
        tokio::join!(write_batch(&self.batches, purchases, None), comes_first).0
    }
}

#[tokio::test]
async fn nobody_is_sold_out_for_a_unit_that_the_one_before_did_not_take() {
    let testbed = BatchTestbed::new(1).await;
    // Buyer 1 gets to the limit in some other way, after the batch has looked.
    let rival = testbed.count(1, 2).await;
    let purchases = [testbed.purchase(1, 1), testbed.purchase(2, 1), testbed.purchase(3, 1)];
    let answers = testbed.write_beside(&purchases, rival, "INSERT INTO buyer_limits%").await;
    assert_eq!(answers[0], Ok(Outcome::Refused(Refusal::LimitReached { limit: 2 })), "{answers:?}");
    assert!(matches!(answers[1], Ok(Outcome::Sold(_))), "a unit is left: {:?}", answers[1]);
    assert!(is_sold_out(&answers[2]), "{answers:?}");
}

/// Neither another buyer nor the one of the larger order.
#[tokio::test]
async fn nobody_is_refused_behind_a_larger_order_that_no_longer_fits() {
    for next in [2, 1] {
        let testbed = BatchTestbed::new(2).await;
        let rival = testbed.take(1).await;
        let purchases = [testbed.purchase(1, 2), testbed.purchase(next, 1)];
        let answers =
            testbed.write_beside(&purchases, rival, "UPDATE stock SET available = %").await;
        assert!(is_sold_out(&answers[0]), "{answers:?}");
        assert!(matches!(answers[1], Ok(Outcome::Sold(_))), "a unit is left: {:?}", answers[1]);
    }
}

#[track_caller]
fn assert_sold(answers: &[Answer]) {
    assert!(answers.iter().all(|answer| matches!(answer, Ok(Outcome::Sold(_)))), "{answers:?}");
}

fn is_sold_out(answer: &Answer) -> bool {
    matches!(answer, Ok(Outcome::Refused(Refusal::SoldOut { .. })))
}

/// The ledger would refuse a batch with one key in it twice, and all of its orders would be written
/// one by one.
#[tokio::test]
async fn a_key_that_comes_twice_does_not_spoil_its_batch() {
    let testbed = BatchTestbed::new(8).await;
    let mut purchases: Vec<_> = (1..=6).map(|buyer| testbed.purchase(buyer, 1)).collect();
    let key = RequestKey::parse("k").expect("a key");
    let twice = Purchase { key, ..testbed.purchase(7, 1) };
    purchases.push(Purchase { order_id: OrderId::generate(), ..twice.clone() });
    purchases.push(twice);
    let tried = testbed.metrics.arbiter_retries.get();
    let answers = write_batch(&testbed.batches, &purchases, None).await;
    let (last, others) = answers.split_last().expect("some");
    assert_sold(others);
    assert!(matches!(last, Ok(Outcome::Replayed(_))), "{last:?}");
    assert_eq!(testbed.metrics.arbiter_retries.get(), tried, "the batch was rolled back");
}

/// A batch that is rolled back again and again leaves each of its orders to itself.
#[tokio::test]
async fn an_order_that_the_ledger_never_takes_does_not_keep_its_batch_for_ever() {
    let testbed = BatchTestbed::new(3).await;
    let trigger = "CREATE TRIGGER deadlocks BEFORE INSERT ON orders FOR EACH ROW \
         IF NEW.user_id = 2 THEN SIGNAL SQLSTATE '40001' \
         SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'a deadlock'; END IF";
    sqlx::raw_sql(trigger).execute(&testbed.shop.pool).await.expect("a trigger");
    let purchases = [1, 2, 3].map(|buyer| testbed.purchase(buyer, 1));
    let written = timeout(BOUND, write_batch(&testbed.batches, &purchases, None));
    let mut answers = written.await.expect("the batch is given up");
    assert_eq!(answers.remove(1), Ok(Outcome::Unavailable(Unavailable::Contended)));
    assert_sold(&answers);
}

/// Orders of one batch may differ in what the orders of most batches have in common.
#[tokio::test]
async fn orders_of_a_batch_keep_their_own_values() {
    let testbed = BatchTestbed::new(4).await;
    let named = |buyer, strategy| Purchase { strategy, ..testbed.purchase(buyer, 1) };
    let purchases = [named(1, "mysql-batch"), named(2, "lock-redis"), named(3, "mysql-batch")];
    assert_sold(&write_batch(&testbed.batches, &purchases, None).await);
    let rows =
        "SELECT user_id, strategy FROM orders WHERE item_id = ? AND user_id < 4 ORDER BY user_id";
    let rows = sqlx::query_as(rows).bind(testbed.item.id.get());
    let rows: Vec<(i64, String)> = rows.fetch_all(&testbed.shop.pool).await.expect("read");
    assert_eq!(rows, purchases.map(|one| (one.buyer.get(), one.strategy.to_owned())));
}

/// A collector of traces that panics when an order ends to wait for a batch.
struct Panicking;

impl SpanSink for Panicking {
    fn take(&self, span: EndedSpan) {
        assert_ne!(span.name, "batch wait", "planted: the task of the queue panics");
    }
}

/// The task that cuts batches panics at an order that is late, after it has taken four others.
#[tokio::test]
async fn a_queue_goes_on_after_a_panic_of_its_task() {
    let testbed = BatchTestbed::new(5).await;
    let sink: Arc<dyn SpanSink> = Arc::new(Panicking);
    let root = Span::begin("purchase", SpanKind::Server, None, TraceContext::new(true), &sink);
    let late = Purchase { trace: root.trace(), ..testbed.purchase(9, 1) };
    let purchases: Vec<Purchase> = (1..=5).map(|buyer| testbed.purchase(buyer, 1)).collect();
    let write = |one: &Purchase, deadline| testbed.group_commit.write(one.clone(), deadline);
    let write_all = || join_all(purchases.iter().map(|one| write(one, None)));
    // All are in the queue before its task runs.
    let in_queue = async { tokio::join!(write(&late, Some(Instant::now())), write_all()) };
    let (late, outcomes) = timeout(BOUND, in_queue).await.expect("nobody waits for the task");
    let unwritten = Outcome::Unavailable(Unavailable::Contended);
    assert_eq!(late, unwritten);
    let expected = [vec![Outcome::Unknown(Doubt::BrokenOff); 4], vec![unwritten]].concat();
    assert_eq!(outcomes, expected, "those that the task had, and the one that waited");
    let again = timeout(BOUND, write_all()).await.expect("the next order starts a task");
    assert!(again.iter().all(|outcome| matches!(outcome, Outcome::Sold(_))), "{again:?}");
}
