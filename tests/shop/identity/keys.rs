//! Sets of keys in the forms that providers publish, and the algorithms of their keys.

use super::*;

const ISSUER: &str = "https://id.example";

/// A shop that trusts a file with these keys.
async fn shop_with(keys: Value) -> (Shop, Instance) {
    let path = std::env::temp_dir().join(unique("keys"));
    std::fs::write(&path, json!({ "keys": keys }).to_string()).expect("written");
    Shop::open_with(|config| {
        config.sections.set("identity", "issuer", ISSUER);
        config.sections.set("identity", "audience", "shop");
        config.sections.set("identity", "jwks_file", path.to_string_lossy().into_owned());
    })
    .await
}

fn without(mut key: Value, names: &[&str]) -> Value {
    for name in names {
        key.as_object_mut().expect("an object").remove(*name);
    }
    key
}

/// Signs a token by an algorithm; with the id of the key, or without one.
fn token(key: &TestKey, algorithm: &str, id: Option<&str>) -> String {
    let now = OffsetDateTime::now_utc().unix_timestamp();
    let claims = json!({ "iss": ISSUER, "aud": "shop", "sub": "1", "exp": now + 600 });
    let mut header = json!({ "alg": algorithm, "typ": "JWT" });
    if let Some(id) = id {
        header["kid"] = json!(id);
    }
    key.sign(&header.to_string(), &claims.to_string())
}

#[track_caller]
fn assert_refused(answer: &Answer, what: &str) {
    assert_problem(answer, (401, "identity_refused"), what);
}

/// keycloak#15616, inrupt/solid-client-authn-js#1799, latchset/jwcrypto#268, lestrrat-go/jwx#757: one id for several keys.
#[tokio::test]
async fn a_key_is_chosen_by_its_id_and_its_kind() {
    let rsa = TestKey::rsa("k");
    let curves = [TestKey::ec("k"), TestKey::ec("k")];
    let edwards = TestKey::ed("k");
    let mut encrypts = rsa.jwk();
    encrypts["use"] = json!("enc");
    encrypts["alg"] = json!("RSA-OAEP");
    let keys = json!([encrypts, curves[0].jwk(), rsa.jwk(), curves[1].jwk(), edwards.jwk()]);
    let (_shop, instance) = shop_with(keys).await;
    for key in [&rsa, &curves[0], &curves[1], &edwards] {
        for id in [Some("k"), None] {
            user(&exchange(&instance, &token(key, key.algorithm(), id)).await);
        }
    }
    let forged = exchange(&instance, &token(&TestKey::ec("k"), "ES256", Some("k"))).await;
    assert_refused(&forged, "a stranger with our id");
    let unknown = exchange(&instance, &token(&rsa, "RS256", Some("other"))).await;
    assert_refused(&unknown, "an id of no key");
}

/// Keys of Entra ID have no `alg`; RFC 7517 makes `alg`, `use` and `kid` optional, and lets a set have what nobody here
/// knows.
#[tokio::test]
async fn keys_may_lack_what_is_optional_and_sets_may_have_more() {
    let rsa = TestKey::rsa("1");
    let curve = TestKey::ec384("2");
    let keys = json!([
        7,
        { "kty": "AKP", "alg": "ML-DSA-65", "kid": "pq", "pub": "AQ" },
        { "kty": "EC", "crv": "secp256k1", "kid": "k1", "x": "AQ", "y": "AQ" },
        // Without `n` and `e`, which RFC 7518, section 6.3.1, asks for.
        { "kty": "RSA", "kid": "certificate", "use": "sig", "x5c": ["MIIC"] },
        without(rsa.jwk(), &["alg", "use", "kid"]),
        without(curve.jwk(), &["alg", "use", "kid"]),
    ]);
    let (_shop, instance) = shop_with(keys).await;
    for algorithm in ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512"] {
        let answer = exchange(&instance, &token(&rsa, algorithm, None)).await;
        assert_eq!(answer.status, 200, "{algorithm}: {}", answer.text);
    }
    user(&exchange(&instance, &token(&curve, "ES384", None)).await);
    let mixed = exchange(&instance, &token(&curve, "ES256", None)).await;
    assert_refused(&mixed, "the algorithm of another curve");
    let named = exchange(&instance, &token(&rsa, "RS256", Some("1"))).await;
    assert_refused(&named, "an id where the set has none");
}
