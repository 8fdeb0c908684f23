//! Bodies that are refused: of a purchase, of an account, of an item.

use super::ledger::{Refused, assert_refused};
use crate::support::prelude::*;

const JSON: &str = "application/json";
const FORM: &str = "application/x-www-form-urlencoded";
/// The default limit of a body.
const BODY_BYTES_MAX: usize = 16_384;

fn post(
    client: &Client,
    path: &str,
    kind: Option<&str>,
    body: impl Into<Vec<u8>>,
) -> RequestBuilder {
    let request = client.request(Method::POST, path).body(body.into());
    match kind {
        Some(kind) => request.header("content-type", kind),
        None => request,
    }
}

/// A body of exactly `bytes` bytes that asks for one unit.
fn padded(bytes: usize) -> String {
    format!("{}{{\"quantity\":1}}", " ".repeat(bytes - 14))
}

/// Rows 1 to 8 of the catalogue: what is no JSON, or not what we read.
fn add_unreadable(cases: &mut Refused, instance: &Instance, path: &str) {
    let buyer = instance.buyer(1);
    let nested = format!("{}{}", "[".repeat(200), "]".repeat(200));
    let deep_field = format!("{{\"quantity\":{nested}}}");
    let utf16: Vec<u8> = "{\"quantity\":1}".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let malformed: [(&str, Vec<u8>); 12] = [
        ("an empty body", b"".into()),
        ("white space", b"  \n".into()),
        ("no JSON", b"quantity=1".into()),
        ("cut JSON", b"{\"quantity\":".into()),
        ("trailing bytes", b"{} x".into()),
        ("two values", b"{}{}".into()),
        ("a comma too many", b"{\"quantity\":1,}".into()),
        ("200 arrays", nested.into()),
        ("200 arrays in a field", deep_field.into()),
        ("invalid UTF-8", b"{\"quantity\":\"\xff\"}".into()),
        ("UTF-16", utf16),
        ("NaN", b"{\"quantity\":NaN}".into()),
    ];
    for (what, body) in malformed {
        cases.add(what, post(&buyer, path, Some(JSON), body), (400, "malformed_json"));
    }
    for kind in [None, Some("text/plain"), Some(FORM), Some("application/jsonp"), Some("")] {
        let request = post(&buyer, path, kind, "{\"quantity\":1}");
        cases.add(format!("the type {kind:?}"), request, (415, "unsupported_media_type"));
    }
    for encoding in ["gzip", "br", "identity"] {
        let request = post(&buyer, path, Some(JSON), "{}").header("content-encoding", encoding);
        cases.add(encoding, request, (415, "unsupported_encoding"));
    }
    let too_large = post(&buyer, path, Some(JSON), padded(BODY_BYTES_MAX + 1));
    cases.add("a byte too many", too_large, (413, "payload_too_large"));
}

