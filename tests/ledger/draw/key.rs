//! The key that signs a draw, and the round that its rules name.

use super::*;
use crate::support::DRAW_KEY;

/// A key that a shop takes after [`DRAW_KEY`].
const NEW_KEY: &str = "0808080808080808080808080808080808080808080808080808080808080808";

#[tokio::test]
async fn a_shop_without_a_key_makes_no_draw() {
    let (_shop, instance) =
        Shop::open_with(|config| config.sections.set("draw", "signing_key", "")).await;
    let body = item_body(json!({ "mode": "draw", "draw_closes_at": from_now(600) }));
    instance.admin().post("/api/admin/items", &body).await.expect_problem(503, "draw_key_missing");
}

/// The rules name the key, so a draw keeps it when the shop has a new one; and where the old one is missing, nothing is
/// promised and nothing is signed by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_draw_keeps_the_key_of_its_rules() {
    let (shop, before) = shop().await.opened().await;
    let item = drawn_item(&before, 1, 20).await;
    let announced = announcement(&before.stranger(), item).await;
    let promise = enter(&before.buyer(1), item).await.json["promise"].clone();
    before.stop().await;

    let with_keys = async |key: &str, previous: &str| {
        let set = |config: &mut Config| {
            config.sections.set("draw", "signing_key", key);
            config.sections.set("draw", "signing_key_previous", previous);
        };
        shop.start_with(set).await
    };
    let lost = with_keys(NEW_KEY, "").await;
    assert_problem(&enter(&lost.buyer(2), item).await, (503, "draw_key_missing"), "of an entry");
    let path = format!("/api/items/{item}/entry");
    let own = lost.buyer(1).get(&path).await.json;
    assert_eq!((&own["status"], &own["promise"]), (&json!("entered"), &Value::Null));
    lost.stranger().until_said("draws", "1 of 1 draws failed").await;
    let waits = lost.stranger().get(&format!("/api/items/{item}/draw")).await.json;
    assert_eq!(waits["head"], Value::Null, "another key has signed");

    let rotated = with_keys(NEW_KEY, DRAW_KEY).await;
    assert_eq!(rotated.buyer(1).get(&path).await.json["promise"], promise, "the same bytes");
    until_drawn(&rotated.stranger(), item).await;
    let proof = proof(&rotated.stranger(), item).await;
    let known = Known { announced: Some(&announced), promise: promise.as_str() };
    // The list was late, because nobody could sign it.
    let found = faults(&proof, known);
    assert!(found.iter().all(|fault| *fault == Fault::Late), "{found:?}");
    // The audit of the service reads no signatures.
    assert_clean(&rotated, item).await;
    let next = drawn_item(&rotated, 1, 600).await;
    let rules = announcement(&rotated.stranger(), next).await;
    assert_ne!(rules.lines().nth(1), announced.lines().nth(1), "a new draw has the new key");
}

/// Rules of a public beacon name its chain, and a round whose time is after the close.
#[tokio::test]
async fn the_round_of_drand_is_after_the_close() {
    let (_shop, instance) = Shop::open_with(|config| {
        config.sections.set("draw", "beacon", "drand");
        config.sections.set("draw", "round_after_seconds", 1);
    })
    .await;
    let item = drawn_item(&instance, 3, 600).await;
    let draw = instance.stranger().get(&format!("/api/items/{item}/draw")).await.json;
    assert_eq!((&draw["proof"], &draw["beacon"]), (&json!("public"), &json!("drand-quicknet")));
    let rules = draw["rules"].as_str().expect("a text").to_owned();
    let line = |name: &str| {
        let found = rules.lines().find_map(|line| line.strip_prefix(name));
        found.unwrap_or_else(|| panic!("{name} is not in {rules}")).to_owned()
    };
    let chain = "52db9ba70e0cc0f6eaf7803dd07447a1f5477735fd3f661792ba94600c84e971";
    assert_eq!((line("chain ").as_str(), line("units ").as_str()), (chain, "3"));
    let closes: u64 = line("closes ").parse().expect("a number");
    let round: u64 = line("round ").parse().expect("a number");
    let time = (1_692_803_367 + (round - 1) * 3) * 1_000_000;
    assert!(closes < time && time - closes <= 4_000_000, "{rules}");
}
