//! Items that move between two ledgers while they sell, without the service: the mover by itself.

mod buyers;
mod groups;
mod homes;
mod killed;
mod lost;
mod queued;
mod reads;
mod resumed;
mod service;
mod watched;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ledger::Database;
use ledger::item_move::tables::{ITEM_TABLES, OTHER_TABLES};
use ledger::item_move::{Limits, MoveError, Mover, close_source};
use ledger::rows::moves;
use seckill::config::Secret;
use shop_domain::ItemId;
use shop_domain::home::ShardId;

use crate::support::{Shop, eventually};
use buyers::{Buyers, Step};

/// The longest pause that a test allows: machines are shared and slow.
const PAUSE_MAX: Duration = Duration::from_secs(20);

/// The second ledger.
const SECOND: u16 = 1;

/// Two ledgers on one server.
struct Pair {
    home: Shop,
    second: Shop,
}

fn shard(number: u16) -> ShardId {
    ShardId::new(number).expect("small")
}

impl Pair {
    async fn new() -> Self {
        Self::to(Shop::new().await).await
    }

    /// With a second ledger of one's own.
    async fn to(second: Shop) -> Self {
        let urls = format!("1={}", second.config.database_url.reveal());
        let home = Shop::with(|config| {
            config.shards.urls = Secret::new(urls);
            // Its tests end the moves themselves.
            config.job.move_period_ms = 3_600_000;
        })
        .await;
        Self { home, second }
    }

    fn ledgers(&self) -> BTreeMap<ShardId, Database> {
        BTreeMap::from([
            (shard(0), self.home.pool.clone()),
            (shard(SECOND), self.second.pool.clone()),
        ])
    }

    fn mover(&self) -> Mover {
        let limits = Limits { pause_max: PAUSE_MAX, route_age_max: Duration::ZERO };
        Mover::new(self.ledgers(), limits)
    }

    fn pool(&self, number: u16) -> &Database {
        if number == 0 { &self.home.pool } else { &self.second.pool }
    }

    /// An item of the home ledger with this many units.
    async fn make_item(&self, units: i64) -> ItemId {
        let made = sqlx::query(
            "INSERT INTO items (name, price_cents, starts_at, ends_at, per_buyer_limit, hold_seconds, \
             strategy, kind, arbiter, created_at) VALUES ('A thing', 250, '2020-01-01', '2037-01-01', \
             2, 300, 'mysql-atomic', 'shop', 'on', UTC_TIMESTAMP(6))",
        )
        .execute(&self.home.pool)
        .await
        .expect("an item");
        let id = i64::try_from(made.last_insert_id()).expect("small");
        sqlx::query("INSERT INTO stock (item_id, total, available) VALUES (?, ?, ?)")
            .bind(id)
            .bind(units)
            .bind(units)
            .execute(&self.home.pool)
            .await
            .expect("a stock row");
        ItemId::new(id).expect("positive")
    }

    fn buyers(&self) -> Buyers {
        Buyers { pools: [self.home.pool.clone(), self.second.pool.clone()] }
    }

