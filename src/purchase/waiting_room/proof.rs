//! Proofs of work in ALTCHA's format (proof of work v2, <https://altcha.org>), which its official
//! clients solve.
//!
//! A challenge is signed and names its buyer and its item, so nothing is stored until it is solved.
//! The key to be found begins with `keyPrefix`, which is made from a counter that only this program
//! knew: so the work of each challenge has a bound. Whoever admits a buyer stores the id of the
//! proof until it expires, so that it is used once.

use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use utoipa::ToSchema;

use super::queue_token::Tickets;
use gates::redis_store::room::UsableProof;
use shop_domain::{ItemId, UserId};

/// The longest payload of a client, in bytes.
pub const PAYLOAD_LENGTH_MAX: usize = 2_048;
/// How long a challenge can be answered, in seconds.
pub const CHALLENGE_SECONDS: i64 = 600;
/// The label by which the key of challenges is derived from the secret that signs sessions.
const KEY_LABEL: &[u8] = b"seckill altcha key 1\n";
/// Bytes of a derived key of SHA-256, and of its beginning that is asked for.
const KEY_BYTES: usize = 32;
const PREFIX_BYTES: usize = 16;

/// A challenge in ALTCHA's format. Fields are in the sequence of the alphabet, because their JSON is signed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    parameters: Parameters,
    /// HMAC-SHA-256 of the parameters in canonical JSON.
    signature: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Parameters {
    /// `SHA-256`.
    algorithm: String,
    /// Iterations of the hash for each counter.
    cost: u32,
    data: ChallengeData,
    /// The end of its validity in seconds since 1970.
    expires_at: i64,
    key_length: usize,
    /// The hexadecimal digits that the derived key begins with.
    key_prefix: String,
    nonce: String,
    salt: String,
}

/// What a challenge is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChallengeData {
    /// The zero bits that are asked for: a challenge of a short line does not do for a long one.
    bits: u8,
    buyer: String,
    item: String,
}

/// The answer of a client: Base64 of this as JSON.
#[derive(Deserialize)]
struct Payload {
    challenge: Challenge,
    solution: Solution,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Solution {
    counter: u32,
    derived_key: String,
}

/// Makes challenges and checks their solutions.
#[derive(Clone)]
pub struct Proofs {
    /// The first signs; all are accepted.
    keys: Vec<Hmac<Sha256>>,
}

impl Proofs {
    pub fn new(tickets: &Tickets) -> Self {
        let key = |secret: &Hmac<Sha256>| {
            let key = hex::encode(secret.clone().chain_update(KEY_LABEL).finalize().into_bytes());
            Hmac::new_from_slice(key.as_bytes()).expect("HMAC takes a key of any length")
        };
        Self { keys: tickets.keys().iter().map(key).collect() }
    }

    /// Makes a challenge that takes about 2^`bits` hashes.
    pub fn challenge(
        &self,
        (item, buyer): (ItemId, UserId),
        bits: u8,
        now: OffsetDateTime,
    ) -> Challenge {
        let half = 1_u32 << (bits.clamp(1, 24) - 1);
        let counter = half + rand::random_range(0..=2 * half);
        let (nonce, salt): ([u8; 16], [u8; 16]) = (rand::random(), rand::random());
        let parameters = Parameters {
            algorithm: "SHA-256".to_owned(),
            cost: 1,
            data: ChallengeData { bits, buyer: buyer.to_string(), item: item.to_string() },
            expires_at: now.unix_timestamp() + CHALLENGE_SECONDS,
            key_length: KEY_BYTES,
            key_prefix: hex::encode(&derive(&nonce, &salt, counter)[..PREFIX_BYTES]),
            nonce: hex::encode(nonce),
            salt: hex::encode(salt),
        };
        let key = self.keys.first().expect("checked at start: there is a secret");
        let signature =
            hex::encode(key.clone().chain_update(canonical(&parameters)).finalize().into_bytes());
        Challenge { parameters, signature }
    }

    /// Reads the answer to a challenge; `None` unless it is right, and for this item and buyer. Whether it is
    /// in time is judged where it is used, by the clock that its challenge was made by.
    pub fn read(&self, payload: &str, (item, buyer): (ItemId, UserId)) -> Option<UsableProof> {
        if payload.len() > PAYLOAD_LENGTH_MAX {
            return None;
        }
        let Payload { challenge, solution } =
            serde_json::from_slice(&BASE64.decode(payload).ok()?).ok()?;
        let Challenge { parameters, signature } = challenge;
        let mac = hex::decode(&signature).ok()?;
        let signed = canonical(&parameters);
        let genuine =
            |key: &Hmac<Sha256>| key.clone().chain_update(&signed).verify_slice(&mac).is_ok();
        let bits = parameters.data.bits;
        let data = ChallengeData { bits, buyer: buyer.to_string(), item: item.to_string() };
        if !self.keys.iter().any(genuine) || parameters.data != data {
            return None;
        }
        let nonce = hex::decode(&parameters.nonce).ok()?;
        let salt = hex::decode(&parameters.salt).ok()?;
        let derived = hex::encode(derive(&nonce, &salt, solution.counter));
        let is_right =
            derived == solution.derived_key && derived.starts_with(&parameters.key_prefix);
        is_right.then(|| UsableProof {
            id: hex::encode(mac),
            bits,
            expires_ms: parameters.expires_at.saturating_mul(1_000),
        })
    }
}

/// The key of a counter: SHA-256 of the salt, the nonce and the counter.
fn derive(nonce: &[u8], salt: &[u8], counter: u32) -> [u8; KEY_BYTES] {
    let hash = Sha256::new().chain_update(salt).chain_update(nonce);
    hash.chain_update(counter.to_be_bytes()).finalize().into()
}

fn canonical(parameters: &Parameters) -> String {
    serde_json::to_string(parameters).expect("numbers and texts are JSON")
}
