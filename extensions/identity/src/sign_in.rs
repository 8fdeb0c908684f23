//! Sign-in in a browser: the authorization code flow of OpenID Connect, with PKCE, state and nonce.
//!
//! The browser keeps one random number in a cookie until it comes back. State, nonce and the verifier
//! of PKCE are made of this number, so that no instance has to remember who is on the way.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use crate::client::Client;
use crate::problems::{self, refused};
use web::problem::Problem;
use web::session::Session;

/// Random bytes of a sign-in.
const SEED_BYTES: usize = 32;
/// The longest path to go back to, in bytes.
const RETURN_BYTES_MAX: usize = 1_000;
/// The longest code of a provider, in bytes.
const CODE_BYTES_MAX: usize = 4 << 10;
/// How long a user may take at the provider, in seconds.
pub const SIGN_IN_SECONDS_MAX: u32 = 600;

/// The start of a sign-in.
#[derive(Clone, Debug)]
pub struct Start {
    /// The page of the provider to go to.
    pub location: String,
    /// What the browser keeps until it comes back.
    pub cookie: String,
}

/// What the provider says when it sends the browser back.
#[derive(Clone, Debug, Default)]
pub struct ProviderAnswer {
    /// The code for the token.
    pub code: String,
    /// The state of the start.
    pub state: String,
    /// The provider, if it says its name (RFC 9207).
    pub issuer: Option<String>,
    /// An error, such as `access_denied`.
    pub error: Option<String>,
}

/// A sign-in on its way, made of the number in the cookie.
struct PendingSignIn {
    state: String,
    nonce: String,
    verifier: String,
}

impl PendingSignIn {
    fn of(seed: &[u8; SEED_BYTES]) -> Self {
        let derive = |purpose: &str| {
            let mac = Hmac::<Sha256>::new_from_slice(seed).expect("HMAC takes a key of any length");
            BASE64.encode(mac.chain_update(purpose).finalize().into_bytes())
        };
        Self { state: derive("state"), nonce: derive("nonce"), verifier: derive("verifier") }
    }
}

impl Client {
    /// Starts a sign-in that ends at `path`, a path of this site.
    ///
    /// # Errors
    /// When the provider is not configured for browsers, or does not answer.
    pub async fn start(&self, path: &str) -> Result<Start, Problem> {
        let settings = self.for_browsers().ok_or(&problems::IDENTITY_OFF)?;
        let endpoints = self.provider.endpoints().await.map_err(|why| {
            tracing::warn!(%why, "identity provider not reached");
            problems::unavailable()
        })?;
        let seed: [u8; SEED_BYTES] = rand::random();
        let PendingSignIn { state, nonce, verifier } = PendingSignIn::of(&seed);
        let challenge = BASE64.encode(Sha256::digest(verifier));
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("response_type", "code");
        query.append_pair("client_id", &settings.client_id);
        query.append_pair("redirect_uri", &settings.redirect_url);
        query.append_pair("scope", &settings.scopes);
        query.append_pair("state", &state);
        query.append_pair("nonce", &nonce);
        query.append_pair("code_challenge", &challenge);
        query.append_pair("code_challenge_method", "S256");
        let address = &endpoints.authorization;
        let separator = if address.contains('?') { '&' } else { '?' };
        let path = if is_our_path(path) { path } else { "/" };
        Ok(Start {
            location: format!("{address}{separator}{}", query.finish()),
            cookie: format!("{}.{}", BASE64.encode(seed), BASE64.encode(path)),
        })
    }

    /// Ends a sign-in: checks that this browser began it, exchanges the code, and opens a session.
    /// Returns the path to go on to as well.
    pub async fn finish(
        &self,
        cookie: &str,
        returned: &ProviderAnswer,
    ) -> Result<(Session, String), Problem> {
        let settings = self.for_browsers().ok_or(&problems::IDENTITY_OFF)?;
        let (underway, path) = read_cookie(cookie).ok_or(&problems::SIGN_IN_NOT_STARTED)?;
        if !is_same(&underway.state, &returned.state) {
            return Err(problems::SIGN_IN_NOT_STARTED.problem());
        }
        if returned.issuer.as_ref().is_some_and(|issuer| !settings.is_issuer(issuer)) {
            return Err(refused("the answer of another issuer"));
        }
        if let Some(error) = &returned.error {
            tracing::info!(?error, "identity provider refused a sign-in");
            return Err(problems::IDENTITY_REFUSED.problem());
        }
        if returned.code.is_empty() || returned.code.len() > CODE_BYTES_MAX {
            return Err(refused("an answer without a code"));
        }
        let exchanged = self.provider.exchange(&returned.code, &underway.verifier, settings);
        let audiences = [settings.client_id.clone()];
        let claims = self.verify(&exchanged.await?, &audiences).await?;
        if claims.is_of_access {
            return Err(refused("an access token in place of an ID token"));
        }
        let nonce = claims.text("nonce").unwrap_or_default();
        if !is_same(&underway.nonce, nonce) {
            return Err(refused("an ID token of another sign-in"));
        }
        // A token for several parties says for whom it was made.
        let party = claims.text("azp").unwrap_or(&settings.client_id);
        if party != settings.client_id {
            return Err(refused("an ID token for another party"));
        }
        let session = self.open_session(&claims, None).await?;
        Ok((session, path))
    }
}

fn read_cookie(cookie: &str) -> Option<(PendingSignIn, String)> {
    let (seed, path) = cookie.split_once('.')?;
    let seed: [u8; SEED_BYTES] = BASE64.decode(seed).ok()?.try_into().ok()?;
    let path = String::from_utf8(BASE64.decode(path).ok()?).ok()?;
    Some((PendingSignIn::of(&seed), if is_our_path(&path) { path } else { "/".to_owned() }))
}

/// Returns whether a path leads to a page of ours: browsers read `//host` and `/\host` as another site.
fn is_our_path(path: &str) -> bool {
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    is_plain && path.starts_with('/') && !path.starts_with("//") && path.len() <= RETURN_BYTES_MAX
}

/// Compares in constant time, by comparing hashes.
fn is_same(one: &str, other: &str) -> bool {
    Sha256::digest(one) == Sha256::digest(other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sign_in_ends_on_a_page_of_ours() {
        for ours in ["/", "/item.html?id=7#buy", "/orders.html"] {
            assert!(is_our_path(ours), "{ours}");
        }
        for foreign in [
            "",
            "orders.html",
            "//evil.example",
            "/\\evil.example",
            "https://evil.example",
            "/a\r\nb",
        ] {
            assert!(!is_our_path(foreign), "{foreign}");
        }
        let cookie =
            format!("{}.{}", BASE64.encode([7; SEED_BYTES]), BASE64.encode("//evil.example"));
        let (_, path) = read_cookie(&cookie).expect("a cookie");
        assert_eq!(path, "/");
        for broken in ["", ".", "a.b", "AAAA.Lw"] {
            assert!(read_cookie(broken).is_none(), "{broken}");
        }
    }

    #[test]
    fn state_nonce_and_verifier_tell_nothing_of_each_other() {
        let PendingSignIn { state, nonce, verifier } = PendingSignIn::of(&[7; SEED_BYTES]);
        assert!(state != nonce && nonce != verifier && verifier != state);
        // PKCE asks for 43 to 128 characters.
        assert_eq!(verifier.len(), 43);
    }
}
