//! Tokens of the identity provider (JSON Web Tokens): which ones are believed, and what they say.
//!
//! The key decides on the algorithm. The token only names a key of the provider's set, by its id;
//! addresses and keys within a token are never used.

use std::collections::HashSet;
use std::fmt;

use jsonwebtoken::{Algorithm, Validation, decode, decode_header};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::keys::{KeyError, Keys};

/// The longest token, in bytes.
pub const TOKEN_BYTES_MAX: usize = 8 << 10;
/// The longest id of a key, in bytes.
const KEY_ID_BYTES_MAX: usize = 256;
/// The longest subject, in bytes.
const SUBJECT_BYTES_MAX: usize = 255;
/// The claims that a token must have.
const REQUIRED: [&str; 4] = ["exp", "iss", "aud", "sub"];
/// The types of token that are read.
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];

/// The reason why a token is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenFault {
    /// The token is not believed; the text is for the log.
    Refused(String),
    /// The token was genuine, and has expired.
    Expired,
    /// The provider's keys cannot be read.
    Unavailable,
}

/// What tokens must say.
pub(crate) struct Rules {
    pub issuer: String,
    pub clock_skew_seconds: u64,
}

/// What a genuine token says.
#[derive(Clone, Debug)]
pub struct IdentityClaims {
    /// The provider's name for the user.
    pub subject: String,
    /// The end of its validity.
    pub expires_at: OffsetDateTime,
    /// All claims.
    pub all: Map<String, Value>,
}

impl Rules {
    /// How far the provider's clock may be from ours.
    pub(crate) fn clock_skew(&self) -> time::Duration {
        time::Duration::seconds(i64::try_from(self.clock_skew_seconds).unwrap_or(0))
    }

    /// Verifies a token for one of `audiences`.
    pub(crate) async fn verify(
        &self,
        token: &str,
        keys: &Keys,
        audiences: &[String],
    ) -> Result<IdentityClaims, TokenFault> {
        let refused = |why: &str| TokenFault::Refused(why.to_owned());
        if token.len() > TOKEN_BYTES_MAX {
            return Err(refused("too long"));
        }
        let header = decode_header(token).map_err(|error| refused(&error.to_string()))?;
        if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
            return Err(refused("has a header that we do not know"));
        }
        let is_ours = |kind: &String| TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind));
        if !header.typ.as_ref().is_none_or(is_ours) {
            return Err(refused("of another type"));
        }
        let key_id = header.kid.as_deref();
        if key_id.is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
            return Err(refused("id of the key too long"));
        }
        let key = keys.find(key_id).await.map_err(|error| match error {
            KeyError::Unknown => refused("unknown key"),
            KeyError::Unavailable => TokenFault::Unavailable,
        })?;
        let validation = self.validation(key.algorithm, audiences);
        let decoded = decode::<Claims>(token, &key.decoding, &validation);
        let Claims(all) = decoded.map_err(|error| fault(&error))?.claims;
        self.read(all)
    }

    fn validation(&self, algorithm: Algorithm, audiences: &[String]) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.clock_skew_seconds;
        validation.validate_nbf = true;
        validation.set_issuer(&[&self.issuer]);
        validation.set_audience(audiences);
        validation.required_spec_claims = HashSet::from(REQUIRED.map(str::to_owned));
        validation
    }

    /// Reads the claims of a genuine token.
    fn read(&self, all: Map<String, Value>) -> Result<IdentityClaims, TokenFault> {
        let refused = |why: &str| TokenFault::Refused(why.to_owned());
        let text = |name: &str| all.get(name).and_then(Value::as_str);
        let number = |name: &str| all.get(name).and_then(Value::as_f64);
        // The library also takes a list of issuers that has ours.
        if text("iss") != Some(&self.issuer) {
            return Err(refused("of another issuer"));
        }
        let subject = text("sub").filter(|it| (1..=SUBJECT_BYTES_MAX).contains(&it.len()));
        let subject = subject.ok_or_else(|| refused("without a subject that we can store"))?;
        let seconds = |at: f64| OffsetDateTime::from_unix_timestamp(at as i64).ok();
        let expires_at =
            number("exp").and_then(seconds).ok_or_else(|| refused("without an end"))?;
        let issued_at = number("iat").and_then(seconds);
        if issued_at.is_some_and(|at| at > OffsetDateTime::now_utc() + self.clock_skew()) {
            return Err(refused("issued in the future"));
        }
        Ok(IdentityClaims { subject: subject.to_owned(), expires_at, all })
    }
}

impl IdentityClaims {
    /// A claim that is a text.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all.get(name).and_then(Value::as_str)
    }

    /// The values of a claim such as `groups` or `realm_access.roles`: a list of texts, or texts
    /// with spaces between them.
    #[must_use]
    pub fn values(&self, path: &str) -> Vec<&str> {
        let mut value = self.all.get(path);
        if value.is_none() {
            let mut names = path.split('.');
            value = names.next().and_then(|first| self.all.get(first));
            value = names.fold(value, |value, name| value?.get(name));
        }
        match value {
            Some(Value::String(text)) => text.split_whitespace().collect(),
            Some(Value::Array(values)) => values.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        }
    }
}

fn fault(error: &jsonwebtoken::errors::Error) -> TokenFault {
    match error.kind() {
        jsonwebtoken::errors::ErrorKind::ExpiredSignature => TokenFault::Expired,
        _ => TokenFault::Refused(error.to_string()),
    }
}

/// The claims of a token, each once: two parties could read a repeated claim differently.
struct Claims(Map<String, Value>);

impl<'de> Deserialize<'de> for Claims {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;

        impl<'de> Visitor<'de> for Once {
            type Value = Claims;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of claims")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut claims: A) -> Result<Claims, A::Error> {
                let mut all = Map::new();
                while let Some((name, value)) = claims.next_entry::<String, Value>()? {
                    if all.insert(name, value).is_some() {
                        return Err(A::Error::custom("a claim comes twice"));
                    }
                }
                Ok(Claims(all))
            }
        }

        deserializer.deserialize_map(Once)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn claims(value: Value) -> IdentityClaims {
        let Value::Object(all) = value else { unreachable!("an object") };
        IdentityClaims { subject: "1".to_owned(), expires_at: OffsetDateTime::UNIX_EPOCH, all }
    }

    #[test]
    fn roles_are_found_by_the_path_of_their_claim() {
        let nested = claims(json!({ "realm_access": { "roles": ["sales", "admin"] } }));
        assert_eq!(nested.values("realm_access.roles"), ["sales", "admin"]);
        assert!(nested.values("realm_access").is_empty() && nested.values("roles").is_empty());
        let flat = claims(json!({ "https://shop.example/roles": "sales admin", "n": 7 }));
        assert_eq!(flat.values("https://shop.example/roles"), ["sales", "admin"]);
        assert!(flat.values("n").is_empty());
    }

    #[test]
    fn a_claim_that_comes_twice_is_refused() {
        assert!(serde_json::from_str::<Claims>(r#"{"sub":"1","aud":"2"}"#).is_ok());
        assert!(serde_json::from_str::<Claims>(r#"{"sub":"1","sub":"2"}"#).is_err());
    }
}
