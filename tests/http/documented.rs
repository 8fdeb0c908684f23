//! The document as it is served, the pages, and the headers that guard them.

use gates::{Scope, Store, WaitFor};
use ledger::rows::actions::NAMES;

use crate::support::files_below;
use crate::support::prelude::*;

#[tokio::test]
async fn the_document_is_served_and_shown() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    let served = stranger.get("/api/openapi.json").await;
    let generated = serde_json::to_value(seckill::http::openapi()).expect("JSON");
    assert_eq!((served.status, &served.json), (200, &generated));
    let mut page = stranger.get("/docs").await;
    if (300..400).contains(&page.status) {
        page = stranger.get(page.headers["location"].to_str().expect("text")).await;
    }
    assert_eq!(page.status, 200);
    assert!(page.headers["content-type"].to_str().is_ok_and(|kind| kind.starts_with("text/html")));
    assert!(page.headers.contains_key("content-security-policy"));
    // What the page needs comes from here, not from elsewhere.
    for script in
        ["/docs/swagger-ui-bundle.js", "/docs/swagger-ui.css", "/docs/swagger-initializer.js"]
    {
        assert_eq!(stranger.get(script).await.status, 200, "{script}");
    }
    assert!(!page.text.contains("https://"), "{}", page.text);
    // The type of a problem leads to its meaning.
    let refused = stranger.get("/api/items/4711").await;
    let meaning = stranger.get(refused.json["type"].as_str().expect("an address")).await;
    let is_its_row = meaning.text.contains("| 404 | `item_not_found` |");
    assert_eq!((meaning.status, is_its_row), (200, true), "{}", meaning.text);
    assert_problem(&stranger.get("/problems/none").await, (404, "not_found"), "no such type");
}

#[test]
fn the_document_lists_every_word_of_the_options() {
    let document = serde_json::to_value(seckill::http::openapi()).expect("JSON");
    let purchase = &document["paths"]["/api/seckill/{strategy}/{item_id}"]["post"];
    let parameters = purchase["parameters"].as_array().expect("a list");
    let words = |name: &str| {
        let found = parameters.iter().find(|parameter| parameter["name"] == name);
        found.unwrap_or_else(|| panic!("no {name}"))["schema"]["enum"].clone()
    };
    let of_code = |words: Vec<&str>| json!(words);
    assert_eq!(words("store"), of_code(Store::ALL.iter().map(|word| word.as_str()).collect()));
    assert_eq!(words("scope"), of_code(Scope::ALL.iter().map(|word| word.as_str()).collect()));
    assert_eq!(words("wait"), of_code(WaitFor::ALL.iter().map(|word| word.as_str()).collect()));
    assert!(words("wait").as_array().is_some_and(|words| words.contains(&json!("notify"))));
}

