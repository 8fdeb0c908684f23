//! The answers at a failover of the ledger: what a replaced writer says counts for nothing, and one
//! silent moment of the writer is no failover.

use dev_servers::{MysqlSet, Replication};
use ledger::write::Arbiter;
use mysql_connection::{Writer, is_unconfirmed};
use shop_domain::OrderStatus;
use shop_metrics::LedgerMetrics;
use sqlx::mysql::MySqlConnection;
use sqlx::{Connection, Executor};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::gates::stream::purchase;
use crate::support::crowd::{metric, on, on_with, until_figure};
use crate::support::prelude::*;

/// Connections that a server grants while it lets nobody else in: the fewest that it accepts.
const CONNECTIONS_MIN: usize = 10;
/// Connections that a server grants otherwise.
const CONNECTIONS_MAX: usize = 200;
/// A connection to a server that has too few is refused, and one more is kept for its operator.
const INTRUDERS: usize = CONNECTIONS_MIN + 2;

async fn run(session: &mut MySqlConnection, statement: &str) {
    session.execute(sqlx::raw_sql(statement)).await.expect(statement);
}

pub async fn execute(pair: &MysqlSet, place: usize, statement: &str) {
    run(&mut pair.operator(place).await.expect("it answers"), statement).await;
}

/// A server that opens no new connection: those that it has work on.
struct Closed {
    operator: MySqlConnection,
    intruders: Vec<MySqlConnection>,
}

impl Closed {
    async fn new(pair: &MysqlSet, place: usize) -> Self {
        let operator = pair.operator(place).await.expect("it answers");
        let mut intruders = Vec::new();
        for _ in 0..INTRUDERS {
            intruders.push(pair.operator(place).await.expect("it answers"));
        }
        let mut closed = Self { operator, intruders };
        closed.limit(CONNECTIONS_MIN).await;
        closed
    }

    async fn limit(&mut self, connections: usize) {
        run(&mut self.operator, &format!("SET GLOBAL max_connections = {connections}")).await;
    }

    /// Ends the connections on which the service asks this server whether it writes.
    async fn end_looks(&mut self) {
        let looks = "SELECT CAST(id AS SIGNED) FROM information_schema.processlist \
             WHERE db IS NULL AND user NOT IN ('operator', 'system user', 'root') \
             AND command IN ('Sleep', 'Query')";
        let looks = sqlx::query_scalar(looks).fetch_all(&mut self.operator).await;
        let looks: Vec<i64> = looks.expect("it answers");
        assert!(!looks.is_empty(), "the service looks at its writer");
        for id in looks {
            // It may have ended.
            let _ = self.operator.execute(sqlx::raw_sql(&format!("KILL {id}"))).await;
        }
    }

    async fn open(mut self) {
        self.limit(CONNECTIONS_MAX).await;
        for intruder in self.intruders {
            let _ = intruder.close().await;
        }
    }
}

/// Waits until the service follows the host at this place of the URL, from 1.
async fn is_followed(instance: &Instance, place: f64) {
    let is_there = |writer: f64| (writer - place).abs() < 0.1;
    until_figure(instance, "seckill_ledger_writer", is_there).await;
}

