//! Friends who are drawn as one: they enter together, their places are side by side, and they are offered units
//! together or not at all.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;
use crate::support::seed;

async fn drawn_item(instance: &Instance, stock: i64, seconds: i64, party_max: u8) -> i64 {
    drawn_with(instance, stock, seconds, json!({ "draw_party_max": party_max })).await
}

async fn enter_with(client: &Client, item: i64, party: &str) -> Answer {
    client.post(&format!("/api/items/{item}/entry"), &json!({ "party": party })).await
}

/// Makes a party of a buyer, and returns its key.
async fn new_party(client: &Client, item: i64) -> String {
    let entered = enter_with(client, item, "new").await.expect_status(200);
    entered.json["party"].as_str().expect("a key").to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn friends_enter_by_the_key_of_the_first_one() {
    let (_shop, instance) = shop().await.opened().await;
    let item = drawn_item(&instance, 3, 12, 3).await;
    let path = format!("/api/items/{item}/entry");
    let key = new_party(&instance.buyer(1), item).await;
    assert_eq!(new_party(&instance.buyer(1), item).await, key, "a repetition is the same party");
    let alone = enter(&instance.buyer(2), item).await;
    assert_eq!((&alone.json["party"], &alone.json["members"]), (&Value::Null, &json!(1)));
    let joined = enter_with(&instance.buyer(2), item, &key).await;
    assert_eq!(joined.json["entry"], alone.json["entry"], "the entry goes to the friends");
    assert_eq!((&joined.json["party"], &joined.json["members"]), (&json!(key), &json!(2)));
    let again = enter(&instance.buyer(2), item).await;
    assert_eq!(again.json["party"], json!(key), "without a key nothing changes");
    let stranger = enter(&instance.buyer(9), item).await.json["entry"].clone();
    let stranger = stranger.as_str().expect("an id");
    for wrong in [&"00".repeat(16), &key.to_uppercase(), stranger, "", "new "] {
        enter_with(&instance.buyer(3), item, wrong).await.expect_problem(409, "party_not_found");
    }

    // One place is left, and many come for it at once.
    let (instance, key) = (&instance, key.as_str());
    let rush =
        (10..20).map(|buyer| async move { enter_with(&instance.buyer(buyer), item, key).await });
    let rush = join_all(rush).await;
    let entered: Vec<&Answer> = rush.iter().filter(|answer| answer.status == 200).collect();
    assert_eq!(entered.len(), 1, "three friends, and no more");
    for refused in rush.iter().filter(|answer| answer.status != 200) {
        assert_problem(refused, (409, "party_full"), "of a party");
    }
    // A friend who takes the entry back makes room.
    instance.buyer(2).delete(&path).await.expect_status(204);
    assert_eq!(enter_with(&instance.buyer(4), item, key).await.json["members"], 3);
    for buyer in 5..9 {
        assert_eq!(enter(&instance.buyer(buyer), item).await.status, 200);
    }

    let draw = until_drawn(&instance.stranger(), item).await;
    assert!(draw["rules"].as_str().expect("a text").contains("\nparty 3\n"), "it is announced");
    let proof = proof(&instance.stranger(), item).await;
    assert_eq!(faults(&proof, Known::default()), []);
    let mut places: Vec<u64> =
        proof.entries.iter().filter(|entry| entry.party == key).map(|entry| entry.place).collect();
    places.sort_unstable();
    assert_eq!(places, [places[0], places[0] + 1, places[0] + 2], "side by side");
    // The last promise of a buyer who has moved names the friends.
    let promise = instance.buyer(4).get(&path).await.json["promise"].clone();
    let promise = promise.as_str();
    assert_eq!(faults(&proof, Known { promise, ..Known::default() }), []);
    assert_clean(instance, item).await;
    let path = format!("/api/items/{item}/draw/entries");
    let fewer = instance.stranger().get(&path).await.text.replace("\nparty 3\n", "\nparty 2\n");
    let fewer = verify::read(fewer.as_bytes()).expect("a proof");
    assert!(faults(&fewer, Known::default()).contains(&Fault::Parties));
}

/// A buyer who joins two groups of friends at once, on two instances, is drawn once, with one of them.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buyer_who_joins_two_parties_at_once_is_drawn_once() {
    let (_shop, one, two) = shop().await.opened_twice().await;
    let item = drawn_item(&one, 5, 12, 4).await;
    let keys = [new_party(&one.buyer(1), item).await, new_party(&two.buyer(2), item).await];
    // Buyers 3 to 8 enter for the first time, or move: four of them have places with friends.
    let joins = (3..=8).map(|buyer| {
        let (one, two, keys) = (one.buyer(buyer), two.buyer(buyer), &keys);
        async move {
            if buyer % 2 == 0 {
                assert_eq!(enter(&one, item).await.status, 200);
            }
            let answers = tokio::join!(
                enter_with(&one, item, &keys[0]),
                enter_with(&two, item, &keys[1]),
                enter(&one, item),
            );
            for told in [answers.0, answers.1, answers.2] {
                assert!(matches!(told.status, 200 | 409), "{}", told.text);
            }
        }
    });
    join_all(joins).await;
    until_drawn(&one.stranger(), item).await;
    let proof = proof(&one.stranger(), item).await;
    assert_eq!((faults(&proof, Known::default()), proof.entries.len()), (vec![], 8));
    for key in &keys {
        let of_party = |entry: &&verify::Entry| entry.party == *key;
        let members = proof.entries.iter().filter(of_party).count();
        assert!((1..=4).contains(&members), "{members}");
    }
    let path = format!("/api/items/{item}/entry");
    let mut places = Vec::new();
    for buyer in 1..=8 {
        places.push(two.buyer(buyer).get(&path).await.json["place"].as_i64().expect("a place"));
    }
    places.sort_unstable();
    assert_eq!(places, (1..=8).collect::<Vec<_>>());
    assert_clean(&one, item).await;
}

