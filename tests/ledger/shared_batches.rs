//! Batches of many items: trouble with one item is no trouble of the others, and a crowd at one item
//! keeps nobody else waiting.

use std::sync::atomic::AtomicUsize;

use ledger::rows::items;
use ledger::write::{Arbiter, BatchConnections, GroupCommit, SHARED_CONNECTIONS};
use shop_domain::{Item, Refusal, RequestKey};
use sqlx::{Executor, Row};

use crate::support::assert_clean;
use crate::support::prelude::*;

/// Group commit with one shared queue, and some items.
struct Testbed {
    shop: Shop,
    instance: Instance,
    group_commit: GroupCommit,
    items: Vec<Arc<Item>>,
    metrics: Metrics,
}

/// Group commit with one shared queue, over connections of its own.
fn group_commit(config: &Config, metrics: &Metrics) -> GroupCommit {
    let pool = mysql_connection::pool_of(config, 8).expect("the URL is fine");
    let mut impatient = config.clone();
    impatient.mysql.lock_wait_timeout_seconds = 1;
    let shared =
        mysql_connection::pool_of(&impatient, SHARED_CONNECTIONS).expect("the URL is fine");
    GroupCommit::new(
        Arbiter::new(pool.clone(), metrics.clone()),
        BatchConnections::new(pool, 8),
        TaskTracker::new(),
        vec![BatchConnections::new(shared, SHARED_CONNECTIONS)],
    )
}

impl Testbed {
    /// With `count` items of `stock` units each.
    async fn new(count: usize, stock: i64) -> Self {
        let (shop, instance) = Shop::open().await;
        let mut items = Vec::new();
        for _ in 0..count {
            let id = instance.make_item(json!({ "stock": stock, "per_buyer_limit": 2 })).await;
            let id = ItemId::new(id).expect("positive");
            items.push(items::find(&shop.pool, id).await.expect("read").expect("an item").item);
        }
        let metrics = Metrics::new();
        let group_commit = group_commit(&shop.config, &metrics);
        Self { shop, instance, group_commit, items, metrics }
    }

    /// Like [`Testbed::new`], where group commit reaches the ledger through a link.
    async fn linked(count: usize, stock: i64) -> (FaultyLink, Self) {
        let testbed = Self::new(count, stock).await;
        let link = link_to_ledger(&testbed.shop).await;
        let mut config = testbed.shop.config.clone();
        config.database_url = Secret::new(link.url());
        let group_commit = group_commit(&config, &testbed.metrics);
        (link, Self { group_commit, ..testbed })
    }

    fn purchase(&self, item: usize, buyer: i64) -> Purchase {
        purchase_of(&self.items[item], buyer, 1)
    }

    /// Writes purchases that come in the same moment.
    async fn write_all(&self, purchases: impl IntoIterator<Item = Purchase>) -> Vec<Outcome> {
        join_all(purchases.into_iter().map(|one| self.group_commit.write(one, None))).await
    }

    /// One purchase of each item but the first by this buyer, and `first` in the midst of them.
    async fn wave(&self, buyer: i64, first: Vec<Purchase>) -> (Vec<Outcome>, Vec<Outcome>) {
        let mut others: Vec<Purchase> =
            (1..self.items.len()).map(|item| self.purchase(item, buyer)).collect();
        let rest = others.split_off(others.len() / 2);
        let (before, first, after) =
            tokio::join!(self.write_all(others), self.write_all(first), self.write_all(rest));
        ([before, after].concat(), first)
    }

    /// A figure of `/metrics`.
    fn metric(&self, name: &str) -> f64 {
        let text = self.metrics.render();
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("seckill_{name} ")));
        line.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no {name}: {text}"))
    }

    async fn assert_clean(&self) {
        for item in &self.items {
            assert_clean(&self.instance, item.id.get()).await;
        }
    }
}

fn count_sold(outcomes: &[Outcome]) -> usize {
    outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Sold(_))).count()
}

#[track_caller]
fn assert_sold(outcomes: &[Outcome]) {
    let other: Vec<_> = outcomes.iter().filter(|one| !matches!(one, Outcome::Sold(_))).collect();
    assert!(other.is_empty(), "{other:?}");
}

#[tokio::test]
async fn many_items_share_a_transaction() {
    let testbed = Testbed::new(40, 5).await;
    let mut batches_of_waves = Vec::new();
    for buyer in 1..=5 {
        let before = testbed.metric("batch_orders_count");
        assert_sold(&testbed.write_all((0..40).map(|item| testbed.purchase(item, buyer))).await);
        batches_of_waves.push(testbed.metric("batch_orders_count") - before);
    }
    // 32 orders, 4 and 2, beside two that are written by themselves. A machine that stands still for
    // a while may write a wave item by item.
    assert!(batches_of_waves.iter().any(|batches| *batches <= 4.0), "{batches_of_waves:?}");
    let (items, orders) = (testbed.metric("batch_items_sum"), testbed.metric("batch_orders_sum"));
    assert!((items - orders).abs() < 0.5, "each order of a wave is of another item");
    assert_eq!(testbed.metric("arbiter_retries_total"), 0.0, "a batch was rolled back");
    testbed.assert_clean().await;
}

