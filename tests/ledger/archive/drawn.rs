//! The orders and places of a drawn item leave, and the proof of its draw stays.

use reqwest::Method;
use seckill::failpoint::ARCHIVE_POINTS;
use serde_json::json;
use verify::{Known, check};

use super::{ENDED, Folder, archive, assert_both_clean, count, outside, set, step};
use crate::http::order_id;
use crate::ledger::draw::{drawn_item, enter, proof, shop, until_drawn};
use crate::support::Client;

#[tokio::test]
async fn a_drawn_item_leaves_and_its_proof_stays() {
    let (shop, folder) = (shop().await, Folder::new());
    let instance = shop.start().await;
    let item = drawn_item(&instance, 2, 8).await;
    for buyer in 1..=4 {
        assert_eq!(enter(&instance.buyer(buyer), item).await.status, 200);
    }
    set(&shop, ENDED, item).await;
    let (code, text) = archive(&shop, &folder.0, item, None).await;
    assert_eq!((code, text.contains("its draw is not over")), (1, true), "{text}");
    let goes_on = "UPDATE items SET ends_at = UTC_TIMESTAMP(6) + INTERVAL 1 DAY WHERE id = ?";
    set(&shop, goes_on, item).await;
    until_drawn(&instance.stranger(), item).await;
    let before = proof(&instance.stranger(), item).await;
    let waiting = format!("/api/items/{item}/waiting");
    for buyer in 1..=4 {
        let client = instance.buyer(buyer);
        if client.get(&waiting).await.json["status"] == "offered" {
            let bought = client.post(&format!("{waiting}/purchase"), &json!({})).await;
            step(&instance, buyer, &order_id(&bought), "payment").await;
        } else {
            // Whoever leaves and joins again has two places, of which the first one was drawn.
            for method in [Method::DELETE, Method::POST, Method::DELETE] {
                let answer = Client::send(client.request(method, &waiting).json(&json!({}))).await;
                assert!(answer.status < 300, "{}", answer.text);
            }
        }
    }
    set(&shop, ENDED, item).await;
    assert_both_clean(&shop, &instance, item, 2).await;
    for point in ARCHIVE_POINTS {
        let (code, text) = archive(&shop, &folder.0, item, Some(point)).await;
        assert_eq!(code, -1, "{point} did not kill it: {text}");
        assert_both_clean(&shop, &instance, item, 2).await;
    }
    let (code, text) = archive(&shop, &folder.0, item, None).await;
    assert_eq!(code, 0, "{text}");
    for table in ["orders", "stock_movements", "buyer_limits", "waiting_list"] {
        assert_eq!(count(&shop, table, item).await, 0, "{table}");
    }
    assert_both_clean(&shop, &instance, item, 2).await;
    let after = proof(&instance.stranger(), item).await;
    assert_eq!((check(&after, Known::default()), &after.entries), (vec![], &before.entries));

    // A place that is changed by hand, and an entry that is gone.
    let shifted = "UPDATE draw_entries SET place = place + 1 WHERE item_id = ? AND user_id = 1";
    for (mistake, repair) in [
        (shifted, Some(shifted.replace('+', "-"))),
        ("DELETE FROM draw_entries WHERE item_id = ? AND place = 1", None),
    ] {
        set(&shop, mistake, item).await;
        let audit = instance.audit(item).await;
        let mut findings = audit["findings"].as_array().expect("findings").iter();
        let is_found = findings.any(|one| one["invariant"] == "I21" && one["holds"] == false);
        assert!(is_found && outside(&shop, item, 2).await.contains(&"I21"), "{mistake}: {audit}");
        if let Some(repair) = repair {
            set(&shop, &repair, item).await;
            assert_both_clean(&shop, &instance, item, 2).await;
        }
    }
}
