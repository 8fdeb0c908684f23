//! Fuzzing: random mutations of valid inputs against every parser of outside input. Nothing panics,
//! and no forged token is accepted.
//!
//! Each test runs for a second; `SECKILL_TEST_FUZZ_SECONDS=600` for longer. A failure prints its
//! seed; `SECKILL_TEST_SEED` repeats it.

mod dice;
mod redis;

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::IntoResponse;
use gates::Options;
use seckill::http::route::admin::{CreateItemBody, EditItemBody};
use seckill::http::route::purchase::PurchaseBody;
use seckill::http::route::session::CredentialsBody;
use shop_domain::username;
use time::Duration;
use web::address::Proxies;
use web::body::{BodyLimits, JsonBody, OptionalJsonBody};
use web::cross_site::refuse_cross_site;
use web::extract::{IdempotencyKey, QueryPairs, cookie};
use web::hosts::Hosts;
use web::problem::Problem;
use web::token::Tokens;

use crate::support::prelude::*;

/// A refusal is the client's fault and has a body; whatever else is a fault of ours.
fn assert_refusal(problem: Problem, what: &str) {
    let code = problem.code();
    let status = problem.into_response().status();
    assert!(status.is_client_error() && !code.is_empty(), "{what}: {status} {code}");
}

#[test]
fn no_token_is_made_by_chance() {
    let tokens = Tokens::new(
        &Secret::new("a secret for tests, of thirty-two characters and more"),
        &Secret::new("another secret for tests, of thirty-two characters too"),
    );
    let now = OffsetDateTime::now_utc();
    let sign =
        |id, role| tokens.sign(UserId::new(id).expect("positive"), role, now + Duration::HOUR);
    let seeds = [sign(1, Role::Buyer), sign(i64::MAX, Role::Admin), "sk1...".into(), "".into()];
    let texts = seeds.each_ref().map(|seed| seed.as_bytes());
    dice::throw("tokens", |dice| {
        let bytes = dice.mutate(&texts);
        let text = String::from_utf8_lossy(&bytes);
        if tokens.read(&text, now).is_ok() {
            assert!(seeds.contains(&text.clone().into_owned()), "a forged token: {text:?}");
        }
    });
}

#[test]
fn bodies_are_understood_or_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let limits = BodyLimits { bytes_max: 4_096, timeout: std::time::Duration::from_secs(60) };
    let item = item_body(json!({ "description": "\u{1f4a1}\n", "per_buyer_limit": 2 })).to_string();
    let seeds: [&[u8]; 7] = [
        br#"{"quantity":1}"#,
        br#"{"quantity":1e309,"quantity":-9223372036854775809}"#,
        br#"{"username":"ada","password":"correct horse \ud83d\ude00"}"#,
        br#"{"starts_at":"2036-01-01T00:00:00Z","paused":true,"stock_delta":-3,"strategy":null}"#,
        item.as_bytes(),
        b"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[]]]]",
        b"\xff\xfe{\0\"\0",
    ];
    dice::throw("bodies", |dice| {
        let bytes = dice.mutate(&seeds);
        let request = || {
            let request = Request::builder().method("POST").uri("/");
            let request = request.header("content-type", "application/json");
            request.body(bytes.clone().into()).expect("a request")
        };
        let shown = || String::from_utf8_lossy(&bytes).into_owned();
        runtime.block_on(async {
            let refused = [
                JsonBody::<CreateItemBody>::from_request(request(), &limits).await.err(),
                JsonBody::<EditItemBody>::from_request(request(), &limits).await.err(),
                JsonBody::<CredentialsBody>::from_request(request(), &limits).await.err(),
                OptionalJsonBody::<PurchaseBody>::from_request(request(), &limits).await.err(),
            ];
            for problem in refused.into_iter().flatten() {
                assert_refusal(problem, &shown());
            }
        });
    });
}

#[test]
fn headers_and_queries_are_understood_or_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let proxies = Proxies::parse("10.0.0.0/8, ::1").expect("networks");
    let hosts = Hosts::new("shop.example", true);
    let seeds: [&[u8]; 10] = [
        b"a-key-of-64-characters-0123456789-0123456789-0123456789-0123456",
        b"seckill=sk1.a.b.c; theme=dark; seckill=x",
        b"http://shop.example:80",
        b"shop.example",
        b"evil.example",
        b"[::1]:80",
        b"203.0.113.7, 10.0.0.1, ::ffff:10.0.0.2",
        b"store=redis&scope=item-user&wait=sleep-200",
        b"limit=10&before=0190a0b0-0000-7000-8000-000000000000&x=%ff%00+",
        b"same-origin",
    ];
    const NAMES: [&str; 6] =
        ["idempotency-key", "cookie", "origin", "host", "x-forwarded-for", "sec-fetch-site"];
    dice::throw("headers", |dice| {
        let mut headers = HeaderMap::new();
        for name in NAMES {
            if let Ok(value) = HeaderValue::from_bytes(&dice.mutate(&seeds)) {
                headers.append(HeaderName::from_static(name), value);
            }
        }
        let query = dice.mutate(&seeds);
        let uri = [b"/?".as_slice(), &query].concat();
        let uri = Uri::try_from(uri).unwrap_or_else(|_| Uri::from_static("/"));
        let (mut parts, ()) = Request::builder().uri(uri).body(()).expect("a request").into_parts();
        parts.headers = headers.clone();
        let what = format!("{parts:?}");
        let key = runtime.block_on(IdempotencyKey::from_request_parts(&mut parts, &()));
        match key {
            Ok(IdempotencyKey(Some(key))) => {
                let text = key.as_str();
                let printable = text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
                assert!((1..=64).contains(&text.len()) && printable, "{text:?}");
            }
            Ok(IdempotencyKey(None)) => {}
            Err(problem) => assert_refusal(problem, &what),
        }
        match runtime.block_on(QueryPairs::from_request_parts(&mut parts, &())) {
            Ok(QueryPairs(pairs)) => {
                let _ = Options::read(pairs.iter().map(|(name, value)| (&**name, &**value)));
            }
            Err(problem) => assert_refusal(problem, &what),
        }
        let _ = cookie(&headers, "seckill");
        if let Err(problem) = refuse_cross_site(&Method::POST, &Uri::from_static("/"), &headers) {
            assert_refusal(problem, &what);
        }
        // Whatever is forwarded, a stranger stays who he is.
        let stranger = "203.0.113.99".parse().expect("an address");
        assert_eq!(proxies.client(stranger, &headers), stranger);
        let _ = proxies.client("10.0.0.1".parse().expect("an address"), &headers);
        if hosts.match_request(&Uri::from_static("/"), &headers)
            && let Some(host) = headers.get("host")
        {
            assert!(!host.as_bytes().starts_with(b"evil.example"), "{host:?}");
        }
        let _ = username::fold(&String::from_utf8_lossy(&dice.mutate(&seeds)));
    });
}
