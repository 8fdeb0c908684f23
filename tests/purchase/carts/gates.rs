//! Carts beside purchases by a gate with a number of its own: a counter in Redis, or rows of units.

use extension::job::Job;
use seckill::job::Reconcile;

use super::crowds::{TryAgain, for_good};
use super::{left, reserve};
use crate::support::prelude::*;

const NEVER_MS: u64 = 3_600_000;

/// A cart takes its units from the stock row alone, so the gate's number is too high, and the gate lets buyers through
/// for whom nothing is left. The ledger refuses them; no unit is kept back either.
async fn a_gate_that_does_not_know_of_carts(strategy: &str) {
    let shop = Shop::with(|config| config.job.reconcile_period_ms = NEVER_MS).await;
    let (instance, beside) = (shop.start().await, shop.start().await);
    let mut items = Vec::new();
    for stock in [4, 24, 100] {
        items.push(instance.make_item(json!({ "stock": stock, "per_buyer_limit": 4 })).await);
    }
    let [few, shared, other] = items[..] else { panic!("three items") };
    let buy =
        async |buyer: i64, item: i64| instance.buyer(buyer).buy_for_good(strategy, item).await;
    // The gate counts 3 units when the cart takes them.
    assert_eq!(buy(1, few).await.status, 201);
    let cart = order_id(&reserve(&instance.buyer(2), &[(few, 3), (other, 1)]).await);
    assert_problem(&buy(3, few).await, (409, "sold_out"), "the units of the cart");
    // An operator sees that the gate has more units than the ledger.
    assert_eq!(instance.broken(few).await, ["I7"]);
    // They come back, and are sold once.
    assert_eq!(instance.buyer(2).step(&cart, "cancellation").await.status, 200);
    for buyer in 4..=6 {
        assert_eq!(buy(buyer, few).await.status, 201);
    }
    assert_problem(&buy(7, few).await, (409, "sold_out"), "all of them");

    // Both want the last units at once, on two instances.
    let told = TryAgain::default();
    let wanted = (10..70).map(async |buyer: i64| {
        let client = if buyer % 4 < 2 { instance.buyer(buyer) } else { beside.buyer(buyer) };
        match buyer % 2 {
            0 => for_good(&told, async || client.buy_for_good(strategy, shared).await).await,
            _ => for_good(&told, async || reserve(&client, &[(shared, 1), (other, 1)]).await).await,
        }
    });
    let answers = join_all(wanted).await;
    let (sold, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 201);
    refused.iter().for_each(|one| assert_problem(one, (409, "sold_out"), "the rush"));
    assert_eq!((sold.len(), left(&instance, &[few, shared]).await), (24, vec![0, 0]));

    let reconcile = Reconcile::new(shop.pool.clone(), shop.counters(), Metrics::new());
    // It repairs what two looks agree on.
    for _ in 0..2 {
        reconcile.run().await.expect("it runs");
    }
    assert_all_clean(&instance, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_and_a_counter_in_redis_sell_each_unit_once() {
    a_gate_that_does_not_know_of_carts("redis-lua").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_and_buckets_in_redis_sell_each_unit_once() {
    a_gate_that_does_not_know_of_carts("redis-bucket").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_and_rows_of_units_sell_each_unit_once() {
    a_gate_that_does_not_know_of_carts("mysql-unit-rows").await;
}
