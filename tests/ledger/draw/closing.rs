//! The close of a draw: after it no entry changes, and the close waits for each entry that is being written.

use super::*;

/// No instance publishes the list in this test, so only the ledger's clock refuses changes after the close. A buyer who
/// could still enter would know the value of the round.
#[tokio::test]
async fn no_entry_changes_between_the_close_and_the_list() {
    let shop = shop().await;
    let idle = idle_instance(&shop).await;
    let item = drawn_with(&idle, 1, 3_600, json!({ "draw_party_max": 2 })).await;
    let path = format!("/api/items/{item}/entry");
    let first = idle.buyer(1).post(&path, &json!({ "party": "new" })).await.expect_status(200);
    assert_eq!(enter(&idle.buyer(2), item).await.status, 200);
    shop.change(sqlx::query("UPDATE draws SET closes_at = UTC_TIMESTAMP(6)")).await;
    enter(&idle.buyer(3), item).await.expect_problem(409, "entries_closed");
    let joins_friends = json!({ "party": first.json["party"] });
    idle.buyer(2).post(&path, &joins_friends).await.expect_problem(409, "entries_closed");
    idle.buyer(1).delete(&path).await.expect_problem(409, "entries_closed");
    let listed = shop.number("SELECT COUNT(*) FROM draws WHERE listed_at IS NOT NULL").await;
    assert_eq!(listed, 0, "the list is not published yet");
    assert_eq!(shop.number("SELECT COUNT(DISTINCT party) FROM draw_entries").await, 2);
}

/// Otherwise the list is signed without an entry whose buyer gets a promise a moment later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_close_waits_for_a_buyer_who_is_entering() {
    let (shop, instance) = shop().await.opened().await;
    let item = drawn_item(&instance, 1, 3_600).await;
    let link = link_to_ledger(&shop).await;
    let far = shop
        .start_with(|config| {
            config.database_url = Secret::new(link.url());
            config.sections.set("draw", "poll_ms", 60_000);
        })
        .await;
    link.trap(Trap::at(b"INSERT INTO draw_entries").hold());
    let buyer = far.buyer(7);
    let entering = tokio::spawn(async move { enter(&buyer, item).await });
    eventually("the buyer to enter", || async { (link.held() == 1).then_some(()) }).await;
    close_now(&shop, item).await;
    until_running(&shop.pool, "SELECT available FROM stock%FOR UPDATE%", 1).await;
    let closed = "SELECT COUNT(*) FROM draws WHERE closed_at IS NOT NULL";
    assert_eq!(shop.number(closed).await, 0, "the close waits");
    link.mend();
    let entered = entering.await.expect("no panic").expect_status(200);
    until_drawn(&instance.stranger(), item).await;
    let proof = proof(&instance.stranger(), item).await;
    assert_eq!(proof.entries.len(), 1, "the entry is in the list");
    let promise = entered.json["promise"].as_str().expect("a promise");
    let faults = faults(&proof, Known { promise: Some(promise), ..Known::default() });
    let of_promise = [Fault::Unreadable, Fault::Promise, Fault::MissingEntry];
    assert!(!faults.iter().any(|fault| of_promise.contains(fault)), "{faults:?}");
    assert_clean(&instance, item).await;
}
