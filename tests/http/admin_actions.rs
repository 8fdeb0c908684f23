//! The log of what operators did: complete, in order, and only for them.

use crate::support::prelude::*;

async fn log(instance: &Instance, query: &str) -> Value {
    let answer =
        instance.admin().get(&format!("/api/admin/actions{query}")).await.expect_status(200);
    answer.json
}

#[tokio::test]
async fn what_an_operator_does_is_written_down_and_what_was_refused_is_not() {
    let (shop, instance) =
        Shop::open_with(|config| config.http.trusted_proxies = "127.0.0.1".to_owned()).await;
    let item = instance.make_item(json!({ "name": "A lamp" })).await;
    let path = format!("/api/admin/items/{item}");
    let other = instance.stranger().with_token(&instance.token(7, Role::Admin));
    let pause = other.request(Method::PATCH, &path).json(&json!({ "paused": true }));
    Client::send(pause.header("x-forwarded-for", "203.0.113.9")).await.expect_status(200);
    let restock = json!({ "stock_delta": 5, "strategy": "mysql-atomic" });
    assert_eq!(other.patch(&path, &restock).await.status, 200);
    // Refused: an old revision, a strategy that is none, more than is left, no operator.
    let stale = other.request(Method::PATCH, &path).header("if-match", "\"1\"");
    let stale = Client::send(stale.json(&json!({ "paused": false }))).await;
    assert_problem(&stale, (412, "precondition_failed"), "an old revision");
    for (what, body, expected) in [
        ("no strategy", json!({ "strategy": "none" }), (422, "unknown_strategy")),
        ("too many", json!({ "stock_delta": -100 }), (422, "stock_below_sold")),
    ] {
        assert_problem(&other.patch(&path, &body).await, expected, what);
    }
    assert_eq!(instance.buyer(1).patch(&path, &json!({ "paused": false })).await.status, 403);

    let told = log(&instance, "").await;
    let actions = told["actions"].as_array().expect("a list");
    let brief = |it: &Value| json!([it["action"], it["user_id"], it["item_id"]]);
    let brief: Vec<_> = actions.iter().map(brief).collect();
    let line = |action: &str, user: i64| json!([action, user, item]);
    assert_eq!(brief, [line("item_edited", 7), line("item_edited", 7), line("item_created", 1)]);
    assert_eq!(actions[0]["detail"], restock);
    assert_eq!(actions[1]["detail"], json!({ "paused": true }));
    assert_eq!(actions[1]["address"], "203.0.113.9");
    assert_eq!(actions[2]["detail"]["name"], "A lamp");
    assert_eq!(actions[2]["address"], "127.0.0.1");
    assert!(actions.iter().all(|action| action["created_at"].is_string()));
    assert_eq!(told["next"], json!(null));

    // Page by page, on another instance too.
    let beside = shop.start().await;
    let first = log(&beside, "?limit=2").await;
    assert_eq!(first["actions"], json!(actions[..2]));
    let next = first["next"].as_str().expect("a next page");
    let last = log(&beside, &format!("?limit=2&before={next}")).await;
    assert_eq!((&last["actions"], &last["next"]), (&json!(actions[2..]), &json!(null)));
    let bad = instance.admin().get("/api/admin/actions?sort=;--").await;
    assert_problem(&bad, (400, "invalid_query_parameter"), "a parameter that is none");
    assert_clean(&instance, item).await;
}
