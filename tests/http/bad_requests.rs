//! Requests that are refused for their path, their query, their headers, or who sends them.

use reqwest::header::HeaderValue;
use time::Duration;
use web::token::Tokens;

use super::ledger::{Refused, assert_refused};
use super::*;

/// Well formed, and nobody's.
const NO_ORDER: &str = "0190a0b0-0000-7000-8000-000000000000";

fn buy(client: &Client, path: &str) -> RequestBuilder {
    client.request(Method::POST, &format!("/api/seckill/{path}"))
}

#[tokio::test]
async fn a_path_that_names_nothing_is_refused() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let (buyer, admin) = (instance.buyer(1), instance.admin());
    let mut cases = Refused::default();
    let invalid = (400, "invalid_path_parameter");
    let ids = "abc 0 -1 +1 1.0 0x1 9223372036854775808 1:2 * 1%20 1%0a %EF%BC%91 1%00 %ff 1%2F2 {1} 1;2 1'--";
    for id in ids.split(' ') {
        cases.add(id, buy(&buyer, &format!("mysql-atomic/{id}")), invalid);
        for (client, method, path) in [
            (&buyer, Method::GET, format!("/api/items/{id}")),
            (&buyer, Method::GET, format!("/api/items/{id}/events")),
            (&admin, Method::GET, format!("/api/admin/items/{id}/audit")),
            (&admin, Method::PATCH, format!("/api/admin/items/{id}")),
            (&buyer, Method::GET, format!("/api/orders/{id}")),
            (&buyer, Method::POST, format!("/api/orders/{id}/payment")),
            (&buyer, Method::POST, format!("/api/orders/{id}/cancellation")),
        ] {
            let mut request = client.request(method.clone(), &path);
            if method == Method::PATCH {
                request = request.json(&json!({}));
            }
            cases.add(format!("{method} {path}"), request, invalid);
        }
    }
    for id in [
        "0190a0b0000070008000000000000000",
        "{0190a0b0-0000-7000-8000-000000000000}",
        "urn:uuid:0190a0b0-0000-7000-8000-000000000000",
    ] {
        cases.add(id, buyer.request(Method::GET, &format!("/api/orders/{id}")), invalid);
    }
    let no_item = (404, "item_not_found");
    for id in [item + 1, i64::MAX] {
        cases.add("no item", buy(&buyer, &format!("default/{id}")), no_item);
        for (client, path) in [
            (&buyer, format!("/api/items/{id}")),
            (&buyer, format!("/api/items/{id}/events")),
            (&admin, format!("/api/admin/items/{id}/audit")),
        ] {
            cases.add(path.clone(), client.request(Method::GET, &path), no_item);
        }
        let edit = admin.request(Method::PATCH, &format!("/api/admin/items/{id}"));
        cases.add("edit no item", edit.json(&json!({ "paused": true })), no_item);
    }
    for name in
        ["no-such-strategy", "MYSQL-ATOMIC", "mysql_atomic", "mysql-atomic%20", "%00", "%27", "*"]
    {
        cases.add(name, buy(&buyer, &format!("{name}/{item}")), (404, "strategy_not_found"));
    }
    assert_refused(&shop, cases).await;
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn a_query_or_a_header_that_is_not_understood_is_refused() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let buyer = instance.buyer(1);
    let mut cases = Refused::default();
    let invalid = (400, "invalid_query_parameter");
    let queries = "page=-1 limit=1e9 limit=0 limit=-1 limit=201 limit= limit=1&limit=2 sort=;-- before=abc \
         before=1&before=2 user_id=2 limit=%00 %ff=1";
    for query in queries.split(' ') {
        cases.add(query, buyer.request(Method::GET, &format!("/api/orders?{query}")), invalid);
    }
    for query in
        ["colour=red", "store=disk", "scope=", "store=mysql&store=redis", "user_id=2", "quantity=5"]
    {
        for strategy in ["lock-redis", "mysql-atomic"] {
            let request = buy(&buyer, &format!("{strategy}/{item}?{query}"));
            cases.add(format!("{strategy}?{query}"), request, invalid);
        }
    }
    let options = buy(&buyer, &format!("mysql-atomic/{item}?store=redis"));
    cases.add("options where none are taken", options, invalid);
    let unread = buy(&buyer, &format!("default/{item}")).header("accept", "image/png, text/html");
    cases.add("an answer of another type", unread, (406, "not_acceptable"));
    let purchase = || buy(&buyer, &format!("default/{item}"));
    let long = "x".repeat(65);
    let keys: [&[u8]; 7] =
        [b"", b" ", b"a b", b"a\tb", b"schl\xc3\xbcssel", b"\xff", long.as_bytes()];
    for key in keys {
        let value = HeaderValue::from_bytes(key).expect("sendable");
        let request = purchase().header("idempotency-key", value.clone());
        cases.add(format!("{value:?}"), request, (400, "idempotency_key_invalid"));
    }
    for second in ["a", "b"] {
        let two = purchase().header("idempotency-key", "a").header("idempotency-key", second);
        cases.add("two keys", two, (400, "idempotency_key_invalid"));
    }
    assert_refused(&shop, cases).await;
    // Who a request came from is not told by a header.
    let forwarded = buy(&buyer, &format!("default/{item}"))
        .header("x-forwarded-for", "10.0.0.1, 127.0.0.1")
        .header("x-forwarded-host", "evil.example")
        .header("x-http-method-override", "DELETE")
        .header("idempotency-key", "x".repeat(64))
        .header("x-user-id", "2");
    let bought = Client::send(forwarded).await;
    assert_eq!((bought.status, bought.json["user_id"].as_i64()), (201, Some(1)), "{}", bought.text);
    let location = bought.headers["location"].to_str().expect("a path");
    assert!(location.starts_with("/api/orders/"), "{location}");
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn a_sale_that_cannot_be_is_refused_by_its_reason() {
    let (shop, instance) = Shop::open().await;
    let in_year = async |year: &str| {
        let [starts_at, ends_at] = ["01", "02"].map(|day| format!("{year}-01-{day}T00:00:00Z"));
        instance.make_item(json!({ "starts_at": starts_at, "ends_at": ends_at })).await
    };
    let upcoming = in_year("2036").await;
    let ended = in_year("2016").await;
    let empty = instance.make_item(json!({ "stock": 0 })).await;
    let held = instance.make_item(json!({})).await;
    let real = instance.make_item(json!({ "kind": "shop" })).await;
    order_id(&instance.buyer(1).buy("lock-redis", held).await);
    let buyer = instance.buyer(1);
    let mut cases = Refused::default();
    for strategy in
        ["lock-redis", "lock-redis/store", "mysql-atomic", "mysql-version", "redis-watch"]
    {
        for (item, code) in [
            (upcoming, "sale_not_started"),
            (ended, "sale_ended"),
            (empty, "sold_out"),
            (held, "limit_reached"),
        ] {
            let path = match strategy.strip_suffix("/store") {
                Some(name) => format!("{name}/{item}?store=redis"),
                None => format!("{strategy}/{item}"),
            };
            cases.add(format!("{strategy} of {item}"), buy(&buyer, &path), (409, code));
        }
    }
    for unsafe_one in ["mysql-naive", "redis-naive"] {
        let request = buy(&buyer, &format!("{unsafe_one}/{real}"));
        cases.add(unsafe_one, request, (403, "unsafe_strategy"));
    }
    let by_user = buy(&buyer, &format!("lock-redis/{real}?scope=user"));
    cases.add("a lock on the buyer alone", by_user, (403, "unsafe_strategy"));
    assert_refused(&shop, cases).await;
    let again = buyer.buy("lock-redis", held).await;
    assert_eq!(again.json["orders"], "/api/orders", "where the first is");
    assert_all_clean(&instance, &[upcoming, ended, empty, held, real]).await;
}

