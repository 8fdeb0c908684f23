//! Session tokens: `sk1.<key id>.<claims>.<mac>`, all base64url.
//!
//! The claims are a fixed binary layout and the MAC is HMAC-SHA256 over everything before it. No
//! field of the token chooses an algorithm. The key id, the start of the secret's hash, only says
//! which of two live secrets to check with, so that a secret can be rotated without signing
//! everyone out.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD as BASE64;
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;

use settings::Secret;
use shop_domain::item::word_enum;
use shop_domain::{ShopId, UserId};

/// The first part of every token: the version of its layout.
const VERSION: &str = "sk1";
/// Bytes of the binary claims: number of the holder, its kind, expiry, id.
const CLAIMS_BYTES: usize = 8 + 1 + 8 + TOKEN_ID_BYTES;
/// Random bytes of a token's id.
const TOKEN_ID_BYTES: usize = 16;
/// Bytes of the id that are the generation of the holder's tokens. Earlier builds read the whole id
/// as random bytes, so tokens of both kinds work side by side.
const GENERATION_BYTES: usize = 4;
/// Longest token that is read, in characters.
const TOKEN_LENGTH_MAX: usize = 160;

word_enum! {
    /// The role of a user: the permissions of a token.
    Role {
        /// Buys.
        Buyer = "buyer",
        /// Buys, and creates, edits and audits sales; reads its own lines in the log of actions.
        Operator = "operator",
        /// Does the work of an operator, and reads the whole log of actions.
        Admin = "admin",
    }
}

/// Whose token it is. Users and shops have numbers of their own, so what ends the tokens of a user ends none of a shop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// A user.
    User { id: UserId, role: Role },
    /// The program of another shop: orders for its guests, and does nothing in its own name.
    Shop(ShopId),
}

/// The claims of a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claims {
    pub holder: Holder,
    /// The end of its validity, to the second.
    pub expires_at: OffsetDateTime,
    /// The id of the token, for signing out.
    pub token_id: String,
    /// The generation of the holder's tokens when it was made; a later one ends the token, and one that the ledger has
    /// not begun is refused.
    pub generation: u32,
}

/// The reason why a token is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TokenError {
    /// Damaged, forged, or signed with a secret that is no longer known.
    Invalid,
    /// Genuine, but expired.
    Expired,
}

/// Signs and reads tokens with one secret, and reads those of the secret before it.
#[derive(Clone)]
pub struct Tokens {
    keys: Vec<Key>,
}

#[derive(Clone)]
struct Key {
    id: String,
    mac: Hmac<Sha256>,
}

impl Tokens {
    /// Makes a signer with `secret`, which also reads tokens signed with `previous` if it is not
    /// empty.
    pub fn new(secret: &Secret, previous: &Secret) -> Self {
        let secrets = [secret, previous].into_iter().filter(|secret| !secret.is_empty());
        Self { keys: secrets.map(Key::new).collect() }
    }

    /// What tokens name the secrets by: first the one that signs.
    pub fn key_ids(&self) -> Vec<String> {
        self.keys.iter().map(|key| key.id.clone()).collect()
    }

    /// Makes a token for `user` that is valid until `expires_at`, of the first generation: it ends
    /// when the user signs out everywhere for the first time.
    ///
    /// # Panics
    /// When there is no secret; the configuration is checked before this is reached.
    pub fn sign(&self, user: UserId, role: Role, expires_at: OffsetDateTime) -> String {
        self.sign_in_generation(Holder::User { id: user, role }, expires_at, 0)
    }

    /// Makes a token for `holder` that is valid until `expires_at`, or until the holder's tokens have
    /// a later generation.
    ///
    /// # Panics
    /// When there is no secret; the configuration is checked before this is reached.
    pub fn sign_in_generation(
        &self,
        holder: Holder,
        expires_at: OffsetDateTime,
        generation: u32,
    ) -> String {
        let key = self.keys.first().expect("checked at start: there is a secret");
        let mut claims = Vec::with_capacity(CLAIMS_BYTES);
        claims.extend(holder.number().to_be_bytes());
        claims.push(holder.kind());
        claims.extend(expires_at.unix_timestamp().to_be_bytes());
        claims.extend(generation.to_be_bytes());
        claims.extend(rand::random::<[u8; TOKEN_ID_BYTES - GENERATION_BYTES]>());
        let signed = format!("{VERSION}.{}.{}", key.id, BASE64.encode(claims));
        let mac = key.mac.clone().chain_update(&signed).finalize().into_bytes();
        format!("{signed}.{}", BASE64.encode(mac))
    }

