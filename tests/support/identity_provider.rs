//! A small OpenID provider: discovery, keys, a page of sign-in, and codes that are good once. It
//! checks what a provider has to check, and can misbehave.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use axum::body::Bytes;
use axum::extract::{Query, State};
use axum::http::{HeaderMap, StatusCode};
use axum::response::{Html, IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD as BASE64};
use seckill::config::Config;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use web::listen_address::ListenAddress;

use crate::support::identity_keys::TestKey;

pub const CLIENT_ID: &str = "seckill-test";
const CLIENT_SECRET: &str = "a secret: with signs & spaces";

pub type Parameters = HashMap<String, String>;

/// What a code stands for.
#[derive(Clone)]
struct Grant {
    asked: Parameters,
    subject: String,
}

struct Shared {
    issuer: String,
    keys: Mutex<Vec<Arc<TestKey>>>,
    grants: Mutex<HashMap<String, Grant>>,
    /// Claims that replace those of honest ID tokens.
    changes: Mutex<Value>,
    reads_of_keys: AtomicU64,
    away: AtomicBool,
    /// Whether it takes the secret of a client in the form alone, as Apple does.
    secret_in_form: AtomicBool,
}

/// The provider.
pub struct TestIdentityProvider {
    shared: Arc<Shared>,
    _task: tokio_util::task::AbortOnDropHandle<()>,
}

impl TestIdentityProvider {
    /// Listens on a free port of this machine, with these keys; the first one signs ID tokens.
    pub async fn start(keys: Vec<TestKey>) -> Self {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let addr = listener.local_addr().expect("an address");
        let shared = Arc::new(Shared {
            issuer: format!("http://{addr}"),
            keys: Mutex::new(keys.into_iter().map(Arc::new).collect()),
            grants: Mutex::default(),
            changes: Mutex::new(json!({})),
            reads_of_keys: AtomicU64::new(0),
            away: AtomicBool::new(false),
            secret_in_form: AtomicBool::new(false),
        });
        let router = Router::new()
            .route("/.well-known/openid-configuration", get(discovery))
            .route("/keys", get(keys_document))
            .route("/authorize", get(authorize))
            .route("/login", post(login))
            .route("/token", post(token))
            .with_state(Arc::clone(&shared));
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { shared, _task: tokio_util::task::AbortOnDropHandle::new(task) }
    }

    pub fn issuer(&self) -> &str {
        &self.shared.issuer
    }

    /// The settings of a shop that trusts this provider, for browsers at `addr`.
    pub fn configure(&self, config: &mut Config) {
        config.sections.set("identity", "issuer", self.shared.issuer.clone());
        config.sections.set("identity", "name", "Example ID");
        config.sections.set("identity", "client_id", CLIENT_ID);
        config.sections.set("identity", "client_secret", CLIENT_SECRET);
        config.sections.set("identity", "private_networks", "127.0.0.1");
        config.sections.set("identity", "role_claim", "realm.roles");
        config.sections.set("identity", "operator_values", "sales, shop-operators");
        config.sections.set("identity", "admin_values", "chiefs");
        // Where browsers come back to: `serve_at` says it once the address is known.
        config.sections.set("identity", "redirect_url", "http://127.0.0.1:1/api/session/callback");
    }

    /// The claims of an honest token for `subject`, good for an hour.
    pub fn claims(&self, subject: &str) -> Value {
        let now = time::OffsetDateTime::now_utc().unix_timestamp();
        json!({
            "iss": self.shared.issuer, "aud": CLIENT_ID, "sub": subject,
            "iat": now, "exp": now + 3_600,
        })
    }

    /// Replaces claims of the ID tokens that follow; `null` removes one.
    pub fn change_claims(&self, changes: Value) {
        *self.shared.changes.lock().expect("no panic") = changes;
    }

    /// Replaces the published keys.
    pub fn rotate(&self, keys: Vec<TestKey>) {
        *self.shared.keys.lock().expect("no panic") = keys.into_iter().map(Arc::new).collect();
    }

    pub fn key(&self, at: usize) -> Arc<TestKey> {
        Arc::clone(&self.shared.keys.lock().expect("no panic")[at])
    }

    pub fn reads_of_keys(&self) -> u64 {
        self.shared.reads_of_keys.load(Ordering::SeqCst)
    }

    /// Takes the secret of a client in the form alone from now on.
    pub fn take_secret_in_form(&self) {
        self.shared.secret_in_form.store(true, Ordering::SeqCst);
    }

    /// Whether discovery and keys are answered with an error from now on.
    pub fn be_away(&self, away: bool) {
        self.shared.away.store(away, Ordering::SeqCst);
    }
}

/// A free address for a service whose address a provider has to know before.
pub fn serve_at(config: &mut Config) -> SocketAddr {
    let addr: SocketAddr = crate::process::program::free_addr().parse().expect("an address");
    config.http.addr = ListenAddress::Tcp(addr);
    config.sections.set("identity", "redirect_url", format!("http://{addr}/api/session/callback"));
    addr
}

async fn discovery(State(shared): State<Arc<Shared>>) -> Response {
    if shared.away.load(Ordering::SeqCst) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let issuer = &shared.issuer;
    let in_form = shared.secret_in_form.load(Ordering::SeqCst);
    let method = if in_form { "client_secret_post" } else { "client_secret_basic" };
    Json(json!({
        "token_endpoint_auth_methods_supported": [method, "private_key_jwt"],
        "issuer": issuer,
        "authorization_endpoint": format!("{issuer}/authorize"),
        "token_endpoint": format!("{issuer}/token"),
        "jwks_uri": format!("{issuer}/keys"),
        "response_types_supported": ["code"],
        "subject_types_supported": ["public"],
        "id_token_signing_alg_values_supported": ["RS256", "ES256", "EdDSA"],
        "code_challenge_methods_supported": ["S256"],
        "authorization_response_iss_parameter_supported": true,
    }))
    .into_response()
}

