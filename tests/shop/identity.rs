//! Accounts from elsewhere: tokens of an identity provider, and sign-in by it.

mod attacks;
mod code_flow;
mod keys;
mod providers;
mod settings;

use crate::support::prelude::*;

/// A provider with one key of each kind, and a shop that trusts it.
async fn provider_and_shop() -> (TestIdentityProvider, Shop) {
    let keys = vec![TestKey::rsa("rsa-1"), TestKey::ec("ec-1"), TestKey::ed("ed-1")];
    let provider = TestIdentityProvider::start(keys).await;
    let shop = Shop::with(|config| provider.configure(config)).await;
    (provider, shop)
}

async fn exchange(instance: &Instance, token: &str) -> Answer {
    instance.stranger().post("/api/session", &json!({ "token": token })).await
}

/// The user whose session this is.
#[track_caller]
fn user(answer: &Answer) -> i64 {
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json["user_id"].as_i64().expect("an id")
}

#[tokio::test]
async fn a_token_of_each_algorithm_becomes_a_session_that_buys() {
    let (provider, shop) = provider_and_shop().await;
    let instance = shop.start().await;
    let item = instance.make_item(json!({ "stock": 3 })).await;
    for (at, subject) in ["rsa-user", "ec-user", "ed-user"].into_iter().enumerate() {
        let session = exchange(&instance, &provider.key(at).token(&provider.claims(subject))).await;
        let first = user(&session);
        assert_eq!(session.json["role"], "buyer");
        let client = instance.signed_in(&session);
        assert_eq!(client.buy("mysql-atomic", item).await.status, 201);
        let who = client.get("/api/session").await;
        assert_eq!((&who.json["user_id"], &who.json["role"]), (&json!(first), &json!("buyer")));
        // Whatever key signs, the subject stays the same user.
        let again = provider.key((at + 1) % 3).token(&provider.claims(subject));
        assert_eq!(user(&exchange(&instance, &again).await), first);
    }
    assert_eq!(shop.number("SELECT COUNT(DISTINCT user_id) FROM subjects").await, 3);
}

#[tokio::test]
async fn a_subject_that_signs_in_twice_at_once_becomes_one_user() {
    let (provider, shop) = provider_and_shop().await;
    let (one, other) = (shop.start().await, shop.start().await);
    let token = provider.key(0).token(&provider.claims("eager"));
    let tries = (0..16).map(|at| exchange(if at % 2 == 0 { &one } else { &other }, &token));
    let users: Vec<i64> = join_all(tries).await.iter().map(user).collect();
    assert!(users.iter().all(|id| *id == users[0]), "{users:?}");
    // The name of another issuer's user may be the same.
    assert_eq!(shop.number("SELECT COUNT(*) FROM users WHERE password_hash = ''").await, 1);
}

#[tokio::test]
async fn roles_come_from_the_claim() {
    let (provider, shop) = provider_and_shop().await;
    let instance = shop.start().await;
    for (roles, expected) in [
        (json!([]), "buyer"),
        (json!(["chief", "sale"]), "buyer"),
        (json!(["sales"]), "operator"),
        (json!(["x", "shop-operators"]), "operator"),
        (json!(["sales", "chiefs"]), "admin"),
        (json!("sales"), "operator"),
        // One group whose name has a space, and not two roles.
        (json!("sales chiefs"), "buyer"),
        (json!({ "chiefs": true }), "buyer"),
    ] {
        let mut claims = provider.claims("worker");
        claims["realm"] = json!({ "roles": roles });
        let session = exchange(&instance, &provider.key(0).token(&claims)).await;
        assert_eq!(session.json["role"], expected, "{roles}: {}", session.text);
        let audit = instance.signed_in(&session).get("/api/admin/actions").await;
        assert_eq!(audit.status, if expected == "buyer" { 403 } else { 200 }, "{roles}");
    }
    // A claim at the top with the name of a role gives none.
    let mut claims = provider.claims("worker");
    claims["roles"] = json!(["chiefs"]);
    assert_eq!(exchange(&instance, &provider.key(0).token(&claims)).await.json["role"], "buyer");
}

#[tokio::test]
async fn a_session_ends_with_its_token_and_everywhere_at_once() {
    let (provider, shop) = provider_and_shop().await;
    let instance = shop.start().await;
    let mut claims = provider.claims("short");
    let end = claims["iat"].as_i64().expect("a time") + 120;
    claims["exp"] = json!(end);
    let session = exchange(&instance, &provider.key(1).token(&claims)).await;
    let expires_at = session.json["expires_at"].as_str().expect("a time");
    let expires_at = OffsetDateTime::parse(expires_at, &Rfc3339);
    assert_eq!(expires_at.expect("a time").unix_timestamp(), end + 60);

    // A token without an end in practice: the session ends as others do.
    claims["exp"] = json!(253_402_300_799_i64);
    user(&exchange(&instance, &provider.key(1).token(&claims)).await);

    // Two sessions of one subject; signing out everywhere ends both, and their streams.
    let token = provider.key(0).token(&provider.claims("many-devices"));
    let (here, there) = (exchange(&instance, &token).await, exchange(&instance, &token).await);
    let (here, there) = (instance.signed_in(&here), instance.signed_in(&there));
    let mut stream = there.events("/api/orders/events").await;
    here.delete("/api/sessions").await.expect_status(204);
    assert!(stream.ends(BOUND).await, "the stream of a session that was signed out is open");
    there.get("/api/orders").await.expect_problem(401, "invalid_token");
    // The provider's token still opens a new session.
    let again = instance.signed_in(&exchange(&instance, &token).await);
    assert_eq!(again.get("/api/orders").await.status, 200);
}

