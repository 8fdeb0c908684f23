//! The tokens that big providers send, each in the shape that its documents show, signed by a key of these tests.

use toml::Value as Setting;

use super::*;

/// The id of the key that signs.
const KEY: &str = "1LTMzakihiRla_8z2BEJVXeWMqo";
/// Our id at each provider, or that of our API.
const OURS: &str = "6e74172b-be56-4843-9ff4-e66a39bb12e3";

/// What a provider publishes, and the settings that its documents lead to.
#[derive(Default)]
struct Documented {
    issuer: &'static str,
    audience: &'static str,
    role_claim: &'static str,
    operators: &'static [&'static str],
    /// Fields of its keys that ours have, and its have not.
    keys_without: &'static [&'static str],
    /// What its set has before the key that signs.
    further_keys: Vec<Value>,
    tokens: Vec<Sent>,
}

/// A token: what it is, its header without the id of the key, its claims, and the role and the name of its user.
struct Sent {
    what: &'static str,
    header: Value,
    claims: Value,
    role: &'static str,
    name: &'static str,
}

fn now() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

/// A token of the usual type.
fn sent(what: &'static str, claims: Value, role: &'static str, name: &'static str) -> Sent {
    Sent { what, header: json!({ "alg": "RS256", "typ": "JWT" }), claims, role, name }
}

/// A token without a type in its header.
fn untyped(what: &'static str, claims: Value, role: &'static str, name: &'static str) -> Sent {
    Sent { header: json!({ "alg": "RS256" }), ..sent(what, claims, role, name) }
}

/// A shop with the settings that the documents lead to takes each token, as the same user if the subject is.
async fn assert_taken(documented: Documented) {
    let key = TestKey::rsa(KEY);
    let mut jwk = key.jwk();
    let fields = jwk.as_object_mut().expect("an object");
    for name in documented.keys_without {
        fields.remove(*name);
    }
    let keys = [documented.further_keys, vec![jwk]].concat();
    let path = std::env::temp_dir().join(unique("keys"));
    std::fs::write(&path, json!({ "keys": keys }).to_string()).expect("written");
    let operators = documented.operators.iter().map(|it| Setting::from(*it)).collect::<Vec<_>>();
    let (_shop, instance) = Shop::open_with(|config| {
        let settings = [
            ("issuer", Setting::from(documented.issuer)),
            ("audience", Setting::from(documented.audience)),
            ("role_claim", Setting::from(documented.role_claim)),
            ("operator_values", Setting::from(operators)),
            ("jwks_file", Setting::from(path.to_string_lossy().into_owned())),
        ];
        for (name, value) in settings {
            config.sections.set("identity", name, value);
        }
    })
    .await;
    for Sent { what, mut header, claims, role, name } in documented.tokens {
        header["kid"] = json!(KEY);
        // With those that all providers send.
        let claims = changed(json!({ "iat": now(), "exp": now() + 3_600 }), claims);
        let token = key.sign(&header.to_string(), &claims.to_string());
        let session = exchange(&instance, &token).await;
        assert_eq!(session.status, 200, "{what}: {}", session.text);
        assert_eq!(session.json["role"], role, "{what}");
        let client = instance.signed_in(&session);
        let seen = client.get("/api/session").await.json;
        assert_eq!(seen["username"], name, "{what}");
        assert_eq!(seen["user_id"], user(&session), "{what}");
    }
    std::fs::remove_file(path).expect("removed");
}

/// <https://learn.microsoft.com/entra/identity-platform/access-token-claims-reference>,
/// <https://learn.microsoft.com/entra/identity-platform/id-token-claims-reference>; the keys name no algorithm
/// (<https://login.microsoftonline.com/common/discovery/v2.0/keys>).
#[tokio::test]
async fn entra_id() {
    let issuer = "https://login.microsoftonline.com/bbbbcccc-1111-dddd-2222-eeee3333ffff/v2.0";
    let header = || json!({ "typ": "JWT", "alg": "RS256", "x5t": KEY });
    let claims = |more: Value| {
        let claims = json!({
            "aud": OURS, "iss": issuer, "nbf": now(), "aio": "AXQAi/8IAAAA", "azp": OURS, "azpacr": "0",
            "name": "Ada Lovelace", "oid": "aaaaaaaa-0000-1111-2222-bbbbbbbbbbbb",
            "preferred_username": "ada@contoso.com", "rh": "I", "scp": "access_as_user User.Read",
            "sub": "HKZpfaHyWadeOouYlitjrI-KffTm222X5rrV3xDqfKQ",
            "tid": "bbbbcccc-1111-dddd-2222-eeee3333ffff", "uti": "fqiBqXLPj0eQa82S-IYFAA", "ver": "2.0",
        });
        changed(claims, more)
    };
    let ids = |count: usize| -> Vec<String> {
        (0..count).map(|at| format!("0760b6cf-170e-4a14-91b3-{at:012x}")).collect()
    };
    let sent = |what, more, role| {
        let name = "ada@contoso.com";
        Sent { what, header: header(), claims: claims(more), role, name }
    };
    // Of 201 groups none is in the token: "groups overage claim".
    let overage = json!({
        "_claim_names": { "groups": "src1" },
        "_claim_sources": { "src1": {
            "endpoint": "https://graph.windows.net/bbbbcccc/users/aaaaaaaa/getMemberObjects",
        } },
    });
    assert_taken(Documented {
        issuer,
        audience: "api://shop, 6e74172b-be56-4843-9ff4-e66a39bb12e3",
        role_claim: "groups",
        operators: &["0760b6cf-170e-4a14-91b3-000000000095"],
        keys_without: &["alg"],
        further_keys: vec![json!({ "kty": "RSA", "use": "sig", "kid": "older", "n": "AQAB", "e": "AQAB", "x5c": ["MIIC"] })],
        tokens: vec![
            sent("an access token", json!({}), "buyer"),
            sent("an ID token", json!({ "nonce": "12345", "azp": null, "scp": null }), "buyer"),
            sent("150 groups", json!({ "groups": ids(150) }), "operator"),
            sent("200 groups", json!({ "groups": ids(200) }), "operator"),
            sent("more than 200 groups", overage, "buyer"),
            sent("groups of a browser's token", json!({ "hasgroups": true }), "buyer"),
        ],
    })
    .await;
}

