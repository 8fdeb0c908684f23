//! A long sale on a cluster of Vitess: all items sell out while tablets are killed and a shard is split.
//!
//! `SECKILL_TEST_ORDERS=1000000` is the whole run, with 10,000 items and 50 kills.

use std::sync::atomic::AtomicU64;
use std::time::Instant;

use dev_servers::VitessCluster;
use futures::StreamExt;
use futures::stream;

use crate::ledger::reparents::can_start;
use crate::support::crowd::{assert_nothing_lost, buy_for_sure};
use crate::support::prelude::*;
use crate::support::shards::clustered_shop;

/// Orders of an ordinary run, and its kills.
const ORDERS: u64 = 10_000;
const KILLS: u64 = 3;
/// Kills of the whole run.
const KILLS_OF_ALL: u64 = 50;
/// Units of each item, and the buyers who come for them.
const STOCK: u64 = 100;
const BUYERS: u64 = 105;
/// Purchases at once, in an ordinary run and in the whole one.
const AT_ONCE: usize = 48;
const AT_ONCE_OF_ALL: usize = 512;
/// Items that are made at once.
const MADE_AT_ONCE: usize = 16;
/// The shard that is split, the other one, and what becomes of the first.
const SPLIT: &str = "-80";
const WHOLE: &str = "80-";
const HALVES: [&str; 2] = ["-40", "40-80"];
/// After its primary is gone, a shard needs one tablet that becomes it, and one more that a commit waits for.
const TABLETS: u32 = 3;

/// The sale of all items. Each purchase has a buyer of its own.
struct LongSale<'a> {
    instance: &'a Instance,
    items: Vec<i64>,
    /// The connections of all buyers.
    client: Client,
    begin: Instant,
    sold: AtomicU64,
    /// When the last purchase was accepted, and the longest time without one since the last question, in milliseconds.
    last_ms: AtomicU64,
    pause_ms: AtomicU64,
}

impl<'a> LongSale<'a> {
    async fn prepare(instance: &'a Instance, orders: u64) -> Self {
        let item = || instance.make_item(json!({ "stock": STOCK, "hold_seconds": 86_400 }));
        let items = stream::iter(0..orders.div_ceil(STOCK)).map(|_| item());
        Self {
            instance,
            items: items.buffer_unordered(MADE_AT_ONCE).collect().await,
            client: instance.stranger(),
            begin: Instant::now(),
            sold: AtomicU64::new(0),
            last_ms: AtomicU64::new(0),
            pause_ms: AtomicU64::new(0),
        }
    }

    /// All units.
    fn units(&self) -> u64 {
        self.items.len() as u64 * STOCK
    }

    fn sold(&self) -> u64 {
        self.sold.load(Ordering::Relaxed)
    }

    /// Sells everything, with this number of purchases at once; the accepted orders of each item.
    async fn sells(&self, at_once: usize) -> Vec<(i64, Vec<String>)> {
        let mut accepted: Vec<(i64, Vec<String>)> =
            self.items.iter().map(|item| (*item, Vec::new())).collect();
        let purchases = stream::iter(0..self.items.len() as u64 * BUYERS);
        let mut purchases = purchases.map(|number| self.buy(number)).buffer_unordered(at_once);
        while let Some(bought) = purchases.next().await {
            if let Some((place, order)) = bought {
                accepted[place].1.push(order);
            }
        }
        accepted
    }

    /// Makes the purchase of this number; the place of its item and the order, or none when all is sold.
    async fn buy(&self, number: u64) -> Option<(usize, String)> {
        let place = number as usize % self.items.len();
        // A transaction of its own costs an order several round trips of vtgate, so most orders are written in batches.
        let strategy = if place.is_multiple_of(64) { "mysql-atomic" } else { "mysql-batch" };
        let buyer = i64::try_from(number + 1).expect("a small number");
        let buyer = self.client.with_token(&self.instance.token(buyer, Role::Buyer));
        let order = buy_for_sure(&buyer, strategy, self.items[place]).await?;
        self.sold.fetch_add(1, Ordering::Relaxed);
        let now = self.begin.elapsed().as_millis() as u64;
        let last = self.last_ms.fetch_max(now, Ordering::Relaxed);
        self.pause_ms.fetch_max(now.saturating_sub(last), Ordering::Relaxed);
        Some((place, order))
    }