async fn keys_document(State(shared): State<Arc<Shared>>) -> Response {
    shared.reads_of_keys.fetch_add(1, Ordering::SeqCst);
    if shared.away.load(Ordering::SeqCst) {
        return StatusCode::BAD_GATEWAY.into_response();
    }
    let keys = shared.keys.lock().expect("no panic");
    Json(json!({ "keys": keys.iter().map(|key| key.jwk()).collect::<Vec<_>>() })).into_response()
}

/// The page of sign-in. A request that lacks what OpenID Connect asks for is refused.
async fn authorize(Query(asked): Query<Parameters>) -> Response {
    let has = |name: &str, value: &str| asked.get(name).is_some_and(|it| it == value);
    let long = |name: &str| asked.get(name).is_some_and(|it| it.len() >= 43);
    let scopes = asked.get("scope").map(String::as_str).unwrap_or_default();
    let fine = has("response_type", "code")
        && has("client_id", CLIENT_ID)
        && has("code_challenge_method", "S256")
        && scopes.split(' ').any(|scope| scope == "openid")
        && asked.get("redirect_uri").is_some_and(|it| it.ends_with("/api/session/callback"))
        && ["state", "nonce", "code_challenge"].into_iter().all(long);
    if !fine {
        return (StatusCode::BAD_REQUEST, "a wrong request").into_response();
    }
    let hidden: String = asked
        .iter()
        .map(|(name, value)| format!("<input type=\"hidden\" name=\"{name}\" value=\"{value}\">"))
        .collect();
    Html(format!(
        "<!doctype html><html lang=\"en\"><title>Example ID</title><h1>Example ID</h1>\
         <form method=\"post\" action=\"/login\">{hidden}\
         <label>Name <input id=\"who\" name=\"who\"></label><button id=\"in\">Sign in</button></form>"
    ))
    .into_response()
}

/// The fields of a form.
pub fn form_of(body: &[u8]) -> Parameters {
    form_urlencoded::parse(body).into_owned().collect()
}

async fn login(State(shared): State<Arc<Shared>>, body: Bytes) -> Redirect {
    let form = form_of(&body);
    let code = BASE64.encode(rand::random::<[u8; 24]>());
    let subject = form.get("who").cloned().unwrap_or_default();
    let (back, state) = (form["redirect_uri"].clone(), form["state"].clone());
    let mut query = form_urlencoded::Serializer::new(String::new());
    if subject == "nobody" {
        query.append_pair("error", "access_denied");
    } else {
        query.append_pair("code", &code);
        let grant = Grant { asked: form, subject };
        shared.grants.lock().expect("no panic").insert(code, grant);
    }
    query.append_pair("state", &state);
    query.append_pair("iss", &shared.issuer);
    Redirect::to(&format!("{back}?{}", query.finish()))
}

async fn token(State(shared): State<Arc<Shared>>, headers: HeaderMap, body: Bytes) -> Response {
    let form = form_of(&body);
    let refuse = |error: &str| (StatusCode::BAD_REQUEST, Json(json!({ "error": error })));
    let encode = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let pair = format!("{}:{}", encode(CLIENT_ID), encode(CLIENT_SECRET));
    let basic = format!("Basic {}", BASE64_STANDARD.encode(pair));
    let by_header = headers.get("authorization").is_some_and(|it| it == basic.as_str());
    let has = |name: &str, value: &str| form.get(name).is_some_and(|it| it == value);
    let by_form = has("client_id", CLIENT_ID) && has("client_secret", CLIENT_SECRET);
    let is_known = if shared.secret_in_form.load(Ordering::SeqCst) {
        by_form && !headers.contains_key("authorization")
    } else {
        by_header && !form.contains_key("client_secret")
    };
    if !is_known {
        return (StatusCode::UNAUTHORIZED, Json(json!({ "error": "invalid_client" })))
            .into_response();
    }
    let code = form.get("code").cloned().unwrap_or_default();
    // Taken out: a code is good once.
    let grant = shared.grants.lock().expect("no panic").remove(&code);
    let Some(Grant { asked, subject }) = grant else {
        return refuse("invalid_grant").into_response();
    };
    let verifier = form.get("code_verifier").cloned().unwrap_or_default();
    if BASE64.encode(Sha256::digest(verifier)) != asked["code_challenge"]
        || form.get("redirect_uri") != asked.get("redirect_uri")
        || form.get("grant_type").is_none_or(|it| it != "authorization_code")
    {
        return refuse("invalid_grant").into_response();
    }
    let now = time::OffsetDateTime::now_utc().unix_timestamp();
    let mut claims = json!({
        "iss": shared.issuer, "aud": CLIENT_ID, "sub": subject, "nonce": asked["nonce"],
        "iat": now, "exp": now + 300, "preferred_username": subject,
    });
    let changes = shared.changes.lock().expect("no panic").clone();
    let (Value::Object(all), Value::Object(changes)) = (&mut claims, changes) else {
        panic!("claims are objects");
    };
    for (name, value) in changes {
        if value.is_null() {
            all.remove(&name);
        } else {
            all.insert(name, value);
        }
    }
    let key = Arc::clone(&shared.keys.lock().expect("no panic")[0]);
    Json(
        json!({ "token_type": "Bearer", "access_token": "opaque", "id_token": key.token(&claims) }),
    )
    .into_response()
}
