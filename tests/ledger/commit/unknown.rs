//! A server is away after COMMIT. If it is the ledger, the outcome is unknown, and the key tells it later.

use super::*;

/// Units that may be sold are not given back. No reconciliation repairs the counters here.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_the_ledger_cannot_be_asked_units_stay_taken_and_the_key_tells_later() {
    let (link, linked, beside) = linked_shop().await;
    let undisturbed = make_undisturbed(&beside).await;
    for strategy in ["mysql-atomic", "redis-bucket", "redis-lua", "redis-watch"] {
        sell_undisturbed(&linked, undisturbed).await;
        let item = beside.make_item(json!({ "stock": 5, "per_buyer_limit": 5 })).await;
        // The gate's counter is loaded.
        assert_eq!(linked.buyer(2).buy(strategy, item).await.status, 201);
        let cuts = link.caught();
        link.trap(loses_answer().then(Fault::Refuse));
        let answer = linked.buyer(1).buy_with_key(strategy, item, "k").await;
        assert_eq!(link.caught(), cuts + 1, "{strategy}: the fault did not bite");
        answer.assert_fields(
            504,
            json!({ "code": "outcome_unknown", "outcome": "unknown", "retryable": true }),
        );
        // While the ledger is away: nothing is accepted, and it is said that nothing changed.
        let away = linked.buyer(2).buy("mysql-atomic", item).await;
        away.assert_fields(503, json!({ "code": "dependency_unavailable", "outcome": "none" }));
        link.mend();
        assert_held(&beside, item, 2).await;
        let told = linked.buyer(1).buy_until_sold(strategy, item, "k").await;
        assert_eq!(told.headers["idempotency-replayed"], "true");
        assert_held(&beside, item, 2).await;
    }
}

/// The locks cannot be given back before the purchase's deadline, and last longer than that.
#[tokio::test]
async fn an_order_is_told_although_the_server_of_the_locks_is_away() {
    let redis = link_to(&redis_url().await).await;
    let (link, linked, beside, _) = linked_shop_with(|config| {
        config.redis_url = Secret::new(redis.url());
        config.lock.lease_ms = 30_000;
    })
    .await;
    let item = beside.make_item(json!({ "stock": 2 })).await;
    link.trap(at_commit().hold());
    let buying = linked.buyer(1).buying("lock-redis", item);
    eventually("COMMIT to be held", || async { (link.held() == 1).then_some(()) }).await;
    redis.set(Fault::Stall);
    link.mend();
    let answer = buying.await.expect("no panic");
    assert_eq!(answer.status, 201, "{}", answer.text);
    redis.mend();
    assert_held(&beside, item, 1).await;
}