/// Whoever comes to a cold item while thousands wait for a hot one is served within two batches.
#[tokio::test]
async fn a_crowd_at_one_item_keeps_nobody_else_waiting() {
    const CROWD: i64 = 4_096;
    const BATCH: usize = 256;
    let testbed = Testbed::new(101, CROWD).await;
    let served = AtomicUsize::new(0);
    let (testbed, served) = (&testbed, &served);
    let crowd = (1..=CROWD).map(|buyer| async move {
        let outcome = testbed.group_commit.write(testbed.purchase(0, buyer + 1_000), None).await;
        served.fetch_add(1, Ordering::Relaxed);
        outcome
    });
    let others = async {
        eventually("the crowd to be served", || async {
            (served.load(Ordering::Relaxed) >= BATCH).then_some(())
        })
        .await;
        let come = served.load(Ordering::Relaxed);
        let buy = |item| async move {
            let outcome = testbed.group_commit.write(testbed.purchase(item, 1), None).await;
            (outcome, served.load(Ordering::Relaxed) - come)
        };
        join_all((1..=100).map(buy)).await
    };
    let (crowd, others) = tokio::join!(join_all(crowd), others);
    assert_sold(&crowd);
    for (outcome, served_meanwhile) in others {
        assert!(matches!(outcome, Outcome::Sold(_)), "{outcome:?}");
        // Two batches that were under way, its own one, and as many that a busy machine counts late; not the crowd's 16.
        assert!(served_meanwhile <= 8 * BATCH, "{served_meanwhile} were served before");
    }
    testbed.assert_clean().await;
}

/// The number of batches that are rolled back for an item whose orders always fail, however long it
/// goes on; then it is written apart.
const ROLLED_BACK_MAX: f64 = 4.0;

/// The first item's orders fail again and again; nobody else's do.
async fn nobody_else_pays(testbed: &Testbed, first: impl Fn(i64) -> Vec<Purchase>) -> Vec<Outcome> {
    let mut poisoned = Vec::new();
    for buyer in 1..=8 {
        let (others, failed) = testbed.wave(buyer, first(buyer)).await;
        assert_sold(&others);
        poisoned.extend(failed);
    }
    let rolled_back = testbed.metric("arbiter_retries_total");
    assert!(rolled_back <= ROLLED_BACK_MAX, "{rolled_back} batches were tried again");
    testbed.assert_clean().await;
    poisoned
}

#[tokio::test]
async fn a_sold_out_rush_next_door_costs_nobody_a_rollback() {
    let testbed = Testbed::new(30, 20).await;
    testbed.shop.set_stock(testbed.items[0].id.get(), 1).await;
    let rush = |wave: i64| (0..3).map(|one| testbed.purchase(0, wave * 10 + one)).collect();
    let rushed = nobody_else_pays(&testbed, rush).await;
    assert_eq!(count_sold(&rushed), 1, "{rushed:?}");
    assert_eq!(rushed.iter().filter(|outcome| is_sold_out(outcome)).count(), 23, "{rushed:?}");
}

fn is_sold_out(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Refused(Refusal::SoldOut { .. }))
}

#[tokio::test]
async fn an_item_that_stays_sold_out_is_not_apart_for_ever() {
    let testbed = Testbed::new(10, 20).await;
    testbed.shop.set_stock(testbed.items[0].id.get(), 0).await;
    let (others, refused) =
        testbed.wave(1, (100..103).map(|buyer| testbed.purchase(0, buyer)).collect()).await;
    assert_sold(&others);
    assert!(refused.iter().any(is_sold_out), "{refused:?}");
    assert!(testbed.metric("batch_suspects") >= 1.0, "nobody objected");
    // Nobody orders the item any more.
    let suspects = || async { testbed.metric("batch_suspects") };
    until("nothing to be apart", suspects, |suspects| *suspects == 0.0).await;
    assert_sold(&testbed.wave(2, Vec::new()).await.0);
    testbed.assert_clean().await;
}

#[tokio::test]
async fn buyers_over_their_limit_next_door_cost_nobody_a_rollback() {
    let testbed = Testbed::new(30, 100).await;
    let greedy = |_| (0..3).map(|_| testbed.purchase(0, 1_000)).collect();
    let bought = nobody_else_pays(&testbed, greedy).await;
    assert_eq!(count_sold(&bought), 2, "{bought:?}");
    let limit = Outcome::Refused(Refusal::LimitReached { limit: 2 });
    assert_eq!(bought.iter().filter(|outcome| **outcome == limit).count(), 22, "{bought:?}");
}

#[tokio::test]
async fn retries_next_door_find_their_order_and_cost_nobody_a_rollback() {
    let testbed = Testbed::new(30, 100).await;
    let key = RequestKey::parse("again").expect("a key");
    let again = |_| vec![Purchase { key: key.clone(), ..testbed.purchase(0, 1_000) }];
    let bought = nobody_else_pays(&testbed, again).await;
    let Outcome::Sold(order) = &bought[0] else { panic!("{:?}", bought[0]) };
    for outcome in &bought[1..] {
        assert!(matches!(outcome, Outcome::Replayed(again) if again.id == order.id), "{outcome:?}");
    }
}

