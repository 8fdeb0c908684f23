//! A server that is replaced while it commits: its answer does not count, since the new writer may not
//! have the order.

use std::sync::OnceLock;
use std::time::Instant;

use ledger::write::{Arbiter, BatchConnections, GroupCommit, OrderWrite, StockWrite};
use sqlx::Executor;
use sqlx::mysql::{MySqlConnectOptions, MySqlPoolOptions, MySqlSslMode};

use super::*;
use crate::support::purchase;

/// Two ledgers with the same item, and a pool that leads to the first one, over a link.
struct TwoLedgers {
    link: FaultyLink,
    old: Shop,
    new: Shop,
    item: i64,
    pool: Database,
    replaced_at: Arc<OnceLock<Instant>>,
    _instances: [Instance; 2],
}

impl TwoLedgers {
    async fn new() -> Self {
        let (mut old, new) = (Shop::new().await, Shop::new().await);
        let instances = [old.start().await, new.start().await];
        let mut items = Vec::new();
        for instance in &instances {
            items.push(instance.make_item(json!({ "stock": 5 })).await);
        }
        // Both ledgers have the item under one number, as a server and its replica.
        let mut connection = new.pool.acquire().await.expect("a connection").detach();
        connection.execute("SET foreign_key_checks = 0").await.expect("a setting");
        for (table, column) in [("stock", "item_id"), ("items", "id")] {
            let renumber = format!("UPDATE {table} SET {column} = ? WHERE {column} = ?");
            let renumber = sqlx::query(&renumber).bind(items[0]).bind(items[1]);
            renumber.execute(&mut connection).await.expect("one row");
        }
        let link = link_before(&mut old).await;
        let replaced_at: Arc<OnceLock<Instant>> = Arc::default();
        let replaced = Arc::clone(&replaced_at);
        // As the service's own pools do: a connection that is older than the change is not used.
        let pool = MySqlPoolOptions::new()
            .max_connections(4)
            .before_acquire(move |_, metadata| {
                let is_old = replaced.get().is_some_and(|at| metadata.age > at.elapsed());
                Box::pin(async move { Ok(!is_old) })
            })
            .connect_lazy_with(options(&old))
            .into();
        Self { link, old, new, item: items[0], pool, replaced_at, _instances: instances }
    }

    async fn purchases(&self, count: i64) -> Vec<Purchase> {
        let item = ItemId::new(self.item).expect("positive");
        let mut purchases = Vec::new();
        for buyer in 1..=count {
            let one = purchase(&self.old, item, 1, ("mysql-atomic", "k")).await;
            let buyer = UserId::new(buyer).expect("positive");
            purchases.push(Purchase { buyer, ..one });
        }
        purchases
    }

    /// Lets the pool lead to the new ledger while the old one has a COMMIT before it.
    async fn replace_at_commit(&self) {
        until_caught(&self.link, 0).await;
        self.pool.set_connect_options(options(&self.new));
        self.replaced_at.set(Instant::now()).expect("replaced once");
        self.link.mend();
    }

    /// Every order that was answered as sold is in the ledger that counts.
    async fn assert_new_ledger_has(&self, outcomes: &[Outcome]) {
        for outcome in outcomes {
            let Outcome::Sold(order) = outcome else { panic!("not sold: {outcome:?}") };
            let found = sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE id = ?");
            let found: i64 = self.new.read(found.bind(order.id.to_string())).await;
            assert_eq!(found, 1, "the new ledger does not have an order that was answered as sold");
        }
    }
}

/// Without TLS, which MySQL offers by itself: the link has to read what it holds.
fn options(shop: &Shop) -> MySqlConnectOptions {
    let options: MySqlConnectOptions =
        shop.config.database_url.reveal().parse().expect("the URL is fine");
    options.ssl_mode(MySqlSslMode::Disabled)
}

/// The order is one call, or its statements one by one.
#[tokio::test]
async fn a_replaced_server_does_not_answer_for_an_order() {
    for is_called in [true, false] {
        let ledgers = TwoLedgers::new().await;
        let arbiter = Arbiter::new(ledgers.pool.clone(), Metrics::new());
        let arbiter = arbiter.with_calls(is_called);
        let purchases = ledgers.purchases(1).await;
        let stock = StockWrite::Guarded;
        let write = OrderWrite { purchase: &purchases[0], fence: None, stock, deadline: None };
        ledgers.link.trap(at_commit().hold());
        let (outcome, ()) = tokio::join!(arbiter.write(&write), ledgers.replace_at_commit());
        ledgers.assert_new_ledger_has(&[outcome.unwrap_or_else(Outcome::from)]).await;
    }
}

#[tokio::test]
async fn a_replaced_server_does_not_answer_for_a_batch() {
    let ledgers = TwoLedgers::new().await;
    let arbiter = Arbiter::new(ledgers.pool.clone(), Metrics::new());
    let connections = BatchConnections::new(ledgers.pool.clone(), 2);
    let batches = GroupCommit::new(arbiter, connections, TaskTracker::new(), Vec::new()).writer();
    let purchases = ledgers.purchases(3).await;
    ledgers.link.trap(at_commit().hold());
    let written = write_batch(&batches, &purchases, None);
    let (answers, ()) = tokio::join!(written, ledgers.replace_at_commit());
    let outcomes: Vec<Outcome> =
        answers.into_iter().map(|answer| answer.expect("no conflict")).collect();
    ledgers.assert_new_ledger_has(&outcomes).await;
}