    /// Waits until this many units are sold. Nobody waits longer for the next one than for a recovery.
    async fn has_sold(&self, units: u64) {
        while self.sold() < units {
            let before = self.sold();
            eventually(RECOVERY_MAX, || async { when(self.sold() > before, before) }).await;
        }
    }

    /// Kills tablets one after the other, and splits a shard around the kill in the middle.
    async fn is_disturbed(&self, cluster: &mut VitessCluster, kills: u64) {
        let mut shards = vec![SPLIT, WHOLE];
        // A former primary may have what no other tablet has, and then it stays away. So each shard loses one.
        let mut replaced = BTreeSet::new();
        for kill in 1..=kills {
            self.has_sold(self.units() * kill / (kills + 1)).await;
            let is_middle = kill == kills.div_ceil(2);
            let shard = if is_middle { SPLIT } else { shards[kill as usize % shards.len()] };
            if is_middle {
                let halves = HALVES.map(|half| (half, TABLETS));
                cluster.split(SPLIT, &halves).await.expect("the new shards start");
            }
            let loses_server = kill.is_multiple_of(2) && replaced.insert(shard);
            if loses_server {
                let killed = cluster.kill_primary(shard).await.expect("it has one");
                cluster.take_over(shard).await.expect("another becomes the primary");
                let is_back = cluster.rejoin(killed).await.expect("its server starts");
                println!("the former primary of {shard} is back: {is_back}");
            } else {
                let killed = cluster.kill_tablet(shard).await.expect("it has one");
                cluster.restart_tablet(killed).await.expect("it starts again");
            }
            if is_middle {
                cluster.is_copied(HALVES.len()).await.expect("the rows are copied");
                cluster.switch_over().await.expect("the new shards serve");
                cluster.forget_old().await.expect("the old shard is removed");
                shards = [HALVES.as_slice(), &[WHOLE]].concat();
            }
            let pause = self.pause_ms.swap(0, Ordering::Relaxed);
            println!(
                "kill {kill} in {shard}, server: {loses_server}, split: {is_middle}; {} sold, longest pause {pause} ms",
                self.sold()
            );
        }
    }
}

/// Nothing is oversold, lost, doubled or half: each unit has one order, which was accepted, and the audit of each item is clean.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_sale_loses_tablets_and_splits_a_shard() {
    if !can_start() {
        return;
    }
    let asked = std::env::var("SECKILL_TEST_ORDERS").ok();
    let kills = if asked.is_some() { KILLS_OF_ALL } else { KILLS };
    let at_once = if asked.is_some() { AT_ONCE_OF_ALL } else { AT_ONCE };
    let orders = asked.map_or(ORDERS, |text| text.parse().expect("a number"));
    let (mut cluster, shop) = clustered_shop(&[(SPLIT, TABLETS), (WHOLE, TABLETS)], false).await;
    let instance = shop.start().await;
    let sale = LongSale::prepare(&instance, orders).await;
    let disturbed = Box::pin(sale.is_disturbed(&mut cluster, kills));
    let accepted = futures::future::join(Box::pin(sale.sells(at_once)), disturbed).await.0;
    let took = sale.begin.elapsed();
    println!("{} orders within {took:?}, {kills} kills", sale.sold());
    let count = sqlx::query_scalar("SELECT COUNT(*) FROM orders");
    let in_ledger: i64 = count.fetch_one(&shop.pool).await.expect("counted");
    assert_eq!((sale.sold(), in_ledger.unsigned_abs()), (sale.units(), sale.units()));
    assert_nothing_lost(&shop, &instance, &accepted).await;
    cluster.stop().await;
}