/// Units that come back in small numbers, while friends of any number wait, leave, decline and buy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn friends_are_offered_units_together_or_not_at_all() {
    let mut dice = StdRng::seed_from_u64(seed());
    let (shop, instance) = shop().await.opened().await;
    let item = drawn_item(&instance, 5, 3_600, 4).await;
    let mut buyers = Vec::new();
    while buyers.len() < 30 {
        let size = dice.random_range(1..=4);
        let first = buyers.len() as i64 + 1;
        let friends = first..first + size;
        buyers.extend(friends.clone());
        if size == 1 {
            assert_eq!(enter(&instance.buyer(first), item).await.status, 200);
            continue;
        }
        let key = new_party(&instance.buyer(first), item).await;
        for friend in friends.skip(1) {
            assert_eq!(enter_with(&instance.buyer(friend), item, &key).await.status, 200);
        }
    }
    close_now(&shop, item).await;
    until_drawn(&instance.stranger(), item).await;
    let path = format!("/api/items/{item}/waiting");
    for _ in 0..60 {
        let buyer = instance.buyer(buyers[dice.random_range(0..buyers.len())]);
        match dice.random_range(0..4) {
            0 => {
                let units = json!({ "stock_delta": dice.random_range(1..=2) });
                assert_eq!(instance.admin().edit(item, units).await.status, 200);
            }
            1 => drop(buyer.post(&format!("{path}/purchase"), &json!({})).await),
            _ => drop(buyer.delete(&path).await),
        }
        // What is committed is right at any moment.
        let halved = "SELECT COUNT(*) FROM (SELECT party FROM waiting_list \
             WHERE item_id = ? AND party IS NOT NULL GROUP BY party \
             HAVING SUM(status = 'waiting') > 0 AND COUNT(offered_at) > 0) AS halved";
        let halved: i64 = shop.read(sqlx::query_scalar(halved).bind(item)).await;
        assert_eq!(halved, 0, "a party is half offered");
        let idle = "SELECT available, (SELECT MIN(friends) FROM (SELECT COUNT(*) AS friends \
               FROM waiting_list WHERE item_id = ? AND status = 'waiting' \
               GROUP BY COALESCE(party, place)) AS parties) FROM stock WHERE item_id = ?";
        let idle = sqlx::query_as(idle).bind(item).bind(item).fetch_one(&shop.pool).await;
        let (left, fewest): (i64, Option<i64>) = idle.expect("read");
        let are_waiting = fewest.is_some_and(|fewest| left >= fewest);
        assert!(!are_waiting, "{left} units are idle, {fewest:?} wait");
    }
    assert_clean(&instance, item).await;
}
