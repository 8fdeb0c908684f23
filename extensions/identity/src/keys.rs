//! The provider's public keys: read from an address or a file, kept, and read again when they are
//! old or when a token names a key that is not among them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyOperations, PublicKeyUse};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::problems::{not_believed, unavailable};
use crate::provider::{KEYS_BYTES_MAX, Provider};
use web::problem::Problem;

/// The most keys of a set; further ones are left out.
const KEYS_MAX: usize = 100;
/// The most keys that a token is tried with: a set may have several with the same id, or without one.
const CANDIDATES_MAX: usize = 4;
/// The pause between two reads that tokens with unknown key ids cause, or that failed.
const READ_PAUSE: Duration = Duration::from_secs(5);
/// How long keys are used while they cannot be read again.
const KEYS_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A public key and the algorithms that it is for: one, or all of its kind if the set names none.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub decoding: DecodingKey,
}

/// Where the keys are read.
pub(crate) enum Source {
    /// A file.
    File(PathBuf),
    /// The function that asks the provider.
    Provider(Arc<Provider>),
}

/// The keys of the provider.
pub(crate) struct Keys {
    source: Source,
    algorithms: Vec<Algorithm>,
    age_max: Duration,
    current: RwLock<Option<(Arc<[Key]>, Instant)>>,
    /// The last try to read them; one task reads at a time.
    tried_at: Mutex<Option<Instant>>,
}

impl Keys {
    pub(crate) fn new(source: Source, algorithms: Vec<Algorithm>, age_max: Duration) -> Self {
        Self { source, algorithms, age_max, current: RwLock::new(None), tried_at: Mutex::new(None) }
    }

    /// The keys for an algorithm that have the id `id`, or any if a token names none.
    pub(crate) async fn find(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
    ) -> Result<Vec<Key>, Problem> {
        let current = self.current();
        let is_fresh = |read_at: Instant| read_at.elapsed() <= self.age_max;
        if let Some((keys, read_at)) = &current
            && is_fresh(*read_at)
            && let Some(found) = choose(keys, id, algorithm)
        {
            return Ok(found);
        }
        self.read_again(current.map(|(_, read_at)| read_at)).await;
        let (keys, _) = self.current().ok_or_else(unavailable)?;
        choose(&keys, id, algorithm).ok_or_else(|| {
            let id = id.unwrap_or_default();
            not_believed(&format!("signed by {algorithm:?}; no key for that has the id {id:?}"))
        })
    }

    /// Reads the keys, unless another task has done so since `seen`, or the pause is not over.
    async fn read_again(&self, seen: Option<Instant>) {
        let mut tried_at = self.tried_at.lock().await;
        if self.current().map(|(_, read_at)| read_at) > seen
            || tried_at.is_some_and(|at| at.elapsed() < READ_PAUSE)
        {
            return;
        }
        // A read whose request is given up counts, too.
        *tried_at = Some(Instant::now());
        let text = match &self.source {
            Source::File(path) => {
                tokio::fs::read(path).await.map_err(|error| format!("{}: {error}", path.display()))
            }
            Source::Provider(provider) => provider.keys().await.map(Vec::from),
        };
        // The pause counts from the end: a read may take as long as the pause, and tokens that waited for it go on
        // with what there is.
        *tried_at = Some(Instant::now());
        match text.and_then(|text| parse(&text, &self.algorithms)) {
            Ok(keys) => {
                let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
                *current = Some((keys.into(), Instant::now()));
            }
            Err(why) => tracing::warn!(%why, "keys of the identity provider not read"),
        }
    }

    fn current(&self) -> Option<(Arc<[Key]>, Instant)> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        current.clone().filter(|(_, read_at)| read_at.elapsed() <= KEYS_AGE_MAX)
    }
}

/// Checks that a file has keys that can be used.
pub(crate) fn check_file(path: &Path, algorithms: &[Algorithm]) -> Result<(), String> {
    let text = std::fs::read(path).map_err(|error| error.to_string())?;
    parse(&text, algorithms).map(drop)
}

/// The id alone chooses no key: keys of two kinds may have the same one (RFC 7517, section 4.5).
fn choose(keys: &[Key], id: Option<&str>, algorithm: Algorithm) -> Option<Vec<Key>> {
    let fits = |key: &&Key| {
        key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id)
    };
    let found: Vec<Key> = keys.iter().filter(fits).take(CANDIDATES_MAX).cloned().collect();
    (!found.is_empty()).then_some(found)
}

/// Reads a set of keys. Keys for other purposes and of other kinds are left out, private and shared
/// ones too.
fn parse(text: &[u8], algorithms: &[Algorithm]) -> Result<Vec<Key>, String> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    if text.len() > KEYS_BYTES_MAX {
        return Err(format!("the set of keys has more than {KEYS_BYTES_MAX} bytes"));
    }
    let set: Set =
        serde_json::from_slice(text).map_err(|error| format!("no set of keys: {error}"))?;
    let keys = set.keys.into_iter().take(KEYS_MAX);
    let keys: Vec<Key> = keys.filter_map(|value| key(value, algorithms)).collect();
    if keys.is_empty() { Err("the set has no key that can be used".to_owned()) } else { Ok(keys) }
}

