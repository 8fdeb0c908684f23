//! The list of attacks on tokens: each is refused, and the honest token beside it is not.

use super::*;
use crate::support::identity_keys::{sign_hmac, unsigned};
use crate::support::identity_provider::CLIENT_ID;

/// A token that must be refused, and what it tries.
type Attack = (String, String);

/// A token whose header differs from an honest one in these fields.
fn signed(key: &TestKey, header: Value, claims: &Value) -> String {
    key.sign(&changed(key.header(), header).to_string(), &claims.to_string())
}

fn without(mut claims: Value, name: &str) -> Value {
    claims.as_object_mut().expect("an object").remove(name);
    claims
}

/// Attacks on the signature and on the choice of its algorithm and key.
fn on_signatures(provider: &TestIdentityProvider) -> Vec<Attack> {
    let (rsa, ec, claims) = (provider.key(0), provider.key(1), provider.claims("victim"));
    let stranger = TestKey::ec("ec-1");
    let honest = ec.token(&claims);
    let mut attacks = Vec::new();
    let mut add = |what: &str, token: String| attacks.push((what.to_owned(), token));
    for none in ["none", "None", "NONE", "nOnE", ""] {
        for header in [json!({ "alg": none }), json!({ "alg": none, "kid": "rsa-1" })] {
            add("no signature", format!("{}.", unsigned(&header, &claims)));
        }
    }
    add("no algorithm", rsa.sign(&json!({ "kid": "rsa-1" }).to_string(), &claims.to_string()));
    for secret in rsa.public_bytes() {
        for algorithm in ["HS256", "HS384", "HS512"] {
            let header = json!({ "alg": algorithm, "kid": "rsa-1" });
            add("the public key as a shared secret", sign_hmac(&secret, &header, &claims));
        }
    }
    for (key, algorithm) in [(&rsa, "ES256"), (&rsa, "EdDSA"), (&ec, "RS256"), (&ec, "EdDSA")] {
        add("the key of another kind", signed(key, json!({ "alg": algorithm }), &claims));
    }
    for algorithm in ["RS512", "PS256", "RS384", "ES384"] {
        add("another algorithm of the key", signed(&rsa, json!({ "alg": algorithm }), &claims));
    }
    add("a stranger with the id of our key", stranger.token(&claims));
    add("a key in the token", signed(&stranger, json!({ "jwk": stranger.jwk() }), &claims));
    let addresses = json!({
        "kid": "theirs", "jku": "https://evil.example/keys", "x5u": "https://evil.example/cert",
    });
    add("an address of keys in the token", signed(&stranger, addresses, &claims));
    for id in ["../../../../dev/null", "ec-1' OR '1'='1", "", "EC-1", "ec-1\u{0}", &"k".repeat(300)]
    {
        add("an id that is no key's", signed(&ec, json!({ "kid": id }), &claims));
    }
    for id in [json!(7), json!(["ec-1"])] {
        add("an id that is no text", signed(&ec, json!({ "kid": id }), &claims));
    }
    let (message, signature) = honest.rsplit_once('.').expect("three parts");
    add("an empty signature", format!("{message}."));
    add("half a signature", format!("{message}.{}", &signature[..signature.len() / 2]));
    add("a signature of zeros", format!("{message}.{}", "A".repeat(86)));
    add("a signature in the form of certificates", ec.sign_asn1(&claims));
    let other = ec.token(&provider.claims("attacker"));
    let (_, others) = other.rsplit_once('.').expect("three parts");
    add("the signature of another token", format!("{message}.{others}"));
    attacks
}

/// Attacks with headers and forms.
fn on_form(provider: &TestIdentityProvider) -> Vec<Attack> {
    let (ec, claims) = (provider.key(1), provider.claims("victim"));
    let honest = ec.token(&claims);
    let mut attacks = Vec::new();
    let mut add = |what: &str, token: String| attacks.push((what.to_owned(), token));
    for crit in [json!(["exp"]), json!(["b64"]), json!(["unknown"]), json!([]), json!("exp")] {
        let header = json!({ "crit": crit, "b64": false });
        add("a header that must be understood", signed(&ec, header, &claims));
    }
    for kind in ["logout+jwt", "secevent+jwt", "dpop+jwt", "JOSE"] {
        add("a token of another type", signed(&ec, json!({ "typ": kind }), &claims));
    }
    for twice in [
        r#"{"alg":"ES256","alg":"none","kid":"ec-1"}"#,
        r#"{"alg":"none","alg":"ES256","kid":"ec-1"}"#,
        r#"{"alg":"ES256","kid":"ec-1","kid":"rsa-1"}"#,
    ] {
        add("a header that comes twice", ec.sign(twice, &claims.to_string()));
    }
    let text = claims.to_string();
    let twice = format!("{},\"sub\":\"admin\"}}", text.trim_end_matches('}'));
    add("a claim that comes twice", ec.sign(&ec.header().to_string(), &twice));
    add("claims that are a list", ec.sign(&ec.header().to_string(), "[]"));
    add("claims that are no JSON", ec.sign(&ec.header().to_string(), "sub=victim"));
    let long = changed(claims.clone(), json!({ "pad": "x".repeat(25_000) }));
    add("a token that is too long", ec.token(&long));
    for form in ["", ".", "..", "...", "a.b", "a.b.c", "a.b.c.d.e", "Bearer x", "\u{0}.\u{0}.\u{0}"]
    {
        add("no token at all", form.to_owned());
    }
    add("four parts", format!("{honest}.{honest}"));
    add("spaces around it", format!(" {honest} "));
    add("padding", honest.replace('.', "=."));
    attacks
}