/// A name that is not in the list panics in tests, in `actions::record`; this one finds names that nothing records.
#[test]
fn the_document_lists_every_action_of_operators() {
    let document = serde_json::to_value(seckill::http::openapi()).expect("JSON");
    let action = &document["components"]["schemas"]["ActionBody"]["properties"]["action"];
    let text = action["description"].as_str().expect("a text");
    let folders = ["src", "crates/ledger/src", "extensions"];
    let files = folders.iter().flat_map(|folder| files_below(folder, "rs"));
    let others = files.filter(|file| !file.ends_with("account/actions.rs"));
    let sources: String =
        others.map(|file| std::fs::read_to_string(file).expect("a source")).collect();
    for name in NAMES {
        assert!(text.contains(&format!("`{name}`")), "{name} is not in {text}");
        assert!(sources.contains(&format!("\"{name}\"")), "nothing records {name}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_guard_it() {
    let (_shop, instance, item) = Shop::selling(json!({})).await;
    let buyer = instance.buyer(1);
    let answers = [
        ("a page", buyer.get("/").await),
        ("a page of an item", buyer.get("/item.html").await),
        ("no page", buyer.get("/nothing").await),
        ("the list", buyer.get("/api/items").await),
        ("an item", buyer.get(&format!("/api/items/{item}")).await),
        ("a purchase", buyer.buy("default", item).await),
        ("a refusal", buyer.buy("default", item).await),
        ("orders", buyer.get("/api/orders").await),
        ("nothing of the API", buyer.get("/api/nothing").await),
        ("a method too many", buyer.post("/api/items", &json!({})).await),
        ("metrics", buyer.get("/metrics").await),
        ("health", buyer.get("/healthz").await),
    ];
    for (what, answer) in &answers {
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{what}");
        assert!(answer.headers.contains_key("referrer-policy"), "{what}");
        assert_eq!(answer.headers["cross-origin-resource-policy"], "same-origin", "{what}");
        // Without TLS it would lock people out.
        assert!(!answer.headers.contains_key("strict-transport-security"), "{what}");
        assert_eq!(answer.headers["x-request-id"].len(), 16, "{what}");
        assert!(!answer.headers.contains_key("access-control-allow-origin"), "{what}");
        assert!(!answer.headers.contains_key("server"), "{what}");
    }
    for (what, answer) in &answers[..3] {
        let policy = answer.headers["content-security-policy"].to_str().expect("text");
        let parts = "default-src 'self';frame-ancestors 'none';script-src 'self';object-src 'none'";
        for part in parts.split(';') {
            assert!(policy.contains(part), "{what}: {part} is missing in {policy}");
        }
        assert!(!policy.contains("unsafe"), "{what}: {policy}");
        assert_eq!(answer.headers["cross-origin-opener-policy"], "same-origin", "{what}");
        assert!(answer.headers.contains_key("permissions-policy"), "{what}");
        let kind = answer.headers["content-type"].to_str().expect("text");
        assert!(kind.starts_with("text/html"), "{what}: {kind}");
    }
    assert_eq!([0, 1, 2].map(|at: usize| answers[at].1.status), [200, 200, 404]);
    for (what, answer) in &answers[3..10] {
        assert_eq!(answer.headers["cache-control"], "no-store", "{what}");
    }
    assert_problem(&answers[8].1, (404, "not_found"), "nothing of the API");
    assert_problem(&answers[9].1, (405, "method_not_allowed"), "a method too many");
}

#[tokio::test]
async fn files_are_compressed_and_an_unchanged_one_is_not_sent_again() {
    let (_shop, instance) = Shop::open().await;
    let stranger = instance.stranger();
    for path in ["/", "/js/strings.js", "/css/base.css", "/img/mark.svg"] {
        let plain = stranger.get(path).await;
        assert_eq!(plain.headers["cache-control"], "no-cache", "{path}");
        let tag = plain.headers["etag"].clone();
        let request = stranger.request(Method::GET, path);
        let known = format!("\"another\", {}", tag.to_str().expect("text"));
        let again = Client::send(request.header("if-none-match", known)).await;
        assert_eq!((again.status, again.text.len()), (304, 0), "{path}");
        for refused in ["gzip;q=0, *", "*; q=0.000", "br"] {
            let request = stranger.request(Method::GET, path).header("accept-encoding", refused);
            let answer = Client::send(request).await;
            assert!(!answer.headers.contains_key("content-encoding"), "{path}: {refused}");
        }
        let head = Client::send(stranger.request(Method::HEAD, path)).await;
        assert_eq!((head.status, head.text.len()), (200, 0), "{path}");
        assert_eq!(head.headers["etag"], plain.headers["etag"], "{path}");
        let request = stranger.request(Method::GET, path);
        let takes = request.header("accept-encoding", "*;q=0, X-GZIP;q=0.5");
        let response = takes.send().await.expect("an answer");
        assert_eq!(response.headers()["content-encoding"], "gzip", "{path}");
        assert_eq!(response.headers()["vary"], "accept-encoding", "{path}");
        let compressed = response.bytes().await.expect("a body").len();
        assert!(compressed < plain.text.len(), "{path}: {compressed} bytes as gzip");
    }
}
