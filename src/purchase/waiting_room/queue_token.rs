//! Queue tokens and tickets: `wr1.<claims>.<mac>`, base64url, signed with the secret that signs
//! sessions.
//!
//! The layout is fixed and the MAC is HMAC-SHA256 over everything before it, as for session tokens;
//! the first part keeps the two apart. A token that the previous secret signed is read too.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use shop_domain::{ItemId, UserId};

/// The first part: the version of the layout.
const VERSION: &str = "wr1";
/// Bytes of the claims: kind, buyer, item, admission time, expiry, bits.
const CLAIMS_BYTES: usize = 1 + 8 + 8 + 8 + 8 + 1;
/// The longest valid token, in bytes.
pub const TOKEN_LENGTH_MAX: usize = 128;

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A position in the queue.
    Position,
    /// A purchase.
    Ticket,
}

/// The claims of a token. Times are microseconds since 1970 in UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueToken {
    pub kind: Kind,
    pub buyer: UserId,
    pub item: ItemId,
    pub admit_us: i64,
    pub expires_us: i64,
    pub proof_bits: u8,
}

/// Signs and verifies tokens.
#[derive(Clone)]
pub struct TokenSigner {
    keys: Vec<Hmac<Sha256>>,
}

impl TokenSigner {
    pub fn new(secrets: &[&str]) -> Self {
        let key = |secret: &&str| {
            Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length")
        };
        Self { keys: secrets.iter().filter(|secret| !secret.is_empty()).map(key).collect() }
    }

    pub fn sign(&self, token: &QueueToken) -> String {
        let key = self.keys.first().expect("checked at start: there is a secret");
        let mut claims = Vec::with_capacity(CLAIMS_BYTES);
        claims.push(u8::from(token.kind == Kind::Ticket));
        for number in [token.buyer.get(), token.item.get(), token.admit_us, token.expires_us] {
            claims.extend(number.to_be_bytes());
        }
        claims.push(token.proof_bits);
        let signed = format!("{VERSION}.{}", BASE64.encode(claims));
        let mac = key.clone().chain_update(&signed).finalize().into_bytes();
        format!("{signed}.{}", BASE64.encode(mac))
    }

    /// The claims of a signed text; `None` for a text that was not signed here.
    pub fn read(&self, text: &str) -> Option<QueueToken> {
        if text.len() > TOKEN_LENGTH_MAX {
            return None;
        }
        let (signed, mac) = text.rsplit_once('.')?;
        let claims = signed.strip_prefix(VERSION)?.strip_prefix('.')?;
        let mac = BASE64.decode(mac).ok()?;
        let genuine =
            |key: &Hmac<Sha256>| key.clone().chain_update(signed).verify_slice(&mac).is_ok();
        if !self.keys.iter().any(genuine) {
            return None;
        }
        let claims = BASE64.decode(claims).ok()?;
        let (kind, rest) = claims.split_first()?;
        let (buyer, rest) = rest.split_first_chunk::<8>()?;
        let (item, rest) = rest.split_first_chunk::<8>()?;
        let (admit_us, rest) = rest.split_first_chunk::<8>()?;
        let (expires_us, rest) = rest.split_first_chunk::<8>()?;
        let &[proof_bits] = rest else { return None };
        Some(QueueToken {
            kind: if *kind == 1 { Kind::Ticket } else { Kind::Position },
            buyer: UserId::new(i64::from_be_bytes(*buyer))?,
            item: ItemId::new(i64::from_be_bytes(*item))?,
            admit_us: i64::from_be_bytes(*admit_us),
            expires_us: i64::from_be_bytes(*expires_us),
            proof_bits,
        })
    }
}
