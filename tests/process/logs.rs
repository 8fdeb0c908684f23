//! No secret in the logs, whatever is logged and however.

use crate::process::program::LoggedService;
use crate::support::identity_keys::unsigned;
use crate::support::identity_provider::CLIENT_ID;
use crate::support::prelude::*;

/// What a token says is logged when the token is refused; it stays in its line.
#[tokio::test]
async fn a_token_with_a_line_break_writes_no_line_into_the_log() {
    let provider = TestIdentityProvider::start(vec![TestKey::ec("ec-1")]).await;
    let shop = Shop::new().await;
    let mut serve = program(&shop, &["serve"]);
    serve.env("SECKILL_LOG_FILTER", "info");
    serve.env("SECKILL_IDENTITY_ISSUER", provider.issuer());
    serve.env("SECKILL_IDENTITY_AUDIENCE", CLIENT_ID);
    serve.env("SECKILL_IDENTITY_PRIVATE_NETWORKS", "127.0.0.1");
    let service = LoggedService::start(&mut serve).await;
    for break_of_line in ["\n", "\r\n", "\u{85}", "\u{2028}"] {
        let algorithm =
            format!("x{break_of_line}2026-11-22T00:00:00Z ERROR planted-line\u{1b}[31m");
        let header = json!({ "alg": algorithm, "kid": "ec-1" });
        let token = format!("{}.AAAA", unsigned(&header, &provider.claims("victim")));
        let answer = service.stranger.post("/api/session", &json!({ "token": token })).await;
        assert_eq!(answer.brief(), (401, "identity_refused"), "{}", answer.text);
    }
    let log = service.stop().await;
    let planted: Vec<_> = log.lines().filter(|line| line.contains("planted-line")).collect();
    assert_eq!(planted.len(), 4, "each was logged: {log}");
    for line in planted {
        let is_own = line.contains("token of the identity provider refused");
        assert!(is_own, "a line of its own: {log}");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

#[tokio::test]
async fn secrets_are_not_logged_and_lines_cannot_be_forged() {
    let (shop, maker, item) = Shop::selling(json!({})).await;
    let token = maker.token(1, Role::Buyer);
    for format in ["text", "json"] {
        let mut serve = program(&shop, &["serve"]);
        serve.env("SECKILL_LOG_FILTER", "debug").env("SECKILL_LOG_FORMAT", format);
        let service = LoggedService::start(&mut serve).await;
        let stranger = &service.stranger;
        let name = format!("planted-name-{format}");
        let credentials = json!({ "username": name, "password": "planted-password" });
        assert_eq!(stranger.post("/api/users", &credentials).await.status, 201);
        let session = stranger.post("/api/session", &credentials).await;
        let signed = session.json["token"].as_str().expect("a token").to_owned();
        let wrong = json!({ "username": name, "password": "planted-wrong-password" });
        assert_eq!(stranger.post("/api/session", &wrong).await.status, 401);
        let buyer = stranger.with_token(&token);
        buyer.buy_with_key("default", item, "planted-key").await;
        let odd = stranger
            .request(Method::POST, &format!("/api/seckill/default/{item}?planted-query=1"))
            .header("authorization", "Bearer planted-token")
            .header("cookie", "seckill=planted-cookie");
        assert_eq!(Client::send(odd).await.status, 401);
        // What a client sends cannot begin a line of its own.
        let forged = "/api/items/1%0aERROR%20planted-line%1b%5b31m";
        assert_eq!(stranger.get(forged).await.status, 400);
        let log = service.stop().await;
        assert!(log.contains("serving http://"), "nothing was logged: {log}");
        assert!(log.contains("SELECT"), "too little was logged to be a test: {log}");
        assert!(log.contains("a sign-in failed"), "a wrong password left no trace: {log}");
        let password = |url: &str| {
            let (user, _) = url.rsplit_once('@')?;
            user.rsplit_once(':').map(|(_, password)| password.to_owned())
        };
        let [database, redis] = [&shop.config.database_url, &shop.config.redis_url];
        let database_password = password(database.reveal()).expect("it has a password");
        let servers = [database.reveal(), redis.reveal(), &database_password];
        let own = [shop.config.secret.reveal(), &token, &signed];
        // People type passwords into the wrong field, so the name is one.
        let planted = ["name", "password", "wrong-password", "key", "token", "cookie", "query"];
        let planted = planted.map(|what| format!("planted-{what}"));
        for secret in servers.into_iter().chain(own).chain(planted.iter().map(String::as_str)) {
            assert!(!log.contains(secret), "{format}: the log shows {secret:?}");
        }
        assert!(!log.lines().any(|line| line.starts_with("ERROR planted-line")));
        assert!(!log.contains('\u{1b}'), "{format}: an escape sequence was let through");
        if format == "json" {
            for line in log.lines().filter(|line| !line.is_empty()) {
                serde_json::from_str::<Value>(line).expect("each line is JSON");
            }
        }
    }
}