/// Attacks with claims, honestly signed.
fn on_claims(provider: &TestIdentityProvider) -> Vec<Attack> {
    let (ec, claims) = (provider.key(1), provider.claims("victim"));
    let now = claims["iat"].as_i64().expect("a time");
    let wrong = [
        ("aud", json!("another-service")),
        ("aud", json!(["another-service", "a-third"])),
        ("aud", json!([])),
        ("aud", json!("")),
        ("aud", json!(CLIENT_ID.to_uppercase())),
        ("aud", json!({ CLIENT_ID: true })),
        ("iss", json!("https://evil.example")),
        ("iss", json!(format!("{}/", provider.issuer()))),
        ("iss", json!([provider.issuer(), "https://evil.example"])),
        ("iss", json!([provider.issuer()])),
        ("exp", json!(now - 120)),
        ("exp", json!(0)),
        ("exp", json!(-1)),
        ("exp", json!((now + 600).to_string())),
        ("exp", Value::Null),
        ("nbf", json!(now + 600)),
        ("nbf", json!((now + 600).to_string())),
        ("iat", json!(now + 600)),
        ("sub", json!("")),
        ("sub", json!(7)),
        ("sub", Value::Null),
        ("sub", json!("s".repeat(256))),
    ];
    let wrong = wrong.into_iter().map(|(name, value)| {
        let what = format!("{name} {}", value.to_string().chars().take(60).collect::<String>());
        (what, ec.token(&changed(claims.clone(), json!({ name: value }))))
    });
    let foreign = [
        // OpenID Connect Back-Channel Logout 1.0, section 2.4; the type of its header may be that of any token.
        ("events", json!({ "http://schemas.openid.net/event/backchannel-logout": {} })),
        ("events", json!({})),
        ("events", Value::Null),
        // RFC 7800, as DPoP (RFC 9449) and certificates (RFC 8705) use it.
        ("cnf", json!({ "jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" })),
        // The claim `typ` of Keycloak, and `token_use` of Amazon Cognito.
        ("typ", json!("Refresh")),
        ("typ", json!("Offline")),
        ("typ", json!("Logout")),
        ("token_use", json!("refresh")),
        ("token_use", Value::Null),
    ];
    let foreign = foreign.into_iter().map(|(name, value)| {
        let what = format!("a token for something else: {name} {value}");
        (what, ec.token(&changed(claims.clone(), json!({ name: value }))))
    });
    // The client takes the place of the audience in access tokens of Amazon Cognito alone.
    let client = changed(without(claims.clone(), "aud"), json!({ "client_id": CLIENT_ID }));
    let other = json!({ "token_use": "access", "client_id": "another" });
    let clients = [
        ("a client without a use", client.clone()),
        ("a client of an ID token", changed(client.clone(), json!({ "token_use": "id" }))),
        ("another client", changed(client, other)),
        ("a list with more than texts", changed(claims.clone(), json!({ "aud": [CLIENT_ID, 7] }))),
        ("Google's other name", changed(claims.clone(), json!({ "iss": "accounts.google.com" }))),
    ];
    let clients = clients.map(|(what, claims)| (what.to_owned(), ec.token(&claims)));
    let missing = ["aud", "iss", "exp", "sub"]
        .map(|name| (format!("no {name}"), ec.token(&without(claims.clone(), name))));
    wrong.chain(missing).chain(foreign).chain(clients).collect()
}

#[tokio::test]
async fn each_attack_on_a_token_is_refused() {
    let (provider, shop) = provider_and_shop().await;
    let instance = shop.start().await;
    let honest = provider.key(1).token(&provider.claims("victim"));
    let victim = user(&exchange(&instance, &honest).await);
    let all = [on_signatures(&provider), on_form(&provider), on_claims(&provider)].concat();
    assert!(all.len() > 80, "{}", all.len());
    for (what, token) in &all {
        let answer = exchange(&instance, token).await;
        let code = match answer.code() {
            "token_expired" => "token_expired",
            _ => "identity_refused",
        };
        assert_problem(&answer, (401, code), &format!("{what}: {token}"));
    }
    assert_eq!(user(&exchange(&instance, &honest).await), victim);
    assert_eq!(shop.number("SELECT COUNT(*) FROM subjects").await, 1, "an attack made a user");
    // Within the clocks' difference a token is good.
    let now = OffsetDateTime::now_utc().unix_timestamp();
    for (name, at) in [("exp", now - 30), ("nbf", now + 30), ("iat", now + 30)] {
        let token = provider.key(1).token(&changed(provider.claims("victim"), json!({ name: at })));
        assert_eq!(user(&exchange(&instance, &token).await), victim, "{name}");
    }
}
