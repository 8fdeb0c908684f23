//! A waiting room whose data Redis has lost, or of which it has an older copy.

use gates::redis_store::room::PARTS;
use serde_json::{Value, json};

use super::one_line::redis_time;
use super::waiting_room::{buy, item, leave, place, shop_with, slow_shop, stand, ticket};
use crate::support::{Instance, Shop, redis_of, until};

/// The keys of an item's room.
fn room_keys(shop: &Shop, item: i64) -> Vec<String> {
    let prefix = &shop.config.redis.prefix;
    PARTS.iter().map(|part| format!("{prefix}{{item:{item}}}:room{part}")).collect()
}

/// The copies of keys; `None` for one that does not exist.
async fn copy(shop: &Shop, keys: &[String]) -> Vec<Option<Vec<u8>>> {
    let mut copies = Vec::new();
    for key in keys {
        copies.push(shop.redis(&["DUMP", key]).await);
    }
    copies
}

/// Takes Redis back to these copies, as after a failover to a replica that is behind.
async fn go_back(shop: &Shop, keys: &[String], copies: &[Option<Vec<u8>>]) {
    for (key, dump) in keys.iter().zip(copies) {
        let () = shop.redis(&["DEL", key]).await;
        if let Some(dump) = dump {
            let mut restore = redis::cmd("RESTORE");
            restore.arg(key).arg(0).arg(dump);
            restore.exec_async(&mut redis_of(shop)).await.expect("restored");
        }
    }
}

async fn number(instance: &Instance, buyer: i64, item: i64, body: Value) -> i64 {
    let answer = stand(&instance.buyer(buyer), item, body).await;
    place(&answer);
    answer.json["number"].as_i64().expect("a number")
}

/// The buyers 21 to 24 joined after the copy. Whoever shows a number, buyer or instance, keeps it from being given
/// again; and what was given comes back once.
#[tokio::test]
async fn an_older_copy_of_redis_gives_no_number_twice() {
    let (shop, one, two) = shop_with(|room| room.silent_seconds = 3_000).await.opened_twice().await;
    let sold = item(&one, json!({})).await;
    assert_eq!(one.admin().edit(sold, json!({ "paused": true })).await.status, 200);
    let mut places = vec![String::new()];
    let join = async |id: i64| {
        let answer = stand(&one.buyer(id), sold, json!({})).await;
        assert_eq!(answer.json["number"], id, "{}", answer.text);
        place(&answer).to_owned()
    };
    for id in 1..=20 {
        places.push(join(id).await);
    }
    leave(&one.buyer(5), sold).await;
    let keys = room_keys(&shop, sold);
    let copies = copy(&shop, &keys).await;
    for id in 21..=24 {
        places.push(join(id).await);
    }
    let held = |id: usize| json!({ "place": places[id] });

    // An instance that has heard of no number is shown the last one.
    go_back(&shop, &keys, &copies).await;
    assert_eq!(number(&two, 24, sold, held(24)).await, 24);
    assert_eq!(number(&two, 30, sold, json!({})).await, 25, "above the highest that was shown");
    for id in [22, 21, 23] {
        assert_eq!(number(&two, id, sold, held(id as usize)).await, id);
    }
    assert_eq!(number(&two, 7, sold, held(7)).await, 7, "who was in the copy stands there");
    // A number comes back once; and not at all after a stay that had ended in the copy.
    leave(&one.buyer(22), sold).await;
    assert_eq!(number(&two, 22, sold, held(22)).await, 26);
    assert_eq!(number(&two, 5, sold, held(5)).await, 27);

    // Nobody shows a token, and the instance knows of 24 numbers.
    go_back(&shop, &keys, &copies).await;
    assert_eq!(number(&one, 31, sold, json!({})).await, 25);
    for id in 21..=24 {
        assert_eq!(number(&one, id, sold, held(id as usize)).await, id);
    }
}

#[tokio::test]
async fn a_queue_token_brings_the_number_back_when_redis_has_lost_it() {
    let (shop, one, two) = slow_shop().await.opened_twice().await;
    let sold = item(&one, json!({})).await;
    let good = ticket(&stand(&one.buyer(1), sold, json!({})).await).to_owned();
    let mut places = Vec::new();
    for id in 2..=9 {
        places.push(place(&stand(&one.buyer(id), sold, json!({})).await).to_owned());
    }
    let keys = room_keys(&shop, sold);
    go_back(&shop, &keys, &vec![None; keys.len()]).await;
    // Rooms are told apart by the second in which they began.
    let second = redis_time(&shop).await as u64;
    until("the next second", || redis_time(&shop), |now| *now as u64 > second).await;
    // Nobody is first in the new room who was not in the old one.
    assert_eq!(stand(&two.buyer(30), sold, json!({})).await.json["state"], "admitted");
    place(&stand(&two.buyer(31), sold, json!({})).await);
    for (id, held) in (2..=9).zip(&places).skip(1).collect::<Vec<_>>().into_iter().rev() {
        let told = stand(&two.buyer(id), sold, json!({ "place": held })).await;
        assert_eq!(told.json["number"].as_i64(), Some(id), "{}", told.text);
    }
    let told = stand(&one.buyer(9), sold, json!({})).await;
    assert_eq!(told.json["position"], 6, "behind 3 to 8, and before 31");
    assert_eq!(stand(&one.buyer(31), sold, json!({})).await.json["position"], 7);
    assert_eq!(buy(&two.buyer(1), sold, &good).await.status, 201, "a ticket is its signature");
}