fn key(value: Value, accepted: &[Algorithm]) -> Option<Key> {
    let id = value.get("kid").cloned();
    let jwk: Jwk = serde_json::from_value(value)
        .inspect_err(|error| tracing::info!(?id, %error, "key of the identity provider left out"))
        .ok()?;
    // An RSA key is for all algorithms of its kind.
    let is_of_its_kind = |one: &Algorithm| match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => one.family() == AlgorithmFamily::Rsa,
        AlgorithmParameters::EllipticCurve(it) => match it.curve {
            EllipticCurve::P256 => *one == Algorithm::ES256,
            EllipticCurve::P384 => *one == Algorithm::ES384,
            _ => false,
        },
        AlgorithmParameters::OctetKeyPair(it) => {
            it.curve == EllipticCurve::Ed25519 && *one == Algorithm::EdDSA
        }
        _ => false,
    };
    let common = &jwk.common;
    let is_named =
        |one: &Algorithm| common.key_algorithm.is_none_or(|named| named == (*one).into());
    let algorithms = accepted.iter().filter(|one| is_of_its_kind(one) && is_named(one));
    let algorithms: Vec<Algorithm> = algorithms.copied().collect();
    let signs = common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
    let verifies =
        common.key_operations.as_ref().is_none_or(|all| all.contains(&KeyOperations::Verify));
    let decoding = DecodingKey::from_jwk(&jwk).ok()?;
    let is_of_use = !algorithms.is_empty() && signs && verifies;
    is_of_use.then(|| Key { id: jwk.common.key_id, algorithms, decoding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use outgoing_https::{HttpsClient, PrivateNetworks};
    use serde_json::json;
    use tokio::net::TcpListener;

    const ALL: [Algorithm; 4] =
        [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

    fn rsa(id: &str) -> Value {
        json!({ "kty": "RSA", "kid": id, "n": "AQAB", "e": "AQAB" })
    }

    fn keys(set: &Value) -> Vec<Key> {
        parse(json!({ "keys": set }).to_string().as_bytes(), &ALL).expect("a set")
    }

    fn changed(mut key: Value, name: &str, value: Value) -> Value {
        key[name] = value;
        key
    }

    #[test]
    fn only_public_keys_for_signatures_are_taken() {
        let encrypts = changed(rsa("encrypts"), "use", json!("enc"));
        let wraps = changed(rsa("wraps"), "key_ops", json!(["wrapKey"]));
        let padded = changed(rsa("padded"), "alg", json!("RSA-OAEP"));
        let shared = json!({ "kty": "oct", "kid": "shared", "k": "AQAB" });
        let curve = json!({ "kty": "EC", "crv": "P-384", "kid": "p384", "x": "AQ", "y": "AQ" });
        let certificate = json!({ "kty": "RSA", "kid": "certificate", "x5c": ["MIIB"] });
        let newer = json!({ "kty": "AKP", "alg": "ML-DSA-44", "kid": "newer", "pub": "AQ" });
        let set =
            json!([encrypts, wraps, padded, shared, curve, certificate, newer, rsa("good"), 7]);
        let found = keys(&set);
        let ids: Vec<_> = found.iter().map(|key| key.id.as_deref()).collect();
        assert_eq!(ids, [Some("good")]);
        let choice = |id| choose(&found, id, Algorithm::RS256);
        assert!(choice(None).is_some() && choice(Some("shared")).is_none());
        let set = json!({ "keys": set }).to_string();
        let other = parse(set.as_bytes(), &[Algorithm::ES256]);
        assert!(other.is_err(), "the key of an algorithm that is switched off");
    }

    #[test]
    fn keys_of_one_id_are_told_apart_by_kind_and_tried_up_to_a_limit() {
        let curve = json!({ "kty": "EC", "crv": "P-256", "kid": "k", "x": "AQ", "y": "AQ" });
        let many = vec![rsa("k"); 10];
        let found = keys(&json!([vec![curve], many].concat()));
        let chosen = |algorithm| choose(&found, Some("k"), algorithm).map_or(0, |keys| keys.len());
        assert_eq!((chosen(Algorithm::ES256), chosen(Algorithm::RS256)), (1, CANDIDATES_MAX));
    }

    #[tokio::test]
    async fn tokens_that_wait_for_a_silent_provider_go_on_together() {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let networks = PrivateNetworks::parse("127.0.0.1").expect("an address");
        let client = HttpsClient::new(networks, Path::new(""), READ_PAUSE).expect("roots");
        let provider =
            Arc::new(Provider::new(client, &url, &format!("{url}/keys")).expect("addresses"));
        let old = Keys::new(Source::Provider(provider), ALL.to_vec(), Duration::ZERO);
        let known = keys(&json!([rsa("old")]));
        *old.current.write().expect("no panic") = Some((known.into(), Instant::now()));
        let find = || old.find(Some("old"), Algorithm::RS256);
        // Kept open, and never answered.
        let mut connections = Vec::new();
        let answers = async { tokio::join!(find(), find(), find()) };
        tokio::pin!(answers);
        let answers = loop {
            tokio::select! {
                // A connection of the last read is counted before its answers.
                biased;
                connection = listener.accept() => connections.push(connection.expect("accepted")),
                answers = &mut answers => break answers,
            }
        };
        for answer in <[_; 3]>::from(answers) {
            assert_eq!(answer.expect("the old keys are used").len(), 1);
        }
        assert_eq!(connections.len(), 1, "a read that timed out was the read of all who waited");
    }
}
