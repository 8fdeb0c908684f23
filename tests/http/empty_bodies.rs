//! Requests without a body, in the forms in which tools send them: no operation whose body may be left out minds what
//! they call it.

use super::access::{document, documented};
use crate::support::prelude::*;
use crate::support::raw::Raw;

/// What tools name the type of a body that they do not have.
const TYPES: [(&str, Option<&str>); 9] = [
    // curl -X POST, wrk, vegeta, fetch, Postman, requests.post(url)
    ("no type", None),
    // curl -d '', k6's http.post(url, {}), Invoke-WebRequest, PHP's CURLOPT_POST
    ("curl -d ''", Some("application/x-www-form-urlencoded")),
    // apache/jmeter#6092
    ("JMeter", Some("application/x-www-form-urlencoded; charset=UTF-8")),
    // http --form POST
    ("HTTPie", Some("application/x-www-form-urlencoded; charset=utf-8")),
    // ab -p empty-file
    ("ab", Some("text/plain")),
    // hey -m POST
    ("hey", Some("text/html")),
    // A form with files, of which none was chosen.
    ("a form with files", Some("multipart/form-data; boundary=x")),
    ("bytes", Some("application/octet-stream")),
    ("an empty type", Some("")),
];

/// An operation of the document whose body may be left out, with numbers for the parts of its path.
fn operations(item: i64) -> Vec<(Method, String)> {
    let document = document();
    let changes = documented(&document).into_iter().filter(|(method, _, operation)| {
        method != "GET" && operation["requestBody"]["required"] != json!(true)
    });
    let found = changes.map(|(method, path, _)| {
        let method: Method = method.parse().expect("a method");
        let item = item.to_string();
        let order = "01a1fdc7-1150-7a01-9d1e-5b7c3ad0c0de";
        let id = if path.contains("/orders/") { order } else { item.as_str() };
        let path = path.replace("{strategy}", "default").replace("{item_id}", &item);
        (method, path.replace("{id}", id).replace(['{', '}'], ""))
    });
    let mut found: Vec<_> = found.collect();
    // What ends the tokens of all others comes last.
    found.sort_by_key(|(_, path)| path == "/api/sessions");
    found
}

/// The answer by which an operation says that it minds the body.
fn minds(answer: &Value) -> bool {
    let code = answer["code"].as_str().unwrap_or_default();
    // One that minds the path has not looked at the body yet.
    let codes = ["unsupported_media_type", "malformed_json", "invalid_path_parameter"];
    codes.contains(&code)
}

#[tokio::test]
async fn no_operation_without_a_required_body_minds_its_type() {
    let (_shop, instance) = Shop::open_with(|config| {
        config.limits.user_per_second = 100_000;
        config.limits.user_burst = 100_000;
    })
    .await;
    let item = instance.make_item(json!({ "stock": 100, "per_buyer_limit": 100 })).await;
    let operations = operations(item);
    let routes: BTreeSet<_> = operations.iter().map(|(_, path)| path.as_str()).collect();
    for known in [format!("/api/seckill/default/{item}"), format!("/api/items/{item}/ticket")] {
        assert!(routes.contains(known.as_str()), "{routes:?}");
    }
    assert!(operations.len() >= 12, "{routes:?}");
    for (method, path) in &operations {
        for (tool, kind) in TYPES {
            // A new token each time: some of them end it.
            let client = instance.admin();
            let mut request = client.request(method.clone(), path).header("content-length", "0");
            if let Some(kind) = kind {
                request = request.header("content-type", kind);
            }
            let answer = Client::send(request).await;
            assert!(answer.status < 500, "{tool}: {method} {path}: {}", answer.text);
            assert!(answer.status != 401 || path == "/api/sessions", "{tool}: {method} {path}");
            assert!(!minds(&answer.json), "{tool}: {method} {path}: {}", answer.text);
        }
    }
}

/// Sends a purchase as a tool writes it, byte for byte, and answers the status.
async fn purchase(instance: &Instance, item: i64, version: &str, headers: &str, body: &str) -> u16 {
    let addr = instance.addr;
    let token = instance.token(1, Role::Buyer);
    let mut raw = Raw::connect(addr).await;
    raw.send(format!(
        "POST /api/seckill/mysql-atomic/{item} HTTP/{version}\r\nHost: {addr}\r\nAuthorization: Bearer {token}\r\n{headers}\r\n{body}"
    ))
    .await;
    raw.answer().await.status
}

/// Each tool with its version of HTTP and its headers, which end with `|`. `FORM` is the type of a form.
const TOOLS: &str = "\
curl -X POST: HTTP/1.1 User-Agent: curl/8.14.1|Accept: */*|
curl -d '': HTTP/1.1 Accept: */*|Content-Length: 0|FORM|
ab -p: HTTP/1.0 Content-length: 0|Content-type: text/plain|User-Agent: ApacheBench/2.3|
JMeter: HTTP/1.1 Connection: keep-alive|FORM; charset=UTF-8|Content-Length: 0|User-Agent: Apache-HttpClient/4.5.14 (Java/17)|
PHP's curl: HTTP/1.1 Accept: */*|Expect: 100-continue|Content-Length: 0|FORM|
an empty body in chunks: HTTP/1.1 Transfer-Encoding: chunked|FORM|";

#[tokio::test]
async fn the_requests_of_tools_buy() {
    let (_shop, instance, item) =
        Shop::selling(json!({ "stock": 100, "per_buyer_limit": 100 })).await;
    let form = "Content-Type: application/x-www-form-urlencoded";
    for line in TOOLS.lines() {
        let (tool, request) = line.split_once(": HTTP/").expect("a tool");
        let (version, headers) = request.split_once(' ').expect("headers");
        let headers = headers.replace("FORM", form).replace('|', "\r\n");
        let body = if headers.contains("chunked") { "0\r\n\r\n" } else { "" };
        assert_eq!(purchase(&instance, item, version, &headers, body).await, 201, "{tool}");
    }
    let count = TOOLS.lines().count();
    assert_eq!(instance.audit(item).await["orders"], count);
    // A body is read by its type, whatever the tool.
    let json = "Content-Type: application/json\r\n";
    let chunked = format!("{form}\r\nTransfer-Encoding: chunked\r\n");
    for (what, headers, body, status) in [
        ("a form", format!("{form}\r\nContent-Length: 10\r\n"), "quantity=1", 415),
        ("a form in chunks", chunked, "3\r\na=b\r\n0\r\n\r\n", 415),
        ("JSON that is not there", format!("{json}Content-Length: 0\r\n"), "", 400),
    ] {
        assert_eq!(purchase(&instance, item, "1.1", &headers, body).await, status, "{what}");
    }
    assert_eq!(instance.audit(item).await["orders"], count, "a refused body bought");
}