#[tokio::test]
async fn an_order_that_the_ledger_never_takes_spoils_no_other() {
    let testbed = Testbed::new(30, 100).await;
    let trigger = format!(
        "CREATE TRIGGER refuses BEFORE INSERT ON orders FOR EACH ROW \
         IF NEW.item_id = {} THEN SIGNAL SQLSTATE '45000'; END IF",
        testbed.items[0].id
    );
    testbed.shop.pool.execute(sqlx::raw_sql(&trigger)).await.expect("a trigger");
    let bought = nobody_else_pays(&testbed, |wave| vec![testbed.purchase(0, wave)]).await;
    assert!(bought.iter().all(|outcome| matches!(outcome, Outcome::Unavailable(_))), "{bought:?}");
}

#[tokio::test]
async fn a_row_that_somebody_holds_stops_its_item_alone() {
    let testbed = Testbed::new(30, 100).await;
    let holder = hold_stock_row(&testbed.shop.pool, testbed.items[0].id.get()).await;
    let of_the_held = testbed.write_all((1..=6).map(|buyer| testbed.purchase(0, buyer)));
    let of_the_others = async {
        for buyer in 1..=6 {
            assert_sold(&testbed.wave(buyer, Vec::new()).await.0);
            assert!(testbed.metric("batch_suspects") >= 1.0, "the item is not written apart");
        }
        holder.rollback().await.expect("the row is free");
    };
    let (outcomes, ()) = tokio::join!(of_the_held, of_the_others);
    for outcome in &outcomes {
        assert!(matches!(outcome, Outcome::Sold(_) | Outcome::Unavailable(_)), "{outcome:?}");
    }
    eventually("the item to be sold again", || async {
        let outcome = testbed.group_commit.write(testbed.purchase(0, 99), None).await;
        matches!(outcome, Outcome::Sold(_)).then_some(())
    })
    .await;
    testbed.assert_clean().await;
}

/// The rows of the batch's stock are found by their keys: a scan would wait for the rows of others.
#[tokio::test]
async fn the_stock_of_many_items_is_taken_by_the_primary_key() {
    for count in [6, 60] {
        let testbed = Testbed::new(count, 10).await;
        // Two orders are written by themselves; this one is in the first batch.
        let holder = hold_stock_row(&testbed.shop.pool, testbed.items[3].id.get()).await;
        let look = async {
            let running = "SELECT INFO FROM information_schema.PROCESSLIST \
                 WHERE DB = DATABASE() AND INFO LIKE 'UPDATE stock %CASE%'";
            let text: String = eventually("the stock to be taken", || async {
                testbed.shop.read_all(sqlx::query_scalar(running)).await.pop()
            })
            .await;
            // A prepared statement is shown with its places.
            // MySQL 9.7 answers with a tree unless it is told otherwise.
            let mut explain = "EXPLAIN FORMAT=TRADITIONAL ".to_owned();
            for (number, part) in text.split('?').enumerate() {
                let id = number % count + 1;
                explain += &if number == 0 { part.to_owned() } else { format!("{id}{part}") };
            }
            let rows = testbed.shop.pool.fetch_all(sqlx::raw_sql(&explain)).await.expect("a plan");
            assert_eq!(rows.len(), 1, "{text}");
            let column = |name: &str| {
                let value = rows[0].try_get::<Option<String>, _>(name).expect("a text");
                value.unwrap_or_default()
            };
            assert_eq!((column("type").as_str(), column("key").as_str()), ("range", "PRIMARY"));
            holder.rollback().await.expect("the row is free");
        };
        let purchases = (0..count).map(|item| testbed.purchase(item, 1));
        let (outcomes, ()) = tokio::join!(testbed.write_all(purchases), look);
        assert_sold(&outcomes);
    }
}

/// A COMMIT whose answer is lost, or that never arrived: every order of every item is sold once. One statement locks the
/// orders of all items, and one reads them.
#[tokio::test]
async fn a_lost_commit_is_settled_for_all_items_together() {
    const COMMIT: &[u8] = b"\x03COMMIT";
    for trap in [Trap::at(COMMIT).lose_answer(), Trap::at(COMMIT)] {
        let (link, testbed) = Testbed::linked(30, 10).await;
        // Two orders are written by themselves, and the batch has the others.
        link.trap(trap.skip(2));
        link.count(b"WHERE id IN");
        let outcomes = testbed.write_all((0..30).map(|item| testbed.purchase(item, 1))).await;
        assert_eq!(link.caught(), 1, "the fault did not bite");
        assert_sold(&outcomes);
        assert!(link.counted() <= 2, "{} statements", link.counted());
        assert_eq!(testbed.metric("arbiter_commits_lost_total"), 1.0);
        testbed.assert_clean().await;
    }
}
