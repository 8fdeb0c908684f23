//! Many carts with items in common, beside single purchases.

use std::cell::RefCell;
use std::collections::BTreeMap;

use futures::future::join_all;
use rand::rngs::StdRng;
use rand::seq::SliceRandom;
use rand::{RngExt, SeedableRng};
use serde_json::json;

use super::{assert_all_clean, left, reserve, reserve_with_key};
use crate::http::order_id;
use crate::support::{Answer, Instance, Shop, seed};

/// Answers that said "try again", by code.
type TryAgain = RefCell<BTreeMap<String, u32>>;

/// Sends again what was told to come again; nobody may be told that for long.
async fn for_good(told: &TryAgain, mut send: impl AsyncFnMut() -> Answer) -> Answer {
    for _ in 0..50 {
        let answer = send().await;
        if answer.json["retryable"] != true {
            return answer;
        }
        *told.borrow_mut().entry(answer.code().to_owned()).or_default() += 1;
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    send().await
}

/// Items of a storm, units of each, and carts. More is wanted of each item than there is.
const ITEMS: usize = 50;
const STOCK: i64 = 18;
const CARTS: usize = 600;
/// Longer than a loaded machine needs, so that "contended" is never a matter of time.
const DEADLINE_MS: u64 = 60_000;

/// Carts over 50 items, whose lines overlap and come in opposite orders, and single purchases between them.
async fn storm(queues: u32) {
    let seed = seed();
    println!("seed {seed}");
    let mut random = StdRng::seed_from_u64(seed);
    let shop = Shop::with(|config| {
        config.mysql.shared_queues = queues;
        (config.purchase.deadline_ms, config.purchase.wait_ms_max) = (DEADLINE_MS, DEADLINE_MS);
    })
    .await;
    let told = TryAgain::default();
    let instance = shop.start().await;
    let beside = shop.start().await;
    let mut items = Vec::new();
    for _ in 0..ITEMS {
        items.push(instance.make_item(json!({ "stock": STOCK, "per_buyer_limit": 4 })).await);
    }
    let mut wanted: Vec<Vec<(i64, u32)>> = Vec::new();
    for number in 0..CARTS {
        let mut cart = items.clone();
        cart.shuffle(&mut random);
        cart.truncate(if number % 4 == 0 { 1 } else { random.random_range(2..=5) });
        wanted.push(cart.iter().map(|item| (*item, 1)).collect());
    }
    let bought = wanted.iter().enumerate().map(async |(number, cart)| {
        let buyer = i64::try_from(number).expect("small") + 1;
        let instance: &Instance = if number % 2 == 0 { &instance } else { &beside };
        let client = instance.buyer(buyer);
        let answer = match cart[..] {
            [(item, _)] => {
                for_good(&told, async || client.buy_with_key("mysql-atomic", item, "k").await).await
            }
            _ => for_good(&told, async || reserve_with_key(&client, cart, "k").await).await,
        };
        (cart.clone(), answer)
    });
    let mut sold: BTreeMap<i64, i64> = BTreeMap::new();
    let mut refused = Vec::new();
    for (cart, answer) in join_all(bought).await {
        match answer.status {
            201 => cart.iter().for_each(|(item, _)| *sold.entry(*item).or_default() += 1),
            _ => {
                assert_eq!(answer.code(), "sold_out", "{}", answer.text);
                refused.push(cart);
            }
        }
    }
    assert!(told.borrow().is_empty(), "nobody hears of a deadlock: {:?}", told.borrow());
    let left = left(&instance, &items).await;
    for (item, left) in items.iter().zip(&left) {
        assert_eq!(sold.get(item).copied().unwrap_or_default() + left, STOCK, "item {item}");
    }
    // Whoever was refused was refused rightly: an item of the cart is sold out.
    let sold_out: Vec<i64> =
        items.iter().zip(&left).filter(|(_, left)| **left == 0).map(|(item, _)| *item).collect();
    for cart in refused {
        assert!(cart.iter().any(|(item, _)| sold_out.contains(item)), "{cart:?}, left {left:?}");
    }
    // Demand sells all units that are left.
    for (item, left) in items.iter().zip(left) {
        for number in 0..left {
            let client = instance.buyer(1_000 + number);
            assert_eq!(
                for_good(&told, async || reserve(&client, &[(*item, 1)]).await).await.status,
                201
            );
        }
    }
    assert_all_clean(&instance, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_in_opposite_orders_neither_deadlock_nor_oversell() {
    storm(1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_without_shared_queues_neither_deadlock_nor_oversell() {
    storm(0).await;
}

/// Buyers pay and cancel carts while others buy the same items and holds end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn carts_are_paid_cancelled_and_expired_at_once() {
    let shop = Shop::with(|config| config.job.expire_period_ms = 50).await;
    let told = TryAgain::default();
    let instance = shop.start().await;
    let beside = shop.start().await;
    let mut items = Vec::new();
    for _ in 0..6 {
        items.push(instance.make_item(json!({ "stock": 1_000, "per_buyer_limit": 4 })).await);
    }
    let visits = (0..120_i64).map(async |number| {
        let start = usize::try_from(number).expect("small");
        let mut cart: Vec<(i64, u32)> = (0..3).map(|line| (items[(start + line * 2) % 6], 1)).collect();
        if number % 2 == 0 {
            cart.reverse();
        }
        let client = if number % 3 == 0 { instance.buyer(number + 1) } else { beside.buyer(number + 1) };
        let order = order_id(&for_good(&told, async || reserve(&client, &cart).await).await);
        if number % 5 == 0 {
            let pass = "UPDATE orders SET expires_at = '2020-01-01' WHERE id LIKE CONCAT(LEFT(?, 34), '%')";
            sqlx::query(pass).bind(&order).execute(&shop.pool).await.expect("its hold ends");
        }
        let steps = ["payment", "cancellation"].map(|step| format!("/api/orders/{order}/{step}"));
        let both = steps.iter().map(async |path| {
            for_good(&told, async || client.post(path, &json!({})).await).await
        });
        for answer in join_all(both).await {
            assert!([200, 409].contains(&answer.status), "{}", answer.text);
        }
    });
    join_all(visits).await;
    assert_all_clean(&instance, &items).await;
}