/// <https://www.keycloak.org/docs/latest/server_admin/#_protocol-mappers>; one id may be that of a key to encrypt, too
/// (opensearch-project/security#4618), and the name of a client may have dots (keycloak PR 5808).
#[tokio::test]
async fn keycloak() {
    let issuer = "https://id.example/realms/shop";
    let encrypts = json!({ "kty": "RSA", "kid": KEY, "alg": "RSA-OAEP", "use": "enc", "n": "AQAB", "e": "AQAB" });
    let claims = |kind: &str, audience: Value| {
        json!({
            "auth_time": now(), "jti": "onrtac:25c0e8ce", "iss": issuer, "aud": audience,
            "sub": "a51c1b1e-4f3c-4ac5-8a5b-2b9f3d1a7c11", "typ": kind, "azp": "pages.shop.example",
            "sid": "6dd6c2b5", "acr": "1", "allowed-origins": ["https://shop.example"],
            "realm_access": { "roles": ["offline_access", "uma_authorization"] },
            "resource_access": {
                "shop.example": { "roles": ["seller"] },
                "account": { "roles": ["manage-account", "view-profile"] },
            },
            "scope": "openid profile email", "email_verified": true, "name": "Ada Lovelace",
            "preferred_username": "ada", "email": "ada@example.com",
        })
    };
    let access = claims("Bearer", json!(["shop.example", "account"]));
    assert_taken(Documented {
        issuer,
        audience: "shop.example",
        role_claim: r#"resource_access."shop.example".roles"#,
        operators: &["seller"],
        further_keys: vec![encrypts],
        tokens: vec![
            sent("an access token", access, "operator", "ada"),
            sent("an ID token", claims("ID", json!("shop.example")), "operator", "ada"),
        ],
        ..Documented::default()
    })
    .await;
}

/// <https://auth0.com/docs/secure/tokens/access-tokens/access-token-profiles>: the issuer ends with a slash, and one of
/// two profiles has the type of RFC 9068.
#[tokio::test]
async fn auth0() {
    let issuer = "https://example.eu.auth0.com/";
    let claims = |more: Value| {
        let claims = json!({
            "iss": issuer, "sub": "auth0|6123456789abcdef01234567",
            "aud": ["https://shop.example/api", "https://example.eu.auth0.com/userinfo"],
            "scope": "openid profile email", "permissions": ["sell:items", "read:items"],
            "https://shop.example/name": "not read",
        });
        changed(claims, more)
    };
    let profiled = claims(json!({ "azp": "my_client_id" }));
    let standard = claims(json!({ "client_id": "my_client_id", "jti": "73WakrfVbNJBaAmhQtEeDv" }));
    let id = json!({
        "iss": issuer, "sub": "auth0|id-token", "aud": "my_client_id", "nickname": "ada",
        "picture": "https://example.com/a.png", "updated_at": "2026-11-29T00:00:00.000Z",
        "email": "ada@example.com", "email_verified": false, "sid": "abc", "nonce": "12345",
    });
    assert_taken(Documented {
        issuer,
        audience: "https://shop.example/api, my_client_id",
        role_claim: "permissions",
        operators: &["sell:items"],
        tokens: vec![
            sent("an access token of Auth0's profile", profiled, "operator", "user"),
            Sent {
                header: json!({ "alg": "RS256", "typ": "at+jwt" }),
                ..sent("an access token of RFC 9068", standard, "operator", "user")
            },
            sent("an ID token", id, "buyer", "ada"),
        ],
        ..Documented::default()
    })
    .await;
}

