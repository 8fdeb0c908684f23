//! What HTTP/2 does differently: bodies without a length, and the host's name in `:authority`.

use axum::http::request::Builder;
use hyper::Method;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, ORIGIN};

use crate::support::h2::{Carried, Http2};
use crate::support::prelude::*;

#[tokio::test]
async fn a_body_counts_whether_or_not_a_header_announces_it() {
    let (_shop, instance, item) =
        Shop::selling(json!({ "stock": 5_000, "per_buyer_limit": 2_000 })).await;
    let client = Http2::connect(instance.addr).await;
    let token = format!("Bearer {}", instance.token(1, Role::Buyer));
    let purchase = || -> Builder {
        let path = purchase_path("mysql-atomic", item);
        client.request(Method::POST, &path).header(AUTHORIZATION, &token)
    };
    let thousand = || Carried::Bytes(r#"{"quantity":1000}"#);
    client.ask(purchase(), thousand()).await.expect_problem(415, "unsupported_media_type");
    assert_eq!(instance.audit(item).await["orders"], 0, "nothing was bought");
    let typed = client.ask(purchase().header(CONTENT_TYPE, "application/json"), thousand()).await;
    assert_eq!((typed.status, &typed.json["quantity"]), (201, &json!(1_000)), "{}", typed.text);
    // No body, however that is said, is one unit.
    for nothing in [Carried::Nothing, Carried::Bytes("")] {
        client.ask(purchase(), nothing).await.assert_fields(201, json!({ "quantity": 1 }));
    }
    let form = purchase().header(CONTENT_TYPE, "application/x-www-form-urlencoded");
    client.ask(form, Carried::Bytes("")).await.expect_status(201);
    let empty = client.ask(purchase().header(CONTENT_TYPE, "application/json"), Carried::Nothing);
    assert_problem(&empty.await, (400, "malformed_json"), "a type without a body");
    // A head may be as long as in HTTP/1.1: a token of an identity provider with 200 groups has 12 to 24 KB.
    let bearer = format!("Bearer eyJ.{}.x", "x".repeat(24 << 10));
    let request = client.request(Method::GET, "/api/orders").header(AUTHORIZATION, bearer);
    let answer = client.ask(request, Carried::Nothing).await.expect_problem(401, "invalid_token");
    assert!(answer.text.contains("POST /api/session"), "{}", answer.text);
}

#[tokio::test]
async fn our_own_pages_are_known_by_the_authority() {
    let (_shop, instance, item) =
        Shop::selling(json!({ "stock": 100, "per_buyer_limit": 100 })).await;
    let client = Http2::connect(instance.addr).await;
    let cookie = format!("seckill={}", instance.token(1, Role::Buyer));
    let ours = format!("http://{}", instance.addr);
    let purchase = |origin: Option<&str>| {
        let path = purchase_path("mysql-atomic", item);
        let request = client.request(Method::POST, &path).header(COOKIE, &cookie);
        match origin {
            Some(origin) => request.header(ORIGIN, origin),
            None => request,
        }
    };
    for foreign in ["null", "https://evil.example", "http://127.0.0.1:1", ""] {
        let refused = client.ask(purchase(Some(foreign)), Carried::Nothing).await;
        assert_problem(&refused, (403, "cross_site_request"), foreign);
    }
    assert_eq!(instance.audit(item).await["orders"], 0, "another site's page bought");
    for own in [Some(ours.as_str()), None] {
        assert_eq!(client.ask(purchase(own), Carried::Nothing).await.status, 201, "{own:?}");
    }
}