    /// The rows of an item in a ledger, by table.
    async fn rows(&self, number: u16, item: ItemId) -> BTreeMap<&'static str, i64> {
        let mut rows = BTreeMap::new();
        for table in ITEM_TABLES.iter().filter(|table| table.name != "limit_groups") {
            let statement = format!("SELECT COUNT(*) FROM {} WHERE {}", table.name, table.of_item);
            let count: i64 = sqlx::query_scalar(&statement)
                .bind(item.get())
                .fetch_one(self.pool(number))
                .await
                .expect("counted");
            if count > 0 {
                rows.insert(table.name, count);
            }
        }
        rows
    }

    /// Checks that the item lives in this ledger alone, and that its audit is clean.
    async fn assert_lives_in(&self, number: u16, item: ItemId) {
        let (home, epoch) = buyers::route(&self.home.pool, item.get()).await;
        assert_eq!(home, number, "the home of item {item}");
        let stock: u64 = sqlx::query_scalar("SELECT home_epoch FROM stock WHERE item_id = ?")
            .bind(item.get())
            .fetch_one(self.pool(number))
            .await
            .expect("a stock row");
        assert_eq!(stock, epoch, "the epochs of item {item}");
        assert_eq!(self.rows(1 - number, item).await, BTreeMap::new(), "left over");
        let report = seckill::audit::audit(self.pool(number), None, item).await.expect("read");
        let report = report.expect("the item");
        assert!(report.is_clean(), "{:#?}", report.findings);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_moves_there_and_back_while_it_sells() {
    let pair = Arc::new(Pair::new().await);
    let item = pair.make_item(400).await;
    let stop = Arc::new(AtomicBool::new(false));
    let sellers = (0..4).map(|lane| {
        let (buyers, stop) = (pair.buyers(), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut sold = BTreeSet::new();
            let mut buyer = 1 + lane * 1_000_000;
            while !stop.load(Ordering::Relaxed) {
                match buyers.buy(item.get(), buyer).await {
                    Some(order) => assert!(sold.insert(order)),
                    // Units come back.
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
                buyer += 1;
            }
            sold
        })
    });
    let sellers: Vec<_> = sellers.collect();
    // Other changes of orders, too: each is made exactly once, wherever the order is.
    let steps = {
        let (buyers, stop) = (pair.buyers(), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut made = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                for step in [Step::Pay, Step::Cancel, Step::Expire] {
                    made.extend(buyers.step_any(item.get(), step).await);
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            made
        })
    };
    let mover = pair.mover();
    let mut pauses = Vec::new();
    for round in 0..6_u16 {
        eventually("some more sales", || async {
            let sold: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM orders WHERE item_id = ?")
                .bind(item.get())
                .fetch_one(pair.pool(round % 2))
                .await
                .ok()?;
            (sold >= i64::from(20 * (round + 1))).then_some(())
        })
        .await;
        let target = shard((round + 1) % 2);
        let moved = mover.move_item(item, target).await.expect("it moves");
        assert_eq!(moved.home, target);
        pauses.extend(moved.pause);
        assert_eq!(pair.rows(round % 2, item).await, BTreeMap::new(), "left over");
    }
    stop.store(true, Ordering::Relaxed);
    let mut sold = BTreeSet::new();
    for seller in sellers {
        sold.extend(seller.await.expect("no panic"));
    }
    let made = steps.await.expect("no panic");
    pair.assert_lives_in(0, item).await;
    let orders: Vec<(String, String)> =
        sqlx::query_as("SELECT id, status FROM orders WHERE item_id = ?")
            .bind(item.get())
            .fetch_all(pair.pool(0))
            .await
            .expect("read");
    let ledger: BTreeMap<_, _> = orders.into_iter().collect();
    assert_eq!(ledger.keys().cloned().collect::<BTreeSet<_>>(), sold, "lost or sold twice");
    assert!(!made.is_empty(), "no order was paid, cancelled or expired");
    for (order, status) in made {
        assert_eq!(ledger[&order], status, "order {order}");
    }
    println!("pauses: {pauses:?}");
}

#[tokio::test]
async fn a_stale_route_sells_nothing_after_the_flip() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    let old = buyers::route(&pair.home.pool, item.get()).await;
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    let buyers = pair.buyers();
    // The rows are gone, and where they are not yet, their epoch is another one.
    assert!(buyers.try_buy(old, item.get(), 7).await.is_none());
    pair.mover().move_item(item, shard(0)).await.expect("it moves back");
    assert!(buyers.try_buy(old, item.get(), 7).await.is_none(), "a route of two moves ago");
    assert!(buyers.buy(item.get(), 7).await.is_some());
    pair.assert_lives_in(0, item).await;
}

#[tokio::test]
async fn every_table_of_the_schema_is_said_to_move_or_to_stay() {
    let pair = Pair::new().await;
    let mut tables: Vec<String> = sqlx::query_scalar(
        "SELECT CAST(TABLE_NAME AS CHAR) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA = DATABASE()",
    )
    .fetch_all(&pair.home.pool)
    .await
    .expect("the schema");
    let moving = ITEM_TABLES.iter().map(|table| table.name);
    let mut known: Vec<&str> = moving.chain(OTHER_TABLES.iter().map(|(name, _)| *name)).collect();
    known.sort_unstable();
    tables.sort_unstable();
    assert_eq!(
        tables, known,
        "crates/ledger/src/item_move/tables.rs lists what becomes of each table"
    );
    // A row of an item names it, or one of its orders: such a table that stays needs its reason.
    let named: Vec<String> = sqlx::query_scalar(
        "SELECT DISTINCT CAST(TABLE_NAME AS CHAR) FROM information_schema.COLUMNS \
         WHERE TABLE_SCHEMA = DATABASE() AND COLUMN_NAME IN ('item_id', 'order_id')",
    )
    .fetch_all(&pair.home.pool)
    .await
    .expect("the schema");
    let stay = ["admin_actions", "item_homes", "item_moves", "kept_rows", "order_lines"];
    for table in named {
        let moves = ITEM_TABLES.iter().any(|known| known.name == table);
        assert!(moves || stay.contains(&table.as_str()), "{table} has rows of items, and stays");
    }
}