/// <https://docs.aws.amazon.com/cognito/latest/developerguide/amazon-cognito-user-pools-using-the-access-token.html> and
/// `...-using-the-id-token.html`: an access token names the client in place of an audience; no type is in a header.
#[tokio::test]
async fn amazon_cognito() {
    let issuer = "https://cognito-idp.us-west-2.amazonaws.com/us-west-2_EXAMPLE";
    let client = "55ucsb1234567890abcdefgh";
    let access = json!({
        "sub": "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee", "cognito:groups": ["sellers"], "iss": issuer, "version": 2,
        "client_id": client, "origin_jti": "aaaa", "event_id": "bbbb", "token_use": "access",
        "scope": "aws.cognito.signin.user.admin", "auth_time": now(), "jti": "cccc", "username": "ada",
    });
    let id = json!({
        "sub": "aaaaaaaa-bbbb-cccc-dddd-ffffffffffff", "cognito:groups": ["sellers"], "email_verified": "true",
        "cognito:preferred_role": "arn:aws:iam::111122223333:role/my-test-role", "iss": issuer,
        "cognito:username": "ada", "given_name": "Ada", "nonce": "abcdefg", "origin_jti": "aaaa", "aud": client,
        "identities": [{ "userId": "amzn1.account.EXAMPLE", "providerName": "LoginWithAmazon" }],
        "event_id": "bbbb", "token_use": "id", "auth_time": now(), "jti": "cccc", "email": "ada@example.com",
    });
    assert_taken(Documented {
        issuer,
        audience: client,
        role_claim: "cognito:groups",
        operators: &["sellers"],
        // It has a key for each kind of token.
        further_keys: vec![json!({ "kty": "RSA", "use": "sig", "alg": "RS256", "kid": "other", "n": "AQAB", "e": "AQAB" })],
        tokens: vec![
            untyped("an access token", access, "operator", "ada"),
            untyped("an ID token", id, "operator", "ada"),
        ],
        ..Documented::default()
    })
    .await;
}

/// <https://developers.google.com/identity/openid-connect/openid-connect#an-id-tokens-payload>: the issuer has two forms.
#[tokio::test]
async fn google() {
    let client = "1234987819200.apps.googleusercontent.com";
    let of_issuer = |what, issuer: &str| {
        let claims = json!({
            "iss": issuer, "azp": client, "aud": client, "sub": "10769150350006150715113082367",
            "at_hash": "HK6E_P6Dh8Y93mRNtsDB1Q", "hd": "shop.example", "email": "ada@shop.example",
            "email_verified": true, "nonce": "0394852-3190485-2490358", "name": "Ada Lovelace",
        });
        sent(what, claims, "operator", "Ada Lovelace")
    };
    assert_taken(Documented {
        issuer: "https://accounts.google.com",
        audience: client,
        role_claim: "hd",
        operators: &["shop.example"],
        tokens: vec![
            of_issuer("an ID token", "https://accounts.google.com"),
            of_issuer("an ID token with the short issuer", "accounts.google.com"),
        ],
        ..Documented::default()
    })
    .await;
}

/// <https://developer.okta.com/docs/api/openapi/okta-oauth/guides/overview/>: scopes are an array, and groups have names
/// with spaces.
#[tokio::test]
async fn okta() {
    let issuer = "https://example.okta.com/oauth2/default";
    let access = json!({
        "ver": 1, "jti": "AT.0mP4JKAZX1iACIT4vbEDF7LpvDVjxypPMf0D7uX39RE", "iss": issuer, "aud": "api://default",
        "cid": "nmdP1fcyvdVO11AL7ECm", "uid": "00ugrenMeqvZla04W0g3", "scp": ["openid", "email"],
        "auth_time": now(), "sub": "ada@example.com", "groups": ["Everyone", "Shop Operators"],
    });
    let id = json!({
        "ver": 1, "jti": "ID.4eAWJOCMB3SX8XewDfVR", "iss": issuer, "aud": "nmdP1fcyvdVO11AL7ECm", "amr": ["mfa", "pwd"],
        "idp": "00ok1u7AsAkrwdZL3z0g3", "auth_time": now(), "at_hash": "cpqKfdQA5eH891Ff5oJr_Q", "name": "Ada Lovelace",
        "preferred_username": "ada@example.com", "sub": "00ugrenMeqvZla04W0g3", "groups": ["Everyone"],
    });
    assert_taken(Documented {
        issuer,
        audience: "api://default,nmdP1fcyvdVO11AL7ECm",
        role_claim: "groups",
        operators: &["Shop Operators"],
        tokens: vec![
            untyped("an access token", access, "operator", "user"),
            untyped("an ID token", id, "buyer", "ada@example.com"),
        ],
        ..Documented::default()
    })
    .await;
}

/// <https://developer.apple.com/documentation/signinwithapple/authenticating-users-with-sign-in-with-apple>: true and
/// false may be texts.
#[tokio::test]
async fn apple() {
    let claims = json!({
        "iss": "https://appleid.apple.com", "aud": "com.example.shop", "sub": "001234.a1b2c3.1234", "nonce_supported": true,
        "email": "ada@privaterelay.appleid.com", "email_verified": "true", "is_private_email": "true",
        "real_user_status": 2, "auth_time": now(),
    });
    assert_taken(Documented {
        issuer: "https://appleid.apple.com",
        audience: "com.example.shop",
        tokens: vec![untyped("an ID token", claims, "buyer", "user")],
        ..Documented::default()
    })
    .await;
}