    /// Reads a token; the MAC is compared in constant time.
    pub fn read(&self, token: &str, now: OffsetDateTime) -> Result<Claims, TokenError> {
        if token.len() > TOKEN_LENGTH_MAX {
            return Err(TokenError::Invalid);
        }
        let (signed, mac) = token.rsplit_once('.').ok_or(TokenError::Invalid)?;
        let mut parts = signed.split('.');
        let (Some(VERSION), Some(key_id), Some(claims), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(TokenError::Invalid);
        };
        let key = self.keys.iter().find(|key| key.id == key_id).ok_or(TokenError::Invalid)?;
        let mac = BASE64.decode(mac).map_err(|_| TokenError::Invalid)?;
        let genuine = key.mac.clone().chain_update(signed).verify_slice(&mac);
        genuine.map_err(|_| TokenError::Invalid)?;
        let claims = read_claims(claims).ok_or(TokenError::Invalid)?;
        if claims.expires_at <= now { Err(TokenError::Expired) } else { Ok(claims) }
    }
}

impl Role {
    /// Whether it may run sales.
    pub fn may_operate(self) -> bool {
        matches!(self, Self::Operator | Self::Admin)
    }
}

/// The byte of a token for the program of a shop. 3 was that of a build whose shops had the numbers of users.
const SHOP: u8 = 4;

impl Holder {
    fn number(self) -> i64 {
        match self {
            Self::User { id, .. } => id.get(),
            Self::Shop(id) => id.get(),
        }
    }

    fn kind(self) -> u8 {
        match self {
            Self::User { role: Role::Buyer, .. } => 0,
            Self::User { role: Role::Admin, .. } => 1,
            Self::User { role: Role::Operator, .. } => 2,
            Self::Shop(_) => SHOP,
        }
    }

    fn read(number: i64, kind: u8) -> Option<Self> {
        let role = match kind {
            0 => Role::Buyer,
            1 => Role::Admin,
            2 => Role::Operator,
            SHOP => return ShopId::new(number).map(Self::Shop),
            _ => return None,
        };
        UserId::new(number).map(|id| Self::User { id, role })
    }
}

impl Key {
    fn new(secret: &Secret) -> Self {
        let secret = secret.reveal().as_bytes();
        let hash = Sha256::digest(secret);
        let mac = Hmac::new_from_slice(secret).expect("HMAC takes a key of any length");
        Self { id: BASE64.encode(&hash[..6]), mac }
    }
}

fn read_claims(text: &str) -> Option<Claims> {
    let bytes = BASE64.decode(text).ok()?;
    let bytes: &[u8; CLAIMS_BYTES] = bytes.as_slice().try_into().ok()?;
    let (number, rest) = bytes.split_first_chunk::<8>()?;
    let (kind, rest) = rest.split_first()?;
    let (expires_at, token_id) = rest.split_first_chunk::<8>()?;
    let (generation, _) = token_id.split_first_chunk::<GENERATION_BYTES>()?;
    Some(Claims {
        holder: Holder::read(i64::from_be_bytes(*number), *kind)?,
        expires_at: OffsetDateTime::from_unix_timestamp(i64::from_be_bytes(*expires_at)).ok()?,
        token_id: BASE64.encode(token_id),
        generation: u32::from_be_bytes(*generation),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;
    use time::macros::datetime;

    const NOW: OffsetDateTime = datetime!(2026-11-11 11:11 UTC);

    fn tokens() -> Tokens {
        Tokens::new(&Secret::new("one secret"), &Secret::default())
    }

    fn user() -> UserId {
        UserId::new(7).expect("positive")
    }

    #[test]
    fn a_token_reads_back_until_it_expires() {
        let tokens = tokens();
        let of = |role| Holder::User { id: user(), role };
        let shop = Holder::Shop(ShopId::new(7).expect("positive"));
        for (holder, generation) in
            [(of(Role::Buyer), 0), (of(Role::Operator), 7), (of(Role::Admin), u32::MAX), (shop, 1)]
        {
            let token = tokens.sign_in_generation(holder, NOW + Duration::HOUR, generation);
            let claims = tokens.read(&token, NOW).expect("fresh");
            assert_eq!((claims.holder, claims.generation), (holder, generation));
        }
        let token = tokens.sign(user(), Role::Admin, NOW + Duration::HOUR);
        assert_eq!(tokens.read(&token, NOW + Duration::HOUR), Err(TokenError::Expired));
    }

    #[test]
    fn any_changed_character_spoils_it() {
        let tokens = tokens();
        let token = tokens.sign(user(), Role::Buyer, NOW + Duration::HOUR);
        for at in 0..token.len() {
            let mut bytes = token.clone().into_bytes();
            bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
            let changed = String::from_utf8(bytes).expect("ascii");
            // The last character of an unpadded group may carry unused bits; those are refused
            // by the decoder, so no second spelling of a token exists.
            assert_eq!(tokens.read(&changed, NOW), Err(TokenError::Invalid), "at {at}");
        }
        for cut in ["", ".", "...", "sk1.x.y", &token[..token.len() - 5], &format!("{token}.x")] {
            assert_eq!(tokens.read(cut, NOW), Err(TokenError::Invalid), "{cut:?}");
        }
    }
}
