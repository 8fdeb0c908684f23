//! Races that other shops are known to lose, written from their descriptions alone.

use futures::future::join_all;
use serde_json::{Value, json};

use super::batches::{answers, line, send};
use super::{assert_all_clean, count, left, lines, reserve};
use crate::http::{assert_problem, order_id};
use crate::support::{Instance, Shop, patient};

/// Buyers who want one unit at the same moment, and the rounds of it.
const BUYERS: i64 = 8;
const ROUNDS: i64 = 10;

fn sold_and_codes(answers: &[Value]) -> (usize, Vec<&str>) {
    let codes = answers.iter().filter_map(|one| one["problem"]["code"].as_str());
    (answers.iter().filter(|one| one["status"] == 201).count(), codes.collect())
}

/// Entries of one request want the same item. Each alone fits into the stock, and all together do not: a check of each
/// against the same number lets them all through.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn entries_of_one_request_do_not_share_the_same_units() {
    let (shop, instance) = Shop::open_with(patient).await;
    let item = |stock: i64| json!({ "stock": stock, "per_buyer_limit": 4 });
    let shared = instance.make_item(item(9)).await;
    let beside = [instance.make_item(item(30)).await, instance.make_item(item(30)).await];
    // In one cart.
    let twice = reserve(&instance.buyer(1), &[(shared, 2), (beside[0], 1), (shared, 2)]).await;
    assert_problem(&twice, (422, "duplicate_item"), "one cart");
    assert_eq!(left(&instance, &[shared, beside[0]]).await, [9, 30]);
    // In carts of one request, which are bundles with an item in common. Forty of them share a transaction.
    let program = shop.make_program(&instance, "other").await;
    let bundle = |guest: usize| {
        let lines = [(shared, 2), (beside[guest % 2], 1)];
        line(&format!("guest-{guest}"), "k", &lines)
    };
    let bundles: Vec<String> = (0..40).map(bundle).collect();
    let answered = answers(&send(&program, bundles.join("\n")).await);
    assert_eq!(sold_and_codes(&answered), (4, vec!["sold_out"; 36]), "{answered:?}");
    let mut refused = answered.iter().filter(|one| one["status"] != 201);
    assert!(refused.all(|one| one["problem"]["item_id"] == shared));
    assert_eq!(left(&instance, &[shared]).await, [1]);
    // The limit of a buyer is counted over the entries, too.
    let many = instance.make_item(item(100)).await;
    let of_cleo = |key: &str| line("cleo", key, &[(many, 2), (beside[0], 1)]);
    let answered = answers(&send(&program, ["c", "d", "e"].map(of_cleo).join("\n")).await);
    assert_eq!(sold_and_codes(&answered), (2, vec!["limit_reached"]), "{answered:?}");
    assert_all_clean(&instance, &[shared, beside[0], beside[1], many]).await;
}

/// Reservations that run at the same moment, without any lock around them, for the last unit: only one is made. And
/// the count of reserved units is what the reservations say, however many came and went at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reservations_at_once_share_no_unit_and_lose_no_count() {
    let (shop, instance) = Shop::open_with(patient).await;
    let other = shop.start().await;
    let at = |number: i64| -> &Instance { if number % 2 == 0 { &instance } else { &other } };
    let mut items = Vec::new();
    for _ in 0..2 {
        items.push(instance.make_item(json!({ "stock": 20, "per_buyer_limit": 9 })).await);
    }
    for _ in 0..ROUNDS {
        let last = instance.make_item(json!({ "stock": 1 })).await;
        let wanted = (1..=BUYERS).map(async |buyer| {
            let client = at(buyer).buyer(buyer);
            let cart = [(last, 1), (items[0], 1)];
            client.post("/api/reservations", &lines(&cart[..1 + usize::from(buyer % 3 == 0)])).await
        });
        let answers = join_all(wanted).await;
        let (sold, refused): (Vec<_>, Vec<_>) = answers.iter().partition(|one| one.status == 201);
        assert_eq!(sold.len(), 1, "of one unit");
        refused.iter().for_each(|one| assert_problem(one, (409, "sold_out"), "the last unit"));
        assert_all_clean(&instance, &[last]).await;
    }
    let visits = (1..=60).map(async |buyer: i64| {
        let client = at(buyer).buyer(100 + buyer);
        let mut cart = [(items[0], 1), (items[1], 1)];
        cart.rotate_left(usize::from(buyer % 4 > 1));
        let made = reserve(&client, &cart).await;
        if made.status == 201 && buyer % 3 > 0 {
            let order = order_id(&made);
            let other = at(buyer + 1).buyer(100 + buyer);
            assert_eq!(other.step(&order, "cancellation").await.status, 200);
        }
    });
    join_all(visits).await;
    for item in &items {
        let reserved = format!(
            "SELECT CAST(COALESCE(SUM(quantity), 0) AS SIGNED) FROM orders WHERE item_id = {item} AND status = 'pending'"
        );
        assert_eq!(20 - left(&instance, &[*item]).await[0], count(&shop, &reserved).await);
    }
    assert_all_clean(&instance, &items).await;
}
