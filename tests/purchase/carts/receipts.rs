//! A refused reservation gets a receipt if it asks for one.

use reqwest::Method;
use serde_json::{Value, json};
use verify::log::{Receipt, check_receipt};

use super::assert_all_clean;
use super::batches::shop_program;
use crate::support::{Client, Shop, eventually, when};

#[tokio::test]
async fn a_refused_cart_gets_a_receipt_from_the_log_of_the_line_that_refused() {
    let shop = Shop::with(|config| {
        config.receipts.enabled = true;
        config.receipts.append_ms = 20;
    })
    .await;
    let instance = shop.start().await;
    let mut items = Vec::new();
    for stock in [9, 1] {
        items.push(instance.make_item(json!({ "stock": stock, "per_buyer_limit": 2 })).await);
    }
    let lines = json!([{ "item_id": items[0] }, { "item_id": items[1], "quantity": 2 }]);
    let alone = (instance.buyer(1), "/api/reservations", "application/json");
    let batch = (shop_program(&instance, 5), "/api/reservations/batch", "application/x-ndjson");
    for (client, path, kind) in [alone, batch] {
        let mut body = json!({ "lines": lines });
        if kind.ends_with("ndjson") {
            (body["buyer"], body["key"]) = (json!("anna"), json!("k"));
        }
        let ask = async |prefer: &str| {
            let request = client.request(Method::POST, path).header("prefer", prefer);
            let request = request.header("content-type", kind).body(body.to_string());
            let answer: Value =
                serde_json::from_str(&Client::send(request).await.text).expect("one answer");
            if answer["problem"].is_object() { answer["problem"].clone() } else { answer }
        };
        let refused = ask("receipt").await;
        assert_eq!((&refused["code"], &refused["item_id"]), (&json!("sold_out"), &json!(items[1])));
        let address = refused["receipt"].as_str().unwrap_or_else(|| panic!("{path}: {refused}"));
        let receipt = eventually("the receipt", || async {
            let answer = client.get(address).await;
            when(answer.status == 200, answer.json)
        })
        .await;
        let receipt: Receipt = serde_json::from_value(receipt).expect("a receipt");
        assert!(check_receipt(&receipt, None).is_empty(), "{receipt:?}");
        assert!(receipt.entry.ends_with(" 2 sold_out"), "the line: {receipt:?}");
        assert_eq!(ask("wait=1").await["receipt"], Value::Null, "without the wish there is none");
    }
    assert_all_clean(&instance, &items).await;
}
