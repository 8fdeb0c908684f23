//! Many reservations in one request, by the program of a shop; and what such a program may not do.

use super::*;

fn line(buyer: &str, key: &str, of: &[(i64, u32)]) -> String {
    let mut body = lines(of);
    (body["buyer"], body["key"]) = (json!(buyer), json!(key));
    body.to_string()
}

async fn send(program: &Client, body: String) -> Answer {
    let request = program.request(Method::POST, "/api/reservations/batch");
    Client::send(request.header("content-type", "application/x-ndjson").body(body)).await
}

/// The answers to the lines.
fn answers(answer: &Answer) -> Vec<Value> {
    assert_eq!(answer.status, 200, "{}", answer.text);
    assert_eq!(answer.headers["content-type"], "application/x-ndjson");
    answer.text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_line_is_answered_for_itself_and_in_order() {
    let (shop, instance, items) = selling(3, |_| {}).await;
    let program = shop.make_program(&instance, "five").await;
    let sent = [
        line("anna", "a", &[(items[0], 1), (items[1], 1)]),
        "no JSON".to_owned(),
        line("ben", "b", &[(items[1], 5)]),
        String::new(),
        line("", "c", &[(items[0], 1)]),
        line("cleo", "c d", &[(items[0], 1)]),
        line("cleo", "c", &[]),
        json!({ "buyer": "dora", "lines": [] }).to_string(),
        line("dora", "d", &[(items[0], 1), (items[0], 1)]),
        line("anna", "e", &[(items[2], 2)]),
    ];
    let answered = answers(&send(&program, sent.join("\n")).await);
    let brief = |one: &Value| {
        let code = one["problem"]["code"].as_str().unwrap_or("sold").to_owned();
        (one["line"].as_u64().expect("a number"), one["status"].as_u64().expect("a status"), code)
    };
    let expected = [
        (1, 201, "sold"),
        (2, 400, "malformed_json"),
        (3, 422, "quantity_over_limit"),
        // The empty line is no reservation.
        (4, 400, "buyer_reference_invalid"),
        (5, 400, "idempotency_key_invalid"),
        (6, 422, "lines_out_of_range"),
        (7, 422, "missing_field"),
        (8, 422, "duplicate_item"),
        (9, 201, "sold"),
    ];
    let expected = expected.map(|(line, status, code)| (line, status, code.to_owned()));
    assert_eq!(answered.iter().map(brief).collect::<Vec<_>>(), expected);
    assert_eq!(answered[0]["order"]["lines"].as_array().map(Vec::len), Some(2));
    assert_eq!(answered[2]["problem"]["item_id"], items[1]);
    assert!(answered[2]["problem"]["request_id"].is_string());
    // The same request again gives the same orders.
    let again = answers(&send(&program, sent.join("\n")).await);
    for place in [0, 8] {
        assert_eq!(again[place]["order"]["id"], answered[place]["order"]["id"]);
        assert_eq!(again[place]["replayed"], true);
    }
    assert_eq!(left(&instance, &items).await, [9, 9, 8]);
    assert_all_clean(&instance, &items).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_sells_no_unit_twice() {
    let (shop, instance, items) = selling(3, |_| {}).await;
    let cart = one_of_each(&items);
    // Both shops use the same references.
    let body = {
        let guests = (0..128).map(|guest| line(&format!("guest-{guest}"), "k", &cart));
        guests.collect::<Vec<_>>().join("\n")
    };
    let programs =
        [shop.make_program(&instance, "five").await, shop.make_program(&instance, "six").await];
    let (first, second) = tokio::join!(send(&programs[0], body.clone()), send(&programs[1], body));
    let mut sold = 0;
    for answered in [answers(&first), answers(&second)] {
        assert_eq!(answered.len(), 128);
        for one in answered {
            match one["status"].as_u64() {
                Some(201) => sold += 1,
                _ => assert_eq!(one["problem"]["code"], "sold_out", "{one}"),
            }
        }
    }
    assert_eq!((sold, left(&instance, &items).await), (10, vec![0, 0, 0]));
    // The limit of a buyer is counted over the carts of one request, too.
    let many = items_of(&instance, 2, 100).await;
    let of_cleo = ["c", "d", "e"].map(|key| line("cleo", key, &[(many[0], 2), (many[1], 1)]));
    let answered = answers(&send(&programs[0], of_cleo.join("\n")).await);
    let codes = answered.iter().filter_map(|one| one["problem"]["code"].as_str());
    assert_eq!(codes.collect::<Vec<_>>(), ["limit_reached"], "{answered:?}");
    assert_all_clean(&instance, &many).await;
    let too_many = vec![line("z", "k", &cart); 257].join("\n");
    assert_problem(&send(&programs[0], too_many).await, (422, "lines_out_of_range"), "257 lines");
    send(&programs[0], String::new()).await.expect_problem(422, "lines_out_of_range");
    assert_all_clean(&instance, &items).await;
}

/// A token of a shop does nothing in its own name, and runs no sale.
#[tokio::test]
async fn ashops_token_has_no_other_rights() {
    let (shop, instance) = Shop::open().await;
    let item = items(&instance, 1).await[0];
    let program = shop.make_program(&instance, "five").await;
    let body = lines(&[(item, 1)]);
    // Without a guest.
    for (method, path) in [
        (Method::POST, "/api/reservations".to_owned()),
        (Method::POST, format!("/api/seckill/default/{item}")),
        (Method::GET, "/api/orders".to_owned()),
        (Method::GET, "/api/orders/events".to_owned()),
        (Method::GET, format!("/api/items/{item}/waiting")),
    ] {
        let answer = Client::send(program.request(method, &path).json(&body)).await;
        assert_problem(&answer, (400, "buyer_reference_invalid"), &path);
    }
    for reference in ["", "two words", &"x".repeat(256)] {
        let answer = program.as_guest(reference, Method::GET, "/api/orders", None).await;
        assert_problem(&answer, (400, "buyer_reference_invalid"), reference);
    }
    // What needs an account; `http::access` asks for what needs an operator.
    for (method, path) in [
        (Method::GET, "/api/session"),
        (Method::DELETE, "/api/sessions"),
        (Method::DELETE, "/api/users/me"),
    ] {
        let request = program.request(method, path).header("Buyer-Reference", "anna");
        assert_problem(&Client::send(request.json(&json!({}))).await, (403, "forbidden"), path);
    }
    // And a batch is for shops alone; a buyer's reference is for nobody else.
    let batch = line("anna", "k", &[(item, 1)]);
    for other in [instance.buyer(1), instance.admin()] {
        assert_problem(&send(&other, batch.clone()).await, (403, "forbidden"), "no shop");
    }
    let orders = shop.number("SELECT COUNT(*) FROM orders").await;
    for other in [instance.buyer(1), instance.admin()] {
        let refused = other.as_guest("anna", Method::POST, "/api/reservations", Some(&body)).await;
        assert_problem(&refused, (403, "forbidden"), "the reference of a buyer");
    }
    assert_eq!(shop.number("SELECT COUNT(*) FROM orders").await, orders);
}
