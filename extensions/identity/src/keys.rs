//! The provider's public keys: read from an address or a file, kept, and read again when they are
//! old or when a token names a key that is not among them.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::provider::{KEYS_BYTES_MAX, Provider};

/// The most keys of a set; further ones are left out.
const KEYS_MAX: usize = 100;
/// The pause between two reads that tokens with unknown key ids cause, or that failed.
const READ_PAUSE: Duration = Duration::from_secs(5);
/// How long keys are used while they cannot be read again.
const KEYS_AGE_MAX: Duration = Duration::from_secs(24 * 3_600);

/// A public key and the one algorithm that it is for.
#[derive(Clone, Debug)]
pub(crate) struct Key {
    id: Option<String>,
    pub algorithm: Algorithm,
    pub decoding: DecodingKey,
}

/// The reason why there is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyError {
    /// The provider has no such key.
    Unknown,
    /// The keys cannot be read.
    Unavailable,
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

    /// The key with the id `id`; without an id, the only key of the set.
    pub(crate) async fn find(&self, id: Option<&str>) -> Result<Key, KeyError> {
        let current = self.current();
        let is_fresh = |read_at: Instant| read_at.elapsed() <= self.age_max;
        if let Some((keys, read_at)) = &current
            && is_fresh(*read_at)
            && let Some(key) = choose(keys, id)
        {
            return Ok(key);
        }
        self.read_again(current.map(|(_, read_at)| read_at)).await;
        let (keys, _) = self.current().ok_or(KeyError::Unavailable)?;
        choose(&keys, id).ok_or(KeyError::Unknown)
    }

    /// Reads the keys, unless another task has done so since `seen`, or the pause is not over.
    async fn read_again(&self, seen: Option<Instant>) {
        let mut tried_at = self.tried_at.lock().await;
        if self.current().map(|(_, read_at)| read_at) > seen
            || tried_at.is_some_and(|at| at.elapsed() < READ_PAUSE)
        {
            return;
        }
        *tried_at = Some(Instant::now());
        let text = match &self.source {
            Source::File(path) => {
                tokio::fs::read(path).await.map_err(|error| format!("{}: {error}", path.display()))
            }
            Source::Provider(provider) => provider.keys().await.map(Vec::from),
        };
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

fn choose(keys: &[Key], id: Option<&str>) -> Option<Key> {
    match id {
        Some(id) => keys.iter().find(|key| key.id.as_deref() == Some(id)),
        None => <&[Key; 1]>::try_from(keys).ok().map(|[key]| key),
    }
    .cloned()
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
    let keys: Vec<Key> =
        keys.filter_map(key).filter(|key| algorithms.contains(&key.algorithm)).collect();
    if keys.is_empty() { Err("the set has no key that can be used".to_owned()) } else { Ok(keys) }
}

fn key(value: Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(value).ok()?;
    // The key decides on the algorithm; the token has no say in it.
    let algorithm = match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Algorithm::RS256,
        AlgorithmParameters::EllipticCurve(it) if it.curve == EllipticCurve::P256 => {
            Algorithm::ES256
        }
        AlgorithmParameters::OctetKeyPair(it) if it.curve == EllipticCurve::Ed25519 => {
            Algorithm::EdDSA
        }
        _ => return None,
    };
    let is_ours = jwk.common.key_algorithm.is_none_or(|named| named == algorithm.into());
    let signs = jwk.common.public_key_use.as_ref().is_none_or(|it| *it == PublicKeyUse::Signature);
    let decoding = DecodingKey::from_jwk(&jwk).ok()?;
    (is_ours && signs).then(|| Key { id: jwk.common.key_id, algorithm, decoding })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ALL: [Algorithm; 3] = [Algorithm::RS256, Algorithm::ES256, Algorithm::EdDSA];

    #[test]
    fn only_public_keys_for_signatures_are_taken() {
        let rsa = |id: &str| json!({ "kty": "RSA", "kid": id, "n": "AQAB", "e": "AQAB" });
        let mut encrypts = rsa("encrypts");
        encrypts["use"] = json!("enc");
        let mut pss = rsa("pss");
        pss["alg"] = json!("PS256");
        let shared = json!({ "kty": "oct", "kid": "shared", "k": "AQAB" });
        let curve = json!({ "kty": "EC", "crv": "P-384", "kid": "p384", "x": "AQ", "y": "AQ" });
        let broken = json!({ "kty": "RSA", "kid": "broken" });
        let set = json!({ "keys": [encrypts, pss, shared, curve, broken, rsa("good"), 7] });
        let keys = parse(set.to_string().as_bytes(), &ALL).expect("a set");
        let ids: Vec<_> = keys.iter().map(|key| key.id.as_deref()).collect();
        assert_eq!(ids, [Some("good")]);
        assert!(choose(&keys, None).is_some() && choose(&keys, Some("shared")).is_none());
        let other = parse(set.to_string().as_bytes(), &[Algorithm::ES256]);
        assert!(other.is_err(), "the key of an algorithm that is switched off");
    }

    #[test]
    fn a_token_without_a_key_id_fits_only_a_set_of_one_key() {
        let rsa = |id: &str| json!({ "kty": "RSA", "kid": id, "n": "AQAB", "e": "AQAB" });
        let set = json!({ "keys": [rsa("1"), rsa("2")] }).to_string();
        let keys = parse(set.as_bytes(), &ALL).expect("a set");
        assert!(choose(&keys, None).is_none());
    }
}
