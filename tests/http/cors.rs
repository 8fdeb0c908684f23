//! Pages of other sites: those of configured origins may use the API with tokens, others may not.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Client, Shop};

const OURS: &str = "https://shop.example";

async fn preflight(client: &Client, origin: &str, path: &str) -> Answer {
    let request = client.request(Method::OPTIONS, path);
    let request = request
        .header("origin", origin)
        .header("access-control-request-method", "POST")
        .header("access-control-request-headers", "authorization,content-type,idempotency-key");
    Client::send(request).await
}

fn allowed(answer: &Answer) -> Option<&str> {
    answer.headers.get("access-control-allow-origin").map(|it| it.to_str().expect("text"))
}

#[tokio::test]
async fn a_page_of_a_named_origin_buys_with_a_token() {
    let origins = format!("{OURS}, http://127.0.0.1:3000");
    let shop = Shop::with(|config| config.http.cors_origins = origins).await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let path = format!("/api/seckill/default/{item}");
    let asked = preflight(&instance.stranger(), OURS, &path).await;
    assert!((200..300).contains(&asked.status), "{}", asked.status);
    assert_eq!(allowed(&asked), Some(OURS));
    let headers = asked.headers["access-control-allow-headers"].to_str().expect("text");
    assert!(headers.contains("authorization") && headers.contains("idempotency-key"), "{headers}");
    let request = instance.buyer(1).request(Method::POST, &path);
    let request = request.header("origin", OURS).header("sec-fetch-site", "cross-site");
    let bought = Client::send(request).await;
    assert_eq!((bought.status, allowed(&bought)), (201, Some(OURS)), "{}", bought.text);
    let shown = bought.headers["access-control-expose-headers"].to_str().expect("text");
    assert!(shown.contains("idempotency-replayed"), "{shown}");
    // Cookies are never asked for, and caches tell the origins apart.
    for answer in [&asked, &bought] {
        assert!(!answer.headers.contains_key("access-control-allow-credentials"));
        let vary = answer.headers.get_all("vary").iter();
        let vary: Vec<&str> = vary.map(|it| it.to_str().expect("text")).collect();
        assert!(vary.join(",").to_lowercase().contains("origin"), "{vary:?}");
    }
    // Refusals can be read, too.
    let request = instance.stranger().request(Method::GET, "/api/orders").header("origin", OURS);
    let refused = Client::send(request).await;
    assert_eq!((refused.status, allowed(&refused)), (401, Some(OURS)));
}

#[tokio::test]
async fn other_origins_learn_nothing() {
    let shop = Shop::with(|config| config.http.cors_origins = OURS.to_owned()).await;
    let instance = shop.start().await;
    for origin in [
        "https://evil.example",
        "https://shop.example.evil.example",
        "https://evil-shop.example",
        "http://shop.example",
        "https://shop.example:8443",
        "https://SHOP.example",
        "null",
    ] {
        let asked = preflight(&instance.stranger(), origin, "/api/items").await;
        assert_eq!(allowed(&asked), None, "{origin}");
        let request = instance.stranger().request(Method::GET, "/api/items");
        let answer = Client::send(request.header("origin", origin)).await;
        assert_eq!(allowed(&answer), None, "{origin}");
    }
    // Pages are not part of the API.
    let request = instance.stranger().request(Method::GET, "/").header("origin", OURS);
    assert_eq!(allowed(&Client::send(request).await), None);
}

#[tokio::test]
async fn a_cookie_is_not_taken_from_a_page_of_a_named_origin() {
    let shop = Shop::with(|config| config.http.cors_origins = OURS.to_owned()).await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({})).await;
    let buyer = instance.buyer(1);
    let cookie = format!("seckill={}", buyer.token().expect("a token"));
    for (origin, site) in [(OURS, "cross-site"), (OURS, "same-site")] {
        let request =
            instance.stranger().request(Method::POST, &format!("/api/seckill/default/{item}"));
        let request = request.header("cookie", &cookie).header("origin", origin);
        let answer = Client::send(request.header("sec-fetch-site", site)).await;
        assert_eq!(answer.brief(), (403, "cross_site_request"), "{origin} {site}");
    }
    // Signing in needs no cookie, so a named origin may do it, and no other.
    let person = json!({ "username": "ada", "password": "correct horse battery" });
    for (origin, status) in [(OURS, 201), ("https://evil.example", 403)] {
        let request = instance.stranger().request(Method::POST, "/api/users").json(&person);
        let request = request.header("origin", origin).header("sec-fetch-site", "cross-site");
        assert_eq!(Client::send(request).await.status, status, "{origin}");
    }
}

#[tokio::test]
async fn without_the_setting_there_is_no_cors() {
    let (_shop, instance) = Shop::open().await;
    let asked = preflight(&instance.stranger(), OURS, "/api/items").await;
    assert_eq!((asked.status, allowed(&asked)), (405, None));
}
