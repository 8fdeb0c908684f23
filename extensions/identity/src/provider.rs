//! Requests to the identity provider: its discovery document, its keys, and codes for tokens.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::header::{AUTHORIZATION, CONTENT_TYPE};
use hyper::{Method, Request, StatusCode};
use outgoing_https::{HttpsClient, Target};
use serde::Deserialize;
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::problems::{refused, unavailable};
use crate::settings::Identity as Settings;
use extension::ports::IDENTITY_TOKEN_BYTES_MAX;
use web::problem::Problem;

/// The largest set of keys, in bytes.
pub(crate) const KEYS_BYTES_MAX: usize = 256 << 10;
/// The largest answer besides the set of keys, in bytes: it may have an ID token, an access token and a refresh token.
const ANSWER_BYTES_MAX: usize = 4 * IDENTITY_TOKEN_BYTES_MAX;
/// Discovery documents and codes that are asked for at once. Any number of strangers may sign in while the provider is
/// silent, and each request has a connection.
const REQUESTS_MAX: usize = 64;
/// How long a discovery document is used.
const DISCOVERY_AGE_MAX: Duration = Duration::from_secs(3_600);

/// The addresses of the provider.
#[derive(Clone, Debug)]
pub(crate) struct Endpoints {
    pub authorization: String,
    token: Target,
    keys: Target,
    /// The secret goes into the form, since the provider takes it nowhere else, as Apple.
    takes_secret_in_form: bool,
}

/// The provider.
pub(crate) struct Provider {
    client: HttpsClient,
    issuer: String,
    jwks_url: Option<Target>,
    discovered: RwLock<Option<(Arc<Endpoints>, Instant)>>,
    /// The turns of [`REQUESTS_MAX`].
    turns: Semaphore,
}

#[derive(Deserialize)]
struct Discovery {
    issuer: String,
    authorization_endpoint: String,
    token_endpoint: String,
    jwks_uri: String,
    /// Without it: `client_secret_basic` (OpenID Connect Discovery, section 3).
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct TokenAnswer {
    id_token: String,
}

impl Provider {
    /// Makes a client of the provider; `jwks_url` is empty if its discovery document names it.
    pub(crate) fn new(client: HttpsClient, issuer: &str, jwks_url: &str) -> Result<Self, String> {
        let unusable = |name: &str, why: &str| format!("identity.{name} cannot be used: {why}");
        Target::parse(issuer).map_err(|why| unusable("issuer", why))?;
        let jwks_url = match jwks_url {
            "" => None,
            url => Some(Target::parse(url).map_err(|why| unusable("jwks_url", why))?),
        };
        let discovered = RwLock::new(None);
        let turns = Semaphore::new(REQUESTS_MAX);
        Ok(Self { client, issuer: issuer.to_owned(), jwks_url, discovered, turns })
    }

    /// The set of keys, as text.
    pub(crate) async fn keys(&self) -> Result<Bytes, String> {
        let target = match &self.jwks_url {
            Some(target) => target.clone(),
            None => self.endpoints().await?.keys.clone(),
        };
        self.get(&target, KEYS_BYTES_MAX).await
    }

    /// The addresses of the provider, from its discovery document.
    pub(crate) async fn endpoints(&self) -> Result<Arc<Endpoints>, String> {
        if let Some(known) = self.known(DISCOVERY_AGE_MAX) {
            return Ok(known);
        }
        match self.discover().await {
            Ok(found) => {
                let found = Arc::new(found);
                let mut known = self.discovered.write().unwrap_or_else(PoisonError::into_inner);
                *known = Some((Arc::clone(&found), Instant::now()));
                Ok(found)
            }
            // Addresses seldom change: those of yesterday are worth a try.
            Err(why) => self.known(Duration::MAX).ok_or(why),
        }
    }

    fn known(&self, age_max: Duration) -> Option<Arc<Endpoints>> {
        let known = self.discovered.read().unwrap_or_else(PoisonError::into_inner);
        let (endpoints, read_at) = known.as_ref()?;
        (read_at.elapsed() <= age_max).then(|| Arc::clone(endpoints))
    }