/// Runs work whose COMMIT the writer holds until its replica was promoted and is followed. Then it answers the COMMIT.
/// No replica has what it writes.
async fn answered_by_the_old_writer<T: Send + 'static>(
    pair: &mut MysqlSet,
    work: impl Future<Output = T> + Send + 'static,
    replica_is_followed: impl AsyncFnOnce(),
) -> T {
    execute(pair, 0, "SET GLOBAL rpl_semi_sync_master_enabled = 0").await;
    let mut holder = pair.operator(0).await.expect("it answers");
    let observer = Mutex::new(pair.operator(0).await.expect("it answers"));
    let mut closed = Closed::new(pair, 0).await;
    for stage in ["START", "FLUSH", "BLOCK_DDL", "BLOCK_COMMIT"] {
        run(&mut holder, &format!("BACKUP STAGE {stage}")).await;
    }
    let work = tokio::spawn(work);
    eventually("a COMMIT that waits", || async {
        let waiting = "SELECT COUNT(*) FROM information_schema.processlist WHERE info = 'COMMIT'";
        let waiting = sqlx::query_scalar(waiting).fetch_one(&mut *observer.lock().await).await;
        let waiting: i64 = waiting.expect("it answers");
        when(waiting > 0, waiting)
    })
    .await;
    closed.end_looks().await;
    pair.take_over().await.expect("the replica takes over");
    replica_is_followed().await;
    run(&mut holder, "BACKUP STAGE END").await;
    let answer = work.await.expect("no panic");
    closed.open().await;
    answer
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_is_not_lost_at_a_failover() {
    let provider = TestProvider::start().await;
    let (mut pair, shop, instance) = on_with(Replication::SemiSync, |config| {
        provider
            .configure(config, "https://pay.example/checkout?order={order}&cents={amount_cents}");
    })
    .await;
    let item = instance.make_item(json!({ "stock": 2 })).await;
    let order = order_id(&instance.buyer(1).buy("mysql-atomic", item).await);
    let said = provider.succeeded("m1", "p1", &order, 250);
    let (message, shop_address) = (said.clone(), instance.addr);
    let work = async move { message.send_to(shop_address).await };
    let follows = async || is_followed(&instance, 2.0).await;
    let answer = answered_by_the_old_writer(&mut pair, work, follows).await;
    assert_eq!(answer.status, 503, "acknowledged by a replaced writer: {}", answer.text);
    let paid = until(RECOVERY_MAX, || said.send(&instance), |again| again.status == 200).await.text;
    assert!(paid.contains("paid"), "{paid}");
    let payments = "SELECT COUNT(*) FROM payments WHERE id = 'p1' AND status = 'accepted'";
    assert_eq!(shop.number(payments).await, 1);
    assert_clean(&instance, item).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rejection_that_only_the_old_writer_has_is_stored_again() {
    let (mut pair, shop, instance) = on(Replication::SemiSync).await;
    let item = instance.make_item(json!({ "stock": 1 })).await;
    let refused = purchase(&shop, item, "queued-order").await;
    let arbiter = Arbiter::new(shop.pool.clone(), Metrics::new());
    let work = {
        let (arbiter, refused) = (arbiter.clone(), refused.clone());
        async move { arbiter.reject(&refused).await }
    };
    let old = shop.pool.connect_options().get_port();
    let follows = async || {
        let port = || async { shop.pool.connect_options().get_port() };
        until(RECOVERY_MAX, port, |port| *port != old).await;
    };
    let stored = answered_by_the_old_writer(&mut pair, work, follows).await;
    let error = stored.expect_err("a replaced writer has stored it");
    assert!(is_unconfirmed(&error), "{error}");
    // The consumer is given it again.
    let stored = eventually(RECOVERY_MAX, || arbiter.reject(&refused)).await;
    assert_eq!(stored.status, OrderStatus::Rejected);
    assert_eq!(shop.number("SELECT COUNT(*) FROM orders WHERE status = 'rejected'").await, 1);
}

/// Another instance found the new writer sooner, and has answered a buyer. This one has not looked since.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_answer_comes_from_a_writer_that_was_replaced_a_moment_ago() {
    let (mut pair, shop, instance) = on(Replication::SemiSync).await;
    let writer = Writer::new(shop.config.database_url.reveal()).expect("the URL is fine");
    let late = mysql_connection::pool_to(&writer, &shop.config, 2);
    let stop = CancellationToken::new();
    let following = tokio::spawn(writer.clone().follow(LedgerMetrics::default(), stop.clone()));
    let count = "SELECT COUNT(*) FROM redis_queues WHERE item_id = 7";
    let seen = async || sqlx::query_scalar::<_, i64>(count).fetch_one(&late).await;
    eventually(RECOVERY_MAX, &seen).await;
    stop.cancel();
    following.await.expect("it ends");
    pair.switch_over().await.expect("the replica takes over");
    is_followed(&instance, 2.0).await;
    let insert = "INSERT IGNORE INTO redis_queues (item_id) VALUES (7)";
    eventually(RECOVERY_MAX, || sqlx::query(insert).execute(&shop.pool)).await;
    assert!(!matches!(seen().await, Ok(0)), "the old writer answers what the new one has not");
}

/// A replica was left writable by mistake. The writer is silent for a moment, and comes back.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_that_is_silent_for_a_moment_is_kept_beside_a_writable_replica() {
    let (mut pair, _shop, instance) = on(Replication::SemiSync).await;
    is_followed(&instance, 1.0).await;
    execute(&pair, 1, "SET GLOBAL read_only = 0").await;
    let claims = async |count: f64| {
        let as_many = |writers: f64| (writers - count).abs() < 0.1;
        until_figure(&instance, "seckill_ledger_writers", as_many).await;
    };
    claims(2.0).await;
    assert_eq!(metric(&instance, "seckill_ledger_writers_in_conflict").await, 1.0);
    assert!(pair.member(0).pause());
    claims(1.0).await;
    // It is reported for as long as nobody has decided.
    assert_eq!(metric(&instance, "seckill_ledger_writers_in_conflict").await, 1.0);
    assert!(pair.member(0).resume());
    claims(2.0).await;
    assert_eq!(metric(&instance, "seckill_ledger_writer").await, 1.0);
    assert_eq!(metric(&instance, "seckill_ledger_writer_changes_total").await, 0.0);
    let item = instance.make_item(json!({ "stock": 2 })).await;
    assert_eq!(instance.buyer(1).buy("mysql-atomic", item).await.status, 201);
    // The operators decide: the replica takes no writes any more.
    execute(&pair, 1, "SET GLOBAL read_only = 1").await;
    claims(1.0).await;
    assert_eq!(metric(&instance, "seckill_ledger_writers_in_conflict").await, 0.0);
    pair.switch_over().await.expect("the replica takes over");
    is_followed(&instance, 2.0).await;
}
