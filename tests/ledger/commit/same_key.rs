//! COMMIT is lost, and another instance makes an order with the same key: the answer never shows one
//! request's order to the other request.

use super::*;

/// Buys with the key `k`.
async fn buy_units(buyer: Client, strategy: &str, item: i64, units: i64) -> Answer {
    let request = buyer.request(Method::POST, &purchase_path(strategy, item));
    Client::send(request.header("idempotency-key", "k").json(&json!({ "quantity": units }))).await
}

/// The COMMIT of `pressed` is lost; before it is decided, another instance makes an order of one
/// unit with the same key, by `strategy`. Answers what the request was told.
async fn overtaken(
    (link, beside): (&FaultyLink, &Instance),
    (strategy, item): (&str, i64),
    pressed: impl Future<Output = Answer> + Send + 'static,
) -> Answer {
    let cuts = link.caught();
    let pressed = tokio::spawn(pressed);
    until_caught(link, cuts).await;
    assert_eq!(buy_units(beside.buyer(1), strategy, item, 1).await.status, 201, "{strategy}");
    link.mend();
    pressed.await.expect("no panic")
}

/// A request for as many units as the other order has is a replay; one for more is refused.
fn assert_told_of_the_other_order(strategy: &str, units: i64, answer: &Answer) {
    if units == 1 {
        assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
        let replayed = answer.headers.contains_key("idempotency-replayed");
        assert!(replayed, "{strategy}: told as sold: {}", answer.text);
    } else {
        let expected = (422, "idempotency_key_reused");
        assert_eq!(answer.brief(), expected, "{strategy}: {}", answer.text);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_commit_is_not_answered_with_another_requests_order() {
    let (link, linked, beside, _) = linked_shop_with(patient).await;
    let undisturbed = make_undisturbed(&beside).await;
    let strategies =
        ["lock-redis", "mysql-atomic", "mysql-batch", "redis-bucket", "redis-lua", "redis-watch"];
    for (strategy, units) in strategies.into_iter().flat_map(|name| [(name, 2), (name, 1)]) {
        sell_undisturbed(&linked, undisturbed).await;
        let item = beside.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await;
        // The gate's counter is loaded.
        assert_eq!(linked.buyer(2).buy(strategy, item).await.status, 201);
        link.trap(loses_commits_in_silence());
        let pressed = buy_units(linked.buyer(1), strategy, item, units);
        // The item's lock is taken; the other order comes without it.
        let other = if strategy == "lock-redis" { "mysql-atomic" } else { strategy };
        let answer = overtaken((&link, &beside), (other, item), pressed).await;
        assert_told_of_the_other_order(strategy, units, &answer);
        assert_eq!(assert_clean(&linked, item).await["held"], 2, "{strategy}, {units} units");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_batch_is_not_answered_with_another_requests_order() {
    let (link, linked, beside, pool) = linked_shop_with(|config| {
        patient(config);
        // The item's own queue: a batch of many items does not wait as long for a row.
        config.mysql.shared_queues = 0;
        // The first purchase's COMMIT is sent after it has the row, and counted by the trap.
        config.mysql.order_routine = false;
    })
    .await;
    let undisturbed = make_undisturbed(&beside).await;
    let strategies = ["mysql-batch", "redis-bucket", "redis-lua"];
    for (strategy, units) in strategies.into_iter().flat_map(|name| [(name, 2), (name, 1)]) {
        sell_undisturbed(&linked, undisturbed).await;
        let item = beside.make_item(json!({ "stock": 9, "per_buyer_limit": 9 })).await;
        assert_eq!(linked.buyer(9).buy(strategy, item).await.status, 201);
        // The first purchase's transaction waits for this row; later purchases form one batch.
        let holder = hold_stock_row(&pool, item).await;
        let mut presses = Vec::new();
        for buyer in [8, 2] {
            presses.push(linked.buyer(buyer).buying(strategy, item));
            until_in_flight(&linked, presses.len()).await;
            // Without this, the second one may still come into the first one's batch.
            until_running(&pool, "UPDATE stock%", 1).await;
        }
        let pressed = tokio::spawn(buy_units(linked.buyer(1), strategy, item, units));
        until_in_flight(&linked, 3).await;
        link.trap(loses_commits_in_silence().skip(1));
        holder.rollback().await.expect("the row is free");
        let pressed = async { pressed.await.expect("no panic") };
        let answer = overtaken((&link, &beside), ("mysql-atomic", item), pressed).await;
        assert_told_of_the_other_order(strategy, units, &answer);
        for press in presses {
            assert_eq!(press.await.expect("no panic").status, 201);
        }
    }
}