#[tokio::test]
async fn a_mover_that_slept_through_later_moves_opens_no_old_route() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    let home = &pair.home.pool;
    // Its successor has given its move up, so the item sells with the epoch of that move.
    let slept = moves::begin(home, item, shard(SECOND)).await.expect("a move");
    assert!(moves::give_up(home, &slept).await.expect("answered"));
    let raised = sqlx::query("UPDATE stock SET home_epoch = ? WHERE item_id = ?");
    raised.bind(slept.epoch).bind(item.get()).execute(home).await.expect("raised");
    let old = buyers::route(home, item.get()).await;
    assert_eq!(old, (0, slept.epoch));
    // The next move has flipped, and the rows at the source are still there.
    let next = moves::begin(home, item, shard(SECOND)).await.expect("a move");
    assert!(close_source(home, &next, slept.epoch).await.expect("answered"));
    assert!(moves::set_closed(home, &next).await.expect("answered"));
    let mut flip = home.begin().await.expect("begun");
    let flipped = moves::flip_together(&mut flip, std::slice::from_ref(&next)).await;
    assert!(flipped.expect("answered"));
    flip.commit().await.expect("answered");
    assert!(!close_source(home, &slept, next.epoch).await.expect("answered"), "it closes");
    assert!(pair.buyers().try_buy(old, item.get(), 7).await.is_none(), "an old route sells");
}

#[tokio::test]
async fn two_movers_at_once_are_one_move() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    let (one, two) = (pair.mover(), pair.mover());
    let (first, second) =
        tokio::join!(one.move_item(item, shard(SECOND)), two.move_item(item, shard(SECOND)));
    let ended = [first, second];
    let moved = ended.iter().filter(|ended| ended.is_ok()).count();
    assert_eq!(moved, 1, "{ended:?}");
    assert!(
        ended.iter().any(|ended| matches!(ended, Err(MoveError::Busy | MoveError::AtHome(_)))),
        "{ended:?}"
    );
    pair.assert_lives_in(SECOND, item).await;
}

#[tokio::test]
async fn what_cannot_be_moved_is_refused_with_a_sentence() {
    let pair = Pair::new().await;
    let (item, other) = (pair.make_item(5).await, pair.make_item(5).await);
    let mover = pair.mover();
    let refused = async |item: ItemId, target: u16| {
        mover.move_item(item, shard(target)).await.expect_err("refused").to_string()
    };
    assert!(refused(item, 7).await.contains("no shard 7"));
    assert!(refused(item, 0).await.contains("lives in shard 0 already"));
    let missing = ItemId::new(4_711).expect("positive");
    assert!(refused(missing, SECOND).await.contains("no item 4711"));
    for item in [item, other] {
        sqlx::query("INSERT INTO limit_group_items (group_id, item_id) VALUES (1, ?)")
            .bind(item.get())
            .execute(&pair.home.pool)
            .await
            .expect("grouped");
    }
    assert!(refused(item, SECOND).await.contains("shares a limit with 1 other items"));
    assert!(matches!(mover.resume(item).await, Err(MoveError::NoMove)));
    assert!(matches!(mover.give_up(item).await, Err(MoveError::NoMove)));
    assert!(pair.buyers().buy(item.get(), 1).await.is_some(), "it sells as before");
}

#[tokio::test]
async fn a_move_that_takes_too_long_is_given_up_and_the_item_sells() {
    let pair = Pair::new().await;
    let item = pair.make_item(5).await;
    let limits = Limits { pause_max: Duration::ZERO, route_age_max: Duration::ZERO };
    let refused = Mover::new(pair.ledgers(), limits).move_item(item, shard(SECOND)).await;
    let error = refused.expect_err("no time at all");
    assert!(matches!(error, MoveError::GivenUp { .. }), "{error}");
    pair.assert_lives_in(0, item).await;
    assert!(pair.buyers().buy(item.get(), 1).await.is_some());
    // The next move has an epoch of its own.
    pair.mover().move_item(item, shard(SECOND)).await.expect("it moves");
    pair.assert_lives_in(SECOND, item).await;
    let states: Vec<String> =
        sqlx::query_scalar("SELECT state FROM item_moves WHERE item_id = ? ORDER BY epoch")
            .bind(item.get())
            .fetch_all(&pair.home.pool)
            .await
            .expect("the records");
    assert_eq!(states.last().map(String::as_str), Some("done"), "{states:?}");
    assert!(states.iter().rev().skip(1).all(|state| state == "given_up"), "{states:?}");
}
