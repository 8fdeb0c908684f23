//! Settings with commas and dots in the names of others, and what the service says when they do not fit.

use crate::process::program::LoggedService;
use crate::support::prelude::*;

const ISSUER: &str = "https://id.example";
/// A directory's name of a group, as coder#21878 has one.
const GROUP: &str = "cn=Shop Operators,ou=xyz,ou=123,o=def";

fn token(key: &TestKey, claims: Value) -> String {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let all = json!({ "iss": ISSUER, "aud": "shop", "sub": "1", "iat": now, "exp": now + 600 });
    key.token(&changed(all, claims))
}

/// Writes the key's set, and answers its path.
fn keys_of(key: &TestKey) -> PathBuf {
    let path = std::env::temp_dir().join(unique("keys"));
    std::fs::write(&path, json!({ "keys": [key.jwk()] }).to_string()).expect("written");
    path
}

/// A list in the file and a JSON array in a variable keep a directory's name whole; the path of the claim may have dots in
/// its names; and a token whose groups were left out is told in the log.
#[tokio::test]
async fn names_with_commas_and_dots_are_kept_whole() {
    let key = TestKey::ed("1");
    let keys = keys_of(&key);
    let file = std::env::temp_dir().join(unique("settings"));
    let list = format!("[identity]\nadmin_values = [\"CN=Chiefs, Ltd.,O=def\", \"{GROUP}x\"]\n");
    std::fs::write(&file, list).expect("written");
    let shop = Shop::new().await;
    let mut serve = program(&shop, &["serve", "--config", &file.to_string_lossy()]);
    serve.env("SECKILL_IDENTITY_ISSUER", ISSUER);
    serve.env("SECKILL_IDENTITY_AUDIENCE", r#"["other", "shop"]"#);
    serve.env("SECKILL_IDENTITY_JWKS_FILE", &keys);
    serve.env("SECKILL_IDENTITY_ROLE_CLAIM", r#"resource_access."my.client".roles"#);
    serve.env("SECKILL_IDENTITY_OPERATOR_VALUES", json!([GROUP, "plain"]).to_string());
    let service = LoggedService::start(&mut serve).await;
    let with = |roles: Value| json!({ "resource_access": { "my.client": { "roles": roles } } });
    for (claims, role) in [
        (with(json!([GROUP])), "operator"),
        // A provider with one group may send it as a text.
        (with(json!(GROUP)), "operator"),
        (with(json!(["plain"])), "operator"),
        (with(json!(["CN=Chiefs, Ltd.,O=def"])), "admin"),
        // No piece of a name is one.
        (with(json!(["ou=xyz", "cn=Shop Operators", "Ltd.", "Operators"])), "buyer"),
        (json!({ "resource_access": { "my": { "client": { "roles": ["plain"] } } } }), "buyer"),
        (json!({ "_claim_names": { "resource_access": "src1" } }), "buyer"),
    ] {
        let body = json!({ "token": token(&key, claims.clone()) });
        let session = service.stranger.post("/api/session", &body).await;
        assert_eq!(session.status, 200, "{claims}: {}", session.text);
        assert_eq!(session.json["role"], role, "{claims}");
    }
    let log = service.stop().await;
    assert_eq!(log.matches("left the groups out of a token").count(), 1, "{log}");
    assert_eq!(log.matches("app roles").count(), 1, "it says what to do: {log}");
    std::fs::remove_file(keys).expect("removed");
    std::fs::remove_file(file).expect("removed");
}

#[tokio::test]
async fn settings_that_would_cut_a_name_are_refused_with_the_way_out() {
    let shop = Shop::new().await;
    for (name, value, said) in [
        ("OPERATOR_VALUES", GROUP, "write a list: [\"CN=Sales,OU=Shop\"]"),
        ("ADMIN_VALUES", "CN=Sales, OU=Shop", "write a list: [\"CN=Sales,OU=Shop\"]"),
        ("OPERATOR_VALUES", "['a,b']", "a JSON array such as"),
        ("ROLE_CLAIM", "resource_access.\"my.client.roles", "a quote without its end"),
        ("ALGORITHMS", "RS256, HS256", "not \"HS256\""),
    ] {
        let mut start = program(&shop, &["serve"]);
        start.env("SECKILL_IDENTITY_ISSUER", ISSUER).env("SECKILL_IDENTITY_AUDIENCE", "shop");
        start.env(format!("SECKILL_IDENTITY_{name}"), value);
        let (code, output) = told(&start.output().await.expect("it runs"));
        assert_eq!((code, output.contains(said)), (2, true), "{name}={value}: {output}");
    }
}

/// A token of 200 groups with long names is read; one that is longer than the limit is refused by a sentence with it,
/// also as a bearer, where it is exchanged first.
#[tokio::test]
async fn tokens_with_many_groups_are_read_up_to_a_limit_that_is_named() {
    let key = TestKey::rsa("1");
    let keys = keys_of(&key);
    let (_shop, instance) = Shop::open_with(|config| {
        config.sections.set("identity", "issuer", ISSUER);
        config.sections.set("identity", "audience", "shop");
        config.sections.set("identity", "jwks_file", keys.to_string_lossy().into_owned());
        config.sections.set("identity", "role_claim", "groups");
        let last = "CN=Group 199,OU=Security Groups,OU=Berlin,DC=corp,DC=example,DC=com";
        config.sections.set("identity", "operator_values", toml::Value::from(vec![last]));
    })
    .await;
    let stranger = instance.stranger();
    let groups = |count: usize| -> Vec<String> {
        let name =
            |at| format!("CN=Group {at},OU=Security Groups,OU=Berlin,DC=corp,DC=example,DC=com");
        (0..count).map(name).collect()
    };
    let long = token(&key, json!({ "groups": groups(200) }));
    assert!(long.len() > 16 << 10, "{}", long.len());
    let session = stranger.post("/api/session", &json!({ "token": long })).await;
    session.assert_fields(200, json!({ "role": "operator" }));
    let too_long = token(&key, json!({ "groups": groups(350) }));
    let refused = stranger.post("/api/session", &json!({ "token": too_long })).await;
    assert_problem(&refused, (401, "identity_refused"), "too long");
    let detail = refused.json["detail"].as_str().expect("text");
    assert!(detail.contains("32768") && detail.contains("fewer groups"), "{detail}");
    let far_too_long = token(&key, json!({ "groups": groups(500) }));
    let refused = stranger.post("/api/session", &json!({ "token": far_too_long })).await;
    assert_problem(&refused, (413, "payload_too_large"), "far too long");
    // As a header it reaches us, in both versions of HTTP, and the answer says what to do with it.
    let bearer = instance.stranger().with_token(&long);
    let answer = bearer.get("/api/orders").await.expect_problem(401, "invalid_token");
    assert!(answer.text.contains("POST /api/session"), "{}", answer.text);
    std::fs::remove_file(keys).expect("removed");
}

/// A setting that differs from what the provider says is found in the log: the issuer without its slash, another audience,
/// an algorithm without a key.
#[tokio::test]
async fn the_log_says_what_did_not_fit() {
    let key = TestKey::ec("1");
    let keys = keys_of(&key);
    let shop = Shop::new().await;
    let mut serve = program(&shop, &["serve"]);
    serve.env("SECKILL_LOG_FILTER", "info").env("SECKILL_IDENTITY_ISSUER", ISSUER);
    serve.env("SECKILL_IDENTITY_AUDIENCE", "shop").env("SECKILL_IDENTITY_JWKS_FILE", &keys);
    let service = LoggedService::start(&mut serve).await;
    let tokens = [
        token(&key, json!({ "iss": format!("{ISSUER}/") })),
        token(&key, json!({ "aud": ["account", "realm-management"] })),
        token(&key, json!({ "aud": "shop", "events": {} })),
        token(&TestKey::rsa("1"), json!({})),
    ];
    for token in tokens {
        let refused = service.stranger.post("/api/session", &json!({ "token": token })).await;
        assert_problem(&refused, (401, "identity_refused"), "a token that does not fit");
    }
    let log = service.stop().await.replace('\\', "");
    for said in [
        "of the issuer \"https://id.example/\"; identity.issuer is \"https://id.example\"",
        "for [\"account\",\"realm-management\"], not for [\"shop\"]",
        "such as a logout",
        "signed by RS256; no key for that has the id \"1\"",
    ] {
        assert!(log.contains(said), "{said}: {log}");
    }
    std::fs::remove_file(keys).expect("removed");
}
