//! Queue tokens and tickets: `<version>.<claims>.<mac>`, base64url, signed with the secret that signs
//! sessions.
//!
//! The layout is fixed and the MAC is HMAC-SHA256 over everything before it, as for session tokens;
//! the first part keeps the three apart. A token that the previous secret signed is read too. Queue
//! tokens `wr1` had a time of admission where `wr2` has the number; they are not read any more.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

use shop_domain::{ItemId, UserId};

/// The first part of a ticket, and of a queue token: the version of the layout.
const TICKET: &str = "wr1";
const POSITION: &str = "wr2";
/// Bytes of the claims: kind, buyer, item, number, expiry, bits.
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

/// The claims of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueToken {
    pub kind: Kind,
    pub buyer: UserId,
    pub item: ItemId,
    /// The number in the sequence of admission; 0 before the places are known, and in tickets.
    pub number: i64,
    /// The end of its validity in microseconds since 1970 in UTC.
    pub expires_us: i64,
    pub proof_bits: u8,
}

/// Signs and verifies queue tokens and tickets.
#[derive(Clone)]
pub struct Tickets {
    /// The first signs; all are accepted.
    keys: Vec<Hmac<Sha256>>,
}

impl Tickets {
    /// Makes the keys of `secrets`: the first signs, and a signature by any of them is accepted.
    pub fn new(secrets: &[&str]) -> Self {
        let key = |secret: &&str| {
            Hmac::new_from_slice(secret.as_bytes()).expect("HMAC takes a key of any length")
        };
        Self { keys: secrets.iter().filter(|secret| !secret.is_empty()).map(key).collect() }
    }

    /// All keys that are accepted.
    pub(super) fn keys(&self) -> &[Hmac<Sha256>] {
        &self.keys
    }

    pub(super) fn sign(&self, token: &QueueToken) -> String {
        let mut claims = Vec::with_capacity(CLAIMS_BYTES);
        claims.push(u8::from(token.kind == Kind::Ticket));
        for number in [token.buyer.get(), token.item.get(), token.number, token.expires_us] {
            claims.extend(number.to_be_bytes());
        }
        claims.push(token.proof_bits);
        let version = if token.kind == Kind::Ticket { TICKET } else { POSITION };
        let signed = format!("{version}.{}", BASE64.encode(claims));
        let key = self.keys.first().expect("checked at start: there is a secret");
        let mac = key.clone().chain_update(&signed).finalize().into_bytes();
        format!("{signed}.{}", BASE64.encode(mac))
    }

    /// The claims of a signed text; `None` for a text that was not signed here.
    pub(super) fn claims(&self, text: &str) -> Option<QueueToken> {
        if text.len() > TOKEN_LENGTH_MAX {
            return None;
        }
        let (signed, mac) = text.rsplit_once('.')?;
        let (version, claims) = signed.split_once('.')?;
        let mac = BASE64.decode(mac).ok()?;
        let genuine =
            |key: &Hmac<Sha256>| key.clone().chain_update(signed).verify_slice(&mac).is_ok();
        if !self.keys.iter().any(genuine) {
            return None;
        }
        let claims = BASE64.decode(claims).ok()?;
        let (kind, rest) = claims.split_first()?;
        let kind = match (version, kind) {
            (TICKET, 1) => Kind::Ticket,
            (POSITION, 0) => Kind::Position,
            _ => return None,
        };
        let (buyer, rest) = rest.split_first_chunk::<8>()?;
        let (item, rest) = rest.split_first_chunk::<8>()?;
        let (number, rest) = rest.split_first_chunk::<8>()?;
        let (expires_us, rest) = rest.split_first_chunk::<8>()?;
        let &[proof_bits] = rest else { return None };
        Some(QueueToken {
            kind,
            buyer: UserId::new(i64::from_be_bytes(*buyer))?,
            item: ItemId::new(i64::from_be_bytes(*item))?,
            number: i64::from_be_bytes(*number),
            expires_us: i64::from_be_bytes(*expires_us),
            proof_bits,
        })
    }
}
