//! Behind reverse proxies: streams arrive, and what a proxy sets or sends is answered as for anybody.

use crate::support::nginx::Nginx;
use crate::support::prelude::*;
use crate::support::raw::Raw;

/// nginx keeps an answer until it has 4 KiB, unless a header asks it not to (nginx#1505).
#[tokio::test]
async fn events_arrive_behind_nginx_with_its_defaults() {
    let (_shop, instance) = Shop::open().await;
    let nginx = Nginx::before(instance.addr, "").await;
    let item = instance.make_item(json!({ "stock": 3, "per_buyer_limit": 3 })).await;
    let buyer = Client::new(nginx.addr, Some(instance.token(1, Role::Buyer)));
    for (path, field, value) in [
        (format!("/api/items/{item}/events"), "available", json!(2)),
        ("/api/orders/events".to_owned(), "status", json!("pending")),
    ] {
        let opening = Events::open(buyer.request(Method::GET, &path));
        let opened = tokio::time::timeout(BOUND, opening).await;
        let mut events = opened.unwrap_or_else(|_| panic!("{path}: nginx keeps the stream"));
        assert_eq!(buyer.buy("mysql-atomic", item).await.status, 201);
        let news = events.seek(BOUND, |event| event.data[field] == value).await;
        news.unwrap_or_else(|seen| panic!("{path}: {seen}"));
    }
    assert_clean(&instance, item).await;
    // A stream asks proxies not to keep it, and says something at once.
    let request = instance.buyer(2).request(Method::GET, "/api/orders/events");
    let mut answer = request.send().await.expect("an answer");
    assert_eq!(answer.headers()["x-accel-buffering"], "no");
    assert_eq!(answer.headers()["cache-control"], "no-store, no-transform");
    let first = tokio::time::timeout(BOUND, answer.chunk()).await.expect("in time");
    assert_eq!(first.expect("a stream").expect("an event"), "event: alive\ndata: {}\n\n");
}

/// A request byte by byte, as a proxy sends it, and the status of its answer.
async fn status(instance: &Instance, request: impl AsRef<[u8]>) -> u16 {
    let mut raw = Raw::connect(instance.addr).await;
    raw.send(request).await;
    raw.answer().await.status
}

/// Each form in which a proxy passes a purchase on: the version of HTTP, the status that is answered, the headers with `|`
/// between, and who sends it.
const FORMS: &str = "\
1.0 201 Host: shop.example|Connection: close # nginx before 1.29.7: HTTP/1.0
1.1 201 Host: shop.example|Connection: close # Apache; HAProxy, httpclose
1.1 201 Host: shop.example:443 # Host with its port
1.1 201 Host: SHOP.Example # Host in capitals
1.1 201 Host: shop.example. # Host with its last dot
1.1 201 Host: 10.0.0.3:8080 # nginx: Host is the address of the upstream
1.1 421 Host: seckill # nginx: Host is the name of the upstream
1.1 421 Host: seckill|X-Forwarded-Host: shop.example # Apache: Host alone counts
1.1 201 Host: shop.example|X-Forwarded-Host: evil.example:1, a # Traefik, Caddy
1.1 400 X: y # no Host
1.0 201 X: y # HAProxy's check over HTTP/1.0: no Host
1.1 201 Host: shop.example|X-Forwarded-Proto: https, http # two proxies
1.1 201 Host: shop.example|X-Forwarded-Proto: http # a setting says TLS, no header
1.1 201 Host: shop.example|X-Forwarded-Port: 443|Front-End-Https: on # AWS; IIS
1.1 201 Host: shop.example|X-Forwarded-For: _a, unknown|X-Forwarded-For: [::1 # Squid; broken
1.1 201 Host: shop.example|Forwarded: for=\"_a\";proto=https, for=\" # RFC 7239; broken
1.1 201 Host: shop.example|X-Real-IP: 1.2.3.4|CF-Connecting-IP: 1.2.3.4 # nginx; Cloudflare
1.1 201 Host: shop.example|Via: 1.1 google, 2 edge (Varnish/7.1) # Google Cloud; Varnish
1.1 201 Host: shop.example|CDN-Loop: cloudflare; loops=1|CF-Visitor: {} # Cloudflare
1.1 201 Host: shop.example|X-Request-Id: theirs|X-Amzn-Trace-Id: Root=1 # Envoy; AWS
1.1 201 Host: shop.example|X-Envoy-Expected-Rq-Timeout-Ms: 15000 # Envoy
1.1 201 Host: shop.example|Connection: keep-alive, Upgrade|Upgrade: h2c # Apache: not taken";

#[tokio::test]
async fn a_purchase_is_read_in_each_form_of_a_proxy() {
    let (_shop, instance) =
        Shop::open_with(|config| config.http.hosts = "shop.example".to_owned()).await;
    let item = instance.make_item(json!({ "stock": 90, "per_buyer_limit": 90 })).await;
    let token = instance.token(1, Role::Buyer);
    let head = |version: &str, headers: &str| {
        format!(
            "POST /api/seckill/mysql-atomic/{item} HTTP/{version}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n\r\n"
        )
    };
    let mut sold = 0;
    for line in FORMS.lines() {
        let (form, source) = line.split_once(" # ").expect("a source");
        let parts: Vec<&str> = form.splitn(3, ' ').collect();
        let [version, expected, headers] = parts[..] else { panic!("{line}") };
        let request = head(version, &headers.replace('|', "\r\n"));
        assert_eq!(status(&instance, &request).await.to_string(), expected, "{source}:\n{request}");
        sold += i64::from(expected == "201");
    }
    // nginx with proxy_request_buffering off, Envoy, Google Cloud: the body in chunks.
    let chunked =
        "Host: shop.example\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json";
    let request = head("1.1", chunked) + "e\r\n{\"quantity\":1}\r\n0\r\n\r\n";
    assert_eq!(status(&instance, &request).await, 201, "{request}");
    assert_eq!(available(&instance, item).await, 90 - sold - 1);
}