/// Rows 9 to 16: JSON that asks for what cannot be had.
fn add_misunderstood(cases: &mut Refused, instance: &Instance, path: &str) {
    let buyer = instance.buyer(1);
    let mut rows: Vec<(String, &'static str)> = Vec::new();
    for field in ["price", "is_admin", "user_id", "amount_cents", "Quantity", "__proto__"] {
        rows.push((format!("{{\"{field}\":1}}"), "unknown_field"));
    }
    rows.push(("{\"quantity\":1,\"quantity\":1}".into(), "duplicate_field"));
    rows.push(("{\"quantity\":1,\"quant\\u0069ty\":-5}".into(), "duplicate_field"));
    let out_of_range = "0 -0 -1 1001 4294967296 4294967297 9223372036854775807 9223372036854775808 \
         -9223372036854775809 1e309 1e30 -1e309 340282366920938463463374607431768211457";
    for quantity in out_of_range.split(' ') {
        rows.push((format!("{{\"quantity\":{quantity}}}"), "quantity_out_of_range"));
    }
    for quantity in ["1.5", "\"1\"", "true", "[1]", "{}", "1.0", "1e0"] {
        rows.push((format!("{{\"quantity\":{quantity}}}"), "invalid_type"));
    }
    for whole in ["[]", "[1]", "1", "\"quantity\"", "null", "true"] {
        rows.push((whole.into(), "invalid_type"));
    }
    rows.push(("{\"quantity\":6}".into(), "quantity_over_limit"));
    for (body, code) in rows {
        cases.add(body.clone(), post(&buyer, path, Some(JSON), body), (422, code));
    }
}

#[tokio::test]
async fn a_purchase_is_refused_by_what_is_wrong_with_its_body() {
    let (shop, instance, item) = Shop::selling(json!({ "per_buyer_limit": 5 })).await;
    let dear = json!({ "per_buyer_limit": 9, "price_cents": 1_000_000_000_000_i64 });
    let dear = instance.make_item(dear).await;
    let path = format!("/api/seckill/mysql-atomic/{item}");
    let mut cases = Refused::default();
    add_unreadable(&mut cases, &instance, &path);
    add_misunderstood(&mut cases, &instance, &path);
    let overflow = instance.buyer(1).request(Method::POST, &format!("/api/seckill/default/{dear}"));
    cases.add("a large amount", overflow.json(&json!({ "quantity": 2 })), (422, "amount_overflow"));
    assert_refused(&shop, cases).await;
    assert_eq!(assert_clean(&instance, item).await["available"], 10);
    // A permitted body is accepted.
    let buyer = instance.buyer(2);
    Client::send(post(&buyer, &path, Some(JSON), padded(BODY_BYTES_MAX))).await.expect_status(201);
    for kind in ["Application/JSON", "application/json; charset=utf-8"] {
        assert_eq!(Client::send(post(&buyer, &path, Some(kind), "{}")).await.status, 201, "{kind}");
    }
    Client::send(buyer.request(Method::POST, &path)).await.expect_status(201);
    assert_eq!(assert_clean(&instance, item).await["available"], 6);
}

#[tokio::test]
async fn the_other_bodies_are_read_as_strictly() {
    let (shop, instance, item) = Shop::selling(json!({})).await;
    let buyer = instance.buyer(1);
    let bought = buyer.buy("default", item).await;
    let order = format!("/api/orders/{}", bought.json["id"].as_str().expect("an order"));
    let (admin, stranger) = (instance.admin(), instance.stranger());
    let edit = format!("/api/admin/items/{item}");
    let routes = [
        (&buyer, Method::POST, format!("{order}/payment")),
        (&buyer, Method::POST, format!("{order}/cancellation")),
        (&stranger, Method::POST, "/api/users".to_owned()),
        (&stranger, Method::POST, "/api/session".to_owned()),
        (&admin, Method::POST, "/api/admin/items".to_owned()),
        (&admin, Method::PATCH, edit),
    ];
    // A body with a token of an identity provider may be larger than others.
    let large = format!("{{\"x\":\"{}\"}}", "x".repeat(3 * BODY_BYTES_MAX));
    let mut cases = Refused::default();
    for (client, method, path) in &routes {
        let send = |kind: &str, body: &str| {
            client.request(method.clone(), path).header("content-type", kind).body(body.to_owned())
        };
        for (what, request, expected) in [
            ("no JSON", send(JSON, "x"), (400, "malformed_json")),
            ("an array", send(JSON, "[]"), (422, "invalid_type")),
            ("a form", send(FORM, "a=b"), (415, "unsupported_media_type")),
            ("a large body", send(JSON, &large), (413, "payload_too_large")),
            ("an unknown field", send(JSON, "{\"status\":\"paid\"}"), (422, "unknown_field")),
        ] {
            cases.add(format!("{what} to {path}"), request, expected);
        }
    }
    for path in ["/api/users", "/api/session"] {
        for (body, code) in [
            (json!({}), "missing_field"),
            (json!({ "username": "x" }), "missing_field"),
            (json!({ "username": 1, "password": "long enough" }), "invalid_type"),
            (json!({ "username": "x", "password": null }), "invalid_type"),
            (json!({ "username": "x", "password": "x", "role": "admin" }), "unknown_field"),
        ] {
            let request = stranger.request(Method::POST, path).json(&body);
            cases.add(format!("{body} to {path}"), request, (422, code));
        }
    }
    assert_refused(&shop, cases).await;
    assert_clean(&instance, item).await;
}

/// A change of the good body, and the code that it is refused with.
fn item_changes() -> Vec<(Value, (u16, &'static str))> {
    let long = |count: usize| "x".repeat(count);
    let mut rows: Vec<(Value, &'static str)> = Vec::new();
    for price in [json!(-1), json!(1_000_000_000_001_i64), json!(1e30), json!(u64::MAX)] {
        rows.push((json!({ "price_cents": price }), "price_out_of_range"));
    }
    for stock in [json!(-1), json!(1_000_000_001), json!(u64::MAX)] {
        rows.push((json!({ "stock": stock }), "stock_out_of_range"));
    }
    for field in ["price_cents", "stock", "per_buyer_limit", "hold_seconds"] {
        for value in [json!(1.5), json!("1"), json!(true), json!([1])] {
            rows.push((json!({ field: value }), "invalid_type"));
        }
    }
    for limit in [json!(0), json!(-1), json!(1_000_001), json!(1_u64 << 32)] {
        rows.push((json!({ "per_buyer_limit": limit }), "limit_out_of_range"));
    }
    for hold in [json!(0), json!(-1), json!(86_401), json!(1_u64 << 32)] {
        rows.push((json!({ "hold_seconds": hold }), "hold_out_of_range"));
    }
    let far = "2036-01-01T00:00:00Z";
    for (starts_at, ends_at) in [
        (far, far),
        (far, "2035-12-31T23:59:59Z"),
        (far, "10000-01-01T00:00:00Z"),
        (far, "+10000-01-01T00:00:00Z"),
        (far, "2036-01-01T00:00:01"),
        (far, "2036-01-02"),
        (far, "tomorrow"),
        (far, ""),
        (far, "2036-02-30T00:00:00Z"),
        (far, "2036-01-01T25:00:00Z"),
        ("1969-12-31T23:59:59Z", far),
        ("0000-01-01T00:00:00Z", far),
        // The same instant, written in two zones.
        ("2036-01-01T01:00:00+01:00", far),
        // In UTC this is the year 10000.
        (far, "9999-12-31T23:59:59-12:00"),
    ] {
        rows.push((json!({ "starts_at": starts_at, "ends_at": ends_at }), "invalid_schedule"));
    }
    rows.push((json!({ "starts_at": 1_700_000_000 }), "invalid_type"));
    for name in ["", "  ", "a\0b", "a\u{1b}[31m", long(256).as_str()] {
        rows.push((json!({ "name": name }), "invalid_text"));
    }
    rows.push((json!({ "description": long(4_001) }), "invalid_text"));
    for url in ["data:text/html,x", long(2_049).as_str()] {
        rows.push((json!({ "image_url": url }), "invalid_text"));
    }
    for strategy in ["", "default", "no-such-strategy", "mysql-atomic;", "MYSQL-ATOMIC"] {
        rows.push((json!({ "strategy": strategy }), "unknown_strategy"));
    }
    for (field, value) in [("kind", "demo"), ("kind", ""), ("arbiter", "maybe"), ("arbiter", "OFF")]
    {
        rows.push((json!({ field: value }), "invalid_type"));
    }
    rows.push((json!({ "kind": "shop", "arbiter": "off" }), "arbiter_required"));
    rows.push((json!({ "id": 7 }), "unknown_field"));
    rows.push((json!({ "available": 7 }), "unknown_field"));
    let mut rows: Vec<_> = rows.into_iter().map(|(changes, code)| (changes, (422, code))).collect();
    for control in ["mysql-naive", "redis-naive"] {
        rows.push((json!({ "kind": "shop", "strategy": control }), (403, "unsafe_strategy")));
    }
    rows
}

#[tokio::test]
async fn an_item_that_cannot_be_is_neither_created_nor_made_by_an_edit() {
    let (shop, instance, item) = Shop::selling(json!({ "kind": "shop" })).await;
    let path = format!("/api/admin/items/{item}");
    let admin = instance.admin();
    let editable = ["starts_at", "ends_at", "strategy"];
    let mut cases = Refused::default();
    for (changes, expected) in item_changes() {
        let request =
            admin.request(Method::POST, "/api/admin/items").json(&item_body(changes.clone()));
        cases.add(format!("create with {changes}"), request, expected);
        let fields: Vec<&String> = changes.as_object().expect("an object").keys().collect();
        if fields.iter().all(|field| editable.contains(&field.as_str())) {
            let request = admin.request(Method::PATCH, &path).json(&changes);
            cases.add(format!("edit with {changes}"), request, expected);
        }
    }
    for field in ["name", "price_cents", "stock", "starts_at", "ends_at"] {
        let mut body = item_body(json!({}));
        body.as_object_mut().expect("an object").remove(field);
        let request = admin.request(Method::POST, "/api/admin/items").json(&body);
        cases.add(format!("create without {field}"), request, (422, "missing_field"));
    }
    for (changes, expected) in [
        (json!({ "stock_delta": -11 }), (422, "stock_below_sold")),
        (json!({ "stock_delta": 1_000_000_001 }), (422, "stock_out_of_range")),
        (json!({ "stock_delta": i64::MIN }), (422, "stock_out_of_range")),
        (json!({ "stock_delta": 1.5 }), (422, "invalid_type")),
        (json!({ "stock_delta": "1" }), (422, "invalid_type")),
        (json!({ "paused": "yes" }), (422, "invalid_type")),
        (json!({ "price_cents": 1 }), (422, "unknown_field")),
        (json!({ "stock": 99 }), (422, "unknown_field")),
        (json!({ "strategy": "mysql-naive" }), (403, "unsafe_strategy")),
    ] {
        let request = admin.request(Method::PATCH, &path).json(&changes);
        cases.add(format!("edit with {changes}"), request, expected);
    }
    assert_refused(&shop, cases).await;
    assert_clean(&instance, item).await;
}
