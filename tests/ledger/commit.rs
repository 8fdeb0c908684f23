//! The connection to the ledger breaks at COMMIT: no answer says what is not so.

mod arbiter;
mod orders;
mod replaced;
mod same_key;
mod unknown;

use gates::LIST;

use crate::support::prelude::*;

/// The call of the procedure that writes an order, its COMMIT included.
const CALL: &[u8] = b"\x03CALL write_order_";

/// Waits for a COMMIT as it stands on the wire: a COM_QUERY of its own, the last statement of a packet, or
/// inside a call.
fn at_commit() -> Trap {
    Trap::at(b"\x03COMMIT").or_at(b";COMMIT").or_at(CALL)
}

/// Passes the next COMMIT on, and breaks the connection instead of passing its answer back.
fn loses_answer() -> Trap {
    at_commit().lose_answer()
}

/// Breaks the connection instead of passing the next COMMIT on.
fn loses_commit() -> Trap {
    at_commit()
}

/// Loses every COMMIT; whoever sent it hears nothing until the link is mended.
fn loses_commits_in_silence() -> Trap {
    at_commit().cut_server_in_silence().always()
}

/// Waits until the link has caught more than this number of packets.
async fn until_caught(link: &FaultyLink, before: u64) {
    until("the fault to bite", || async { link.caught() }, |caught| *caught > before).await;
}

/// A shop whose instance reaches the ledger through a link, and an instance beside it.
async fn linked_shop() -> (FaultyLink, Instance, Instance) {
    let (link, linked, beside, _) = linked_shop_with(|_| {}).await;
    (link, linked, beside)
}

/// Like [`linked_shop`], with some settings changed; returns a connection pool of the ledger too.
async fn linked_shop_with(
    change: impl FnOnce(&mut Config),
) -> (FaultyLink, Instance, Instance, Database) {
    let mut shop = Shop::with_lock_servers(change).await;
    // The one beside leaves the queues to the linked one.
    shop.config.queue.claim_idle_ms = 7_200_000;
    shop.config.queue.poll_ms = 3_600_000;
    // Gates give back by themselves: nobody repairs their counters.
    shop.config.job.reconcile_period_ms = 3_600_000;
    let beside = shop.start().await;
    let link = link_before(&mut shop).await;
    // The link is for the purchase alone: no job may be the one that commits.
    shop.config.job.expire_period_ms = 3_600_000;
    shop.config.session.revocation_period_ms = 3_600_000;
    let linked = shop.start().await;
    (link, linked, beside, shop.pool)
}

/// Asserts that the audit of an item is clean at once, and that this number of its units is held.
async fn assert_held(instance: &Instance, item: i64, units: i64) {
    assert_has(&instance.audit(item).await, json!({ "held": units, "clean": true }));
}

/// Purchases that nothing disturbs: between them the faults of many strategies open no breaker.
async fn sell_undisturbed(linked: &Instance, item: i64) {
    for buyer in 1_000..1_004 {
        linked.buyer(buyer).until_sold("mysql-atomic", item).await;
    }
}

/// An item for [`sell_undisturbed`].
async fn make_undisturbed(beside: &Instance) -> i64 {
    beside.make_item(json!({ "stock": 1_000, "per_buyer_limit": 1_000 })).await
}

/// Each strategy sells one unit although the link breaks at COMMIT: when the answer is lost, the order
/// is found in the ledger; when the COMMIT never arrived, it is done again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_strategy_sells_one_although_the_link_breaks() {
    let place = linked_shop().await;
    let undisturbed = make_undisturbed(&place.2).await;
    for (buyer, entry) in (1..).zip(LIST) {
        sells_one_although_the_link_breaks(&place, undisturbed, (buyer, entry.card.name)).await;
    }
}

async fn sells_one_although_the_link_breaks(
    (link, linked, beside): &(FaultyLink, Instance, Instance),
    undisturbed: i64,
    (buyer, strategy): (i64, &str),
) {
    for breaks in [loses_answer(), loses_commit()] {
        sell_undisturbed(linked, undisturbed).await;
        let item = beside.make_item(json!({ "stock": 2 })).await;
        let cuts = link.caught();
        link.trap(breaks);
        let answer = linked.buyer(buyer).buy_for_good(strategy, item).await;
        // A queued order can be seen in the ledger before the link has dropped the COMMIT's answer.
        until_caught(link, cuts).await;
        assert_eq!(link.caught(), cuts + 1, "{strategy}: the fault bit more than once");
        assert_eq!(answer.status, 201, "{strategy}: {}", answer.text);
        // What was queued leaves the queue a moment after its COMMIT.
        let is_clean = |audit: &Value| audit["redis_queued"] == 0 && audit["clean"] == true;
        let what = format!("a clean audit of {strategy}");
        let audit = until(&what, || beside.audit(item), is_clean).await;
        assert_eq!(audit["held"], 1, "{strategy}: {audit}");
    }
}