#[tokio::test]
async fn a_token_that_is_not_good_is_refused() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let user = UserId::new(1).expect("positive");
    let now = OffsetDateTime::now_utc();
    let ours = Tokens::new(&shop.config.secret, &Secret::default());
    let theirs = Secret::new("the secret of another shop, of more than 32 characters");
    let foreign = Tokens::new(&theirs, &Secret::default());
    let good = ours.sign(user, Role::Buyer, now + Duration::HOUR);
    let admin = ours.sign(user, Role::Admin, now + Duration::HOUR);
    let parts: Vec<&str> = good.split('.').collect();
    let other: Vec<&str> = admin.split('.').collect();
    let foreign_token = foreign.sign(user, Role::Admin, now + Duration::HOUR);
    let foreign_mac = foreign_token.rsplit('.').next().expect("a part").to_owned();
    let invalid = [
        foreign_token.clone(),
        // Another's claims, key or MAC in ours.
        format!("{}.{}.{}.{}", parts[0], parts[1], other[2], parts[3]),
        format!("{}.{}.{}.{foreign_mac}", parts[0], parts[1], parts[2]),
        format!("{}.unknown.{}.{}", parts[0], parts[2], parts[3]),
        format!("{good}A"),
        parts[..3].join("."),
        "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIiwicm9sZSI6ImFkbWluIn0.".to_owned(),
        "x".repeat(8_000),
    ];
    let stranger = instance.stranger();
    let path = format!("mysql-atomic/{item}");
    let mut cases = Refused::default();
    cases.add("no token", buy(&stranger, &path), (401, "unauthenticated"));
    for token in invalid {
        let what = format!("the token {:.60}", token);
        cases.add(what, buy(&stranger, &path).bearer_auth(token), (401, "invalid_token"));
    }
    for value in ["", "Bearer", "Bearer ", "Basic dXNlcjpwYXNz", "bearer", good.as_str()] {
        let request = buy(&stranger, &path).header("authorization", value);
        cases.add(format!("Authorization: {value:.30}"), request, (401, "invalid_token"));
    }
    for seconds in [0, 1, 86_400] {
        let expired = ours.sign(user, Role::Buyer, now - Duration::seconds(seconds));
        let request = buy(&stranger, &path).bearer_auth(expired);
        cases.add("an expired token", request, (401, "token_expired"));
    }
    assert_refused(&shop, cases).await;
    assert_eq!(stranger.buy("default", item).await.headers["www-authenticate"], "Bearer");
    assert_eq!(stranger.with_token(&good).buy("default", item).await.status, 201);
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn anothers_order_is_as_good_as_none() {
    let (_shop, instance, item) = Shop::selling(json!({})).await;
    let order = order_id(&instance.buyer(1).buy("default", item).await);
    let (owner, other) = (instance.buyer(1), instance.buyer(2));
    for (method, step) in
        [(Method::GET, ""), (Method::POST, "/payment"), (Method::POST, "/cancellation")]
    {
        let path = |id: &str| format!("/api/orders/{id}{step}");
        let theirs = Client::send(other.request(method.clone(), &path(&order))).await;
        let nobodys = Client::send(other.request(method.clone(), &path(NO_ORDER))).await;
        assert_problem(&theirs, (404, "order_not_found"), step);
        let [theirs, nobodys] = [theirs, nobodys].map(|answer| apart_from_the_request_id(&answer));
        assert_eq!(theirs, nobodys, "{step}");
    }
    assert_eq!(other.get(&format!("/api/orders?before={order}")).await.json["orders"], json!([]));
    assert_eq!(other.get("/api/orders").await.json["orders"], json!([]));
    assert_eq!(owner.get(&format!("/api/orders/{order}")).await.json["status"], "pending");
    assert_clean(&instance, item).await;
}

#[tokio::test]
async fn one_purchase_more_than_there_is_room_for_is_refused() {
    let one = |config: &mut Config| config.purchase.in_flight_max = 1;
    let (shop, instance, item) = Shop::selling_with(json!({}), one).await;
    let holder = hold_stock_row(&shop.pool, item).await;
    let first = instance.buyer(1).buying("mysql-atomic", item);
    until_in_flight(&instance, 1).await;
    let refused = instance.buyer(2).buy("mysql-atomic", item).await;
    assert_problem(&refused, (503, "overloaded"), "a purchase too many");
    refused.assert_fields(503, json!({ "outcome": "none", "retryable": true }));
    assert_eq!(refused.headers["retry-after"], "1");
    holder.rollback().await.expect("the row is free");
    order_id(&first.await.expect("no panic"));
    order_id(&instance.buyer(2).buy("mysql-atomic", item).await);
    assert_clean(&instance, item).await;
}