#[tokio::test]
async fn keys_are_read_again_when_they_change_but_not_for_every_stranger() {
    let (provider, shop) = provider_and_shop().await;
    let instance = shop.start().await;
    let (old, claims) = (provider.key(0), provider.claims("rotating"));
    user(&exchange(&instance, &old.token(&claims)).await);
    assert_eq!(provider.reads_of_keys(), 1);
    // A flood of unknown ids costs the provider nothing within the pause.
    for at in 0..50 {
        let unknown = TestKey::ec(&format!("unknown-{at}"));
        exchange(&instance, &unknown.token(&claims)).await.expect_problem(401, "identity_refused");
    }
    assert!(provider.reads_of_keys() <= 3, "{} reads", provider.reads_of_keys());
    provider.rotate(vec![TestKey::ec("ec-2")]);
    let token = provider.key(0).token(&claims);
    until("the new key", || exchange(&instance, &token), |answer| answer.status == 200).await;
    exchange(&instance, &old.token(&claims)).await.expect_problem(401, "identity_refused");
    // What was read is good while the provider is away.
    provider.be_away(true);
    user(&exchange(&instance, &token).await);
}

#[tokio::test]
async fn without_the_providers_keys_nobody_is_believed() {
    let (provider, shop) = provider_and_shop().await;
    let token = provider.key(0).token(&provider.claims("early"));
    // A provider in a private network is asked only if the settings name the network.
    let elsewhere = "192.0.2.0/24";
    let instance = shop
        .start_with(|config| config.sections.set("identity", "private_networks", elsewhere))
        .await;
    exchange(&instance, &token).await.expect_problem(503, "dependency_unavailable");
    assert_eq!(provider.reads_of_keys(), 0);
    provider.be_away(true);
    let instance = shop.start().await;
    exchange(&instance, &token).await.expect_problem(503, "dependency_unavailable");
    provider.be_away(false);
    until("the keys", || exchange(&instance, &token), |answer| answer.status == 200).await;
}

#[tokio::test]
async fn keys_of_a_file_need_no_provider() {
    let key = TestKey::ed("file-1");
    let path = std::env::temp_dir().join(unique("keys"));
    let mut start = program(&Shop::new().await, &["serve"]);
    start.env("SECKILL_IDENTITY_ISSUER", "https://id.example");
    start.env("SECKILL_IDENTITY_AUDIENCE", "shop").env("SECKILL_IDENTITY_JWKS_FILE", &path);
    let (code, said) = told(&start.output().await.expect("it runs"));
    let file = format!("identity.jwks_file {}", path.display());
    assert_eq!((code, said.contains(&file)), (2, true), "{said}");
    std::fs::write(&path, json!({ "keys": [key.jwk()] }).to_string()).expect("written");
    let (_shop, instance) = Shop::open_with(|config| {
        config.sections.set("identity", "issuer", "https://id.example");
        config.sections.set("identity", "audience", "shop, other-shop");
        config.sections.set("identity", "jwks_file", path.to_string_lossy().into_owned());
    })
    .await;
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let claims = |audience: Value| json!({ "iss": "https://id.example", "aud": audience, "sub": "1", "exp": now + 60 });
    for audience in [json!("shop"), json!("other-shop"), json!(["x", "shop"])] {
        user(&exchange(&instance, &key.token(&claims(audience))).await);
    }
    let answer = exchange(&instance, &key.token(&claims(json!("another")))).await;
    assert_problem(&answer, (401, "identity_refused"), "another audience");
    // Browsers need the provider's pages, so there is no button.
    let methods = instance.stranger().get("/api/session/methods").await;
    assert_eq!(methods.json, json!({ "passwords": true, "provider": null }));
    std::fs::remove_file(path).expect("removed");
}

#[tokio::test]
async fn own_accounts_can_be_switched_off_and_tokens_are_off_by_default() {
    let (provider, mut shop) = provider_and_shop().await;
    shop.config.session.own_accounts = false;
    let instance = shop.start().await;
    let person = json!({ "username": "somebody", "password": "correct horse battery" });
    for path in ["/api/users", "/api/session"] {
        let answer = instance.stranger().post(path, &person).await;
        assert_problem(&answer, (403, "passwords_off"), path);
    }
    let methods = instance.stranger().get("/api/session/methods").await;
    let expected = json!({ "name": "Example ID", "start": "/api/session/provider" });
    assert_eq!(methods.json, json!({ "passwords": false, "provider": expected }));
    let session = exchange(&instance, &provider.key(0).token(&provider.claims("1"))).await;
    // A user of the provider has no password to change.
    let words = json!({ "current_password": "", "new_password": "correct horse battery" });
    let change = instance.signed_in(&session).request(Method::PUT, "/api/session/password");
    assert_problem(&Client::send(change.json(&words)).await, (403, "passwords_off"), "a password");

    let (_shop, plain) = Shop::open().await;
    exchange(&plain, "a.b.c").await.expect_problem(409, "identity_off");
    let both = json!({ "username": "a", "password": "b", "token": "c" });
    plain.stranger().post("/api/session", &both).await.expect_problem(422, "unknown_field");
}