    async fn discover(&self) -> Result<Endpoints, String> {
        let base = self.issuer.trim_end_matches('/');
        let target = Target::parse(&format!("{base}/.well-known/openid-configuration"))?;
        let turn = self.turn().await?;
        let text = self.get(&target, ANSWER_BYTES_MAX).await?;
        drop(turn);
        let found: Discovery = serde_json::from_slice(&text)
            .map_err(|error| format!("no discovery document: {error}"))?;
        if found.issuer != self.issuer {
            let Discovery { issuer, .. } = found;
            return Err(format!(
                "the discovery document is of the issuer {issuer:?}; write identity.issuer exactly so, if it is yours"
            ));
        }
        let parse = |url: &str| {
            let parsed = Target::parse(url).map_err(|why| format!("{url:?}: {why}"))?;
            // What an encrypted document names is encrypted, too.
            if target.tls && !parsed.tls {
                return Err(format!("{url:?} is not encrypted"));
            }
            Ok(parsed)
        };
        parse(&found.authorization_endpoint)?;
        let methods = found.token_endpoint_auth_methods_supported.unwrap_or_default();
        let takes = |method: &str| methods.iter().any(|it| it == method);
        Ok(Endpoints {
            token: parse(&found.token_endpoint)?,
            keys: parse(&found.jwks_uri)?,
            authorization: found.authorization_endpoint,
            takes_secret_in_form: takes("client_secret_post") && !takes("client_secret_basic"),
        })
    }

    /// Exchanges the code of a sign-in, and returns the ID token.
    pub(crate) async fn exchange(
        &self,
        code: &str,
        verifier: &str,
        settings: &Settings,
    ) -> Result<String, Problem> {
        let failed = |why: String| {
            tracing::warn!(%why, "code of a sign-in not exchanged");
            unavailable()
        };
        let endpoints = self.endpoints().await.map_err(failed)?;
        let Settings { client_id, client_secret, redirect_url, .. } = settings;
        let mut pairs = vec![
            ("grant_type", "authorization_code"),
            ("code", code),
            ("redirect_uri", redirect_url),
            ("code_verifier", verifier),
        ];
        let mut request = Request::builder()
            .method(Method::POST)
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if client_secret.is_empty() {
            pairs.push(("client_id", client_id));
        } else if endpoints.takes_secret_in_form {
            pairs.push(("client_id", client_id));
            pairs.push(("client_secret", client_secret.reveal()));
        } else {
            let encode =
                |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
            let pair = format!("{}:{}", encode(client_id), encode(client_secret.reveal()));
            request = request.header(AUTHORIZATION, format!("Basic {}", BASE64.encode(pair)));
        }
        let form = form_urlencoded::Serializer::new(String::new()).extend_pairs(pairs).finish();
        let request = request.body(Full::new(Bytes::from(form)));
        let request = request.map_err(|error| failed(error.to_string()))?;
        let _turn = self.turn().await.map_err(failed)?;
        let answer = self.client.fetch(&endpoints.token, request, ANSWER_BYTES_MAX).await;
        let (status, body) = answer.map_err(failed)?;
        match status.as_u16() {
            200 => serde_json::from_slice::<TokenAnswer>(&body)
                .map(|answer| answer.id_token)
                .map_err(|_| failed("no ID token in the answer".to_owned())),
            400..=499 => Err(refused(&format!("answered {status}"))),
            _ => Err(failed(format!("answered {status}"))),
        }
    }

    /// Waits for one of the turns, as long as for an answer.
    async fn turn(&self) -> Result<SemaphorePermit<'_>, String> {
        let turn = tokio::time::timeout(self.client.timeout, self.turns.acquire()).await;
        turn.ok().and_then(Result::ok).ok_or_else(|| "too many requests wait for it".to_owned())
    }

    async fn get(&self, target: &Target, bytes_max: usize) -> Result<Bytes, String> {
        let request = Request::new(Full::new(Bytes::new()));
        match self.client.fetch(target, request, bytes_max).await? {
            (StatusCode::OK, body) => Ok(body),
            (status, _) => Err(format!("{} answered {status}", target.authority)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use outgoing_https::PrivateNetworks;
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_request_without_a_turn_is_not_sent() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let networks = PrivateNetworks::parse("127.0.0.1").expect("an address");
        let client = HttpsClient::new(networks, Path::new(""), Duration::from_millis(100));
        let provider = Provider::new(client.expect("roots"), &url, "").expect("addresses");
        let all = u32::try_from(REQUESTS_MAX).expect("few");
        let others = provider.turns.acquire_many(all).await.expect("open");
        assert!(provider.endpoints().await.is_err(), "its time is over");
        let come = tokio::time::timeout(Duration::ZERO, listener.accept()).await;
        assert!(come.is_err(), "it has connected");
        drop(others);
        assert!(provider.endpoints().await.is_err(), "it is not answered");
        listener.accept().await.expect("a connection");
    }
}
