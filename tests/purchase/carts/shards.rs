//! A cart is written in one ledger, and its items stay there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ledger::item_move::{Limits, MoveError, Mover};
use serde_json::json;
use shop_domain::{ItemId, ShardId};

use super::{reserve, reserve_with_key};
use crate::http::{assert_problem, order_id};
use crate::ledger::shards::Sharded;
use crate::support::assert_clean;

fn mover(sharded: &Sharded) -> Mover {
    let number = |index: usize| ShardId::new(u16::try_from(index).expect("small")).expect("small");
    let ledgers: BTreeMap<ShardId, _> = sharded
        .pools
        .iter()
        .enumerate()
        .map(|(index, pool)| (number(index), pool.clone()))
        .collect();
    let pause_max = Duration::from_secs(20);
    Mover::new(ledgers, Limits { pause_max, route_age_max: Duration::ZERO })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn items_of_two_ledgers_are_no_cart() {
    let sharded = Sharded::open().await;
    let items = sharded.item_in_each(&json!({ "stock": 3, "per_buyer_limit": 3 })).await;
    let beside = sharded.item_in_each(&json!({ "stock": 3, "per_buyer_limit": 3 })).await;
    let buyer = sharded.instance.buyer(7);
    let refused = reserve(&buyer, &[(items[0], 1), (items[1], 1)]).await;
    assert_problem(&refused, (409, "items_in_several_ledgers"), "two ledgers");
    for shard in 0..2 {
        let cart = [(items[shard], 1), (beside[shard], 2)];
        let made = reserve_with_key(&buyer, &cart, "k").await;
        let order = order_id(&made);
        let again = reserve_with_key(&buyer, &cart, "k").await;
        assert_eq!(order_id(&again), order, "{}", again.text);
        let found = buyer.get(&format!("/api/orders/{order}")).await;
        assert_eq!(found.json["lines"], made.json["lines"], "{}", found.text);
        let step = if shard == 0 { "payment" } else { "cancellation" };
        let stepped = buyer.post(&format!("/api/orders/{order}/{step}"), &json!({})).await;
        assert_eq!(stepped.status, 200, "{}", stepped.text);
        assert_eq!(stepped.json["lines"], made.json["lines"]);
    }
    let listed = buyer.get("/api/orders").await.json;
    let listed = listed["orders"].as_array().expect("a list");
    assert_eq!(listed.len(), 2, "{listed:?}");
    assert!(listed.iter().all(|order| order["lines"].as_array().map(Vec::len) == Some(2)));
    for item in items.into_iter().chain(beside) {
        assert_clean(&sharded.instance, item).await;
    }
}

/// An item moves while carts with it are sold: either it has no cart and moves, or it stays.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_item_that_moves_leaves_no_half_cart() {
    let sharded = Sharded::open().await;
    let mut items = Vec::new();
    for _ in 0..2 {
        items.push(
            sharded
                .instance
                .make_item(json!({ "stock": 500, "per_buyer_limit": 3, "shard": 0 }))
                .await,
        );
    }
    let cart = [(items[0], 1), (items[1], 1)];
    let (mover, stop) = (mover(&sharded), AtomicBool::new(false));
    let item = ItemId::new(items[1]).expect("positive");
    let second = ShardId::new(1).expect("small");
    let crowd = async {
        let mut sold = 0;
        for buyer in 1..400 {
            if stop.load(Ordering::Relaxed) && sold > 0 {
                break;
            }
            let answer = reserve_with_key(&sharded.instance.buyer(buyer), &cart, "k").await;
            if answer.status == 201 {
                sold += 1;
            } else {
                let codes = ["item_moving", "items_in_several_ledgers", "contended"];
                assert!(codes.contains(&answer.code()), "{}", answer.text);
            }
        }
        sold
    };
    let moves = async {
        let moved = mover.move_item(item, second).await;
        stop.store(true, Ordering::Relaxed);
        moved
    };
    let (sold, moved) = tokio::join!(crowd, moves);
    let stays =
        matches!(&moved, Err(MoveError::Ordered(_) | MoveError::GivenUp { passes: false, .. }));
    assert!(stays && sold > 0 || moved.is_ok() && sold == 0, "{sold} sold, {moved:?}");
    for item in items {
        let audit = assert_clean(&sharded.instance, item).await;
        assert_eq!(audit["available"], 500 - sold);
    }
}
