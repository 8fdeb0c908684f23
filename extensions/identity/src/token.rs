//! Tokens of the identity provider (JSON Web Tokens): which ones are believed, and what they say.
//!
//! The token only chooses a key of the provider's set, by its id and its algorithm, which has to be one that the key is
//! for; addresses and keys within a token are never used.

use std::collections::HashSet;
use std::fmt;

use extension::ports::IDENTITY_TOKEN_BYTES_MAX;
use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, Header, TokenData, Validation, decode, decode_header};
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use serde_json::{Map, Value};
use time::OffsetDateTime;

use crate::keys::{Key, Keys};
use crate::problems::{IDENTITY_REFUSED, TOKEN_EXPIRED, not_believed};
use crate::settings::Identity;
use web::problem::Problem;
use web::too_long;

/// The longest id of a key, in bytes.
const KEY_ID_BYTES_MAX: usize = 256;
/// The longest subject, in characters, as OpenID Connect says.
pub const SUBJECT_LENGTH_MAX: usize = 255;
/// The claims that a token must have, besides those that are compared here.
const REQUIRED: [&str; 2] = ["exp", "sub"];
/// The types of token that are read; the first one is that of ID tokens and of most access tokens.
const TYPES: [&str; 3] = ["JWT", "at+jwt", "application/at+jwt"];
/// What Keycloak calls tokens that sign nobody in, in the claim `typ`.
const KEYCLOAK_OTHERS: [&str; 3] = ["Refresh", "Offline", "Logout"];
/// Google's tokens name their issuer in either way, as its page on the validation of ID tokens says.
const GOOGLE: [&str; 2] = ["https://accounts.google.com", "accounts.google.com"];
/// How much of a claim that does not fit is written into the log, in characters.
const SHOWN_MAX: usize = 200;

/// What a genuine token says.
#[derive(Clone, Debug)]
pub struct IdentityClaims {
    /// The provider's name for the user.
    pub subject: String,
    /// The end of its validity.
    pub expires_at: OffsetDateTime,
    /// Whether it says that it is an access token, and so no ID token.
    pub is_of_access: bool,
    /// All claims.
    pub all: Map<String, Value>,
}

impl Identity {
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
    ) -> Result<IdentityClaims, Problem> {
        if token.len() > IDENTITY_TOKEN_BYTES_MAX {
            return Err(IDENTITY_REFUSED.detail(format!(
                "{} Let the identity provider put fewer groups into it.",
                too_long("token", token.len(), IDENTITY_TOKEN_BYTES_MAX)
            )));
        }
        let header = decode_header(token).map_err(|error| not_believed(&error.to_string()))?;
        if header.crit.is_some() || header.enc.is_some() || header.zip.is_some() {
            return Err(not_believed("has a header that we do not know"));
        }
        let is_ours = |kind: &String| TYPES.iter().any(|known| known.eq_ignore_ascii_case(kind));
        if !header.typ.as_ref().is_none_or(is_ours) {
            return Err(not_believed("of another type"));
        }
        let key_id = header.kid.as_deref();
        if key_id.is_some_and(|id| id.len() > KEY_ID_BYTES_MAX) {
            return Err(not_believed("id of the key too long"));
        }
        let found = keys.find(key_id, header.alg).await?;
        let TokenData { header, claims: Claims(all) } = self.decode(token, &header, &found)?;
        if let Some(what) = foreign_kind(&all) {
            return Err(not_believed(what));
        }
        if !is_for(&all, audiences) {
            let said = all.get("aud").or_else(|| all.get("client_id"));
            return Err(not_believed(&format!("for {}, not for {audiences:?}", shown(said))));
        }
        self.read_claims(&header, all)
    }

    /// Verifies a token with the keys that it may be signed with.
    fn decode(
        &self,
        token: &str,
        header: &Header,
        keys: &[Key],
    ) -> Result<TokenData<Claims>, Problem> {
        let validation = self.validation(header.alg);
        let mut last = None;
        for key in keys {
            match decode::<Claims>(token, &key.decoding, &validation) {
                Ok(decoded) => return Ok(decoded),
                Err(error) => {
                    let may_be_of_another_key = matches!(error.kind(), ErrorKind::InvalidSignature);
                    last = Some(error);
                    if !may_be_of_another_key {
                        break;
                    }
                }
            }
        }
        Err(last.map_or_else(|| not_believed("unknown key"), |error| problem_of(&error)))
    }

    fn validation(&self, algorithm: Algorithm) -> Validation {
        let mut validation = Validation::new(algorithm);
        validation.leeway = self.clock_skew_seconds;
        validation.validate_nbf = true;
        // Both are compared here: the library knows neither a client instead of an audience, nor one issuer alone.
        validation.validate_aud = false;
        validation.required_spec_claims = HashSet::from(REQUIRED.map(str::to_owned));
        validation
    }

    /// Whether `said` is the provider's name.
    pub(crate) fn is_issuer(&self, said: &str) -> bool {
        said == self.issuer || (self.issuer == GOOGLE[0] && said == GOOGLE[1])
    }

    /// Reads the claims of a genuine token.
    fn read_claims(
        &self,
        header: &Header,
        all: Map<String, Value>,
    ) -> Result<IdentityClaims, Problem> {
        let text = |name: &str| all.get(name).and_then(Value::as_str);
        let number = |name: &str| all.get(name).and_then(Value::as_f64);
        if !text("iss").is_some_and(|said| self.is_issuer(said)) {
            let said = shown(all.get("iss"));
            let ours = &self.issuer;
            return Err(not_believed(&format!(
                "of the issuer {said}; identity.issuer is {ours:?}"
            )));
        }
        let subject = text("sub").filter(|it| !it.is_empty());
        let subject = subject.ok_or_else(|| not_believed("without a subject"))?;
        let length = subject.chars().count();
        if length > SUBJECT_LENGTH_MAX {
            tracing::warn!(length, "a subject of the identity provider is too long to be kept");
            return Err(IDENTITY_REFUSED.detail(too_long("sub", length, SUBJECT_LENGTH_MAX)));
        }
        let seconds = |at: f64| OffsetDateTime::from_unix_timestamp(at as i64).ok();
        let expires_at =
            number("exp").and_then(seconds).ok_or_else(|| not_believed("without an end"))?;
        let issued_at = number("iat").and_then(seconds);
        if issued_at.is_some_and(|at| at > OffsetDateTime::now_utc() + self.clock_skew()) {
            return Err(not_believed("issued in the future"));
        }
        let is_typed = header.typ.as_ref().is_some_and(|kind| !kind.eq_ignore_ascii_case(TYPES[0]));
        // Amazon Cognito and Keycloak say it in a claim.
        let is_of_access =
            is_typed || text("token_use") == Some("access") || text("typ") == Some("Bearer");
        Ok(IdentityClaims { subject: subject.to_owned(), expires_at, is_of_access, all })
    }
}

impl IdentityClaims {
    /// A claim that is a text.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.all.get(name).and_then(Value::as_str)
    }
}

/// The reason why a genuine token signs nobody in, if there is one.
fn foreign_kind(all: &Map<String, Value>) -> Option<&'static str> {
    let is = |name: &str, values: &[&str]| {
        all.get(name).is_some_and(|said| values.iter().any(|value| said == value))
    };
    if all.contains_key("events") {
        // OpenID Connect Back-Channel Logout, section 2.4, and RFC 8417.
        return Some("a message about an event, such as a logout");
    }
    if all.contains_key("cnf") {
        // RFC 7800: only who proves to have the key may use it.
        return Some("bound to a key that its bearer does not show here");
    }
    if is("typ", &KEYCLOAK_OTHERS) {
        return Some("a refresh token or a logout token");
    }
    let is_of_cognito = all.contains_key("token_use");
    (is_of_cognito && !is("token_use", &["id", "access"])).then_some("of a use that we do not know")
}

/// Whether a token is for one of `audiences`. Amazon Cognito's access tokens have no audience, and name the client.
fn is_for(all: &Map<String, Value>, audiences: &[String]) -> bool {
    let is_ours = |value: &Value| audiences.iter().any(|ours| value == ours.as_str());
    match all.get("aud") {
        Some(Value::Array(values)) => {
            values.iter().all(Value::is_string) && values.iter().any(is_ours)
        }
        Some(value) => is_ours(value),
        None => {
            let is_of_access = all.get("token_use").is_some_and(|said| said == "access");
            is_of_access && all.get("client_id").is_some_and(is_ours)
        }
    }
}

/// A claim, for the log.
fn shown(value: Option<&Value>) -> String {
    let text = value.map_or_else(|| "nobody".to_owned(), Value::to_string);
    text.chars().take(SHOWN_MAX).collect()
}

fn problem_of(error: &jsonwebtoken::errors::Error) -> Problem {
    match error.kind() {
        ErrorKind::ExpiredSignature => TOKEN_EXPIRED.problem(),
        _ => not_believed(&error.to_string()),
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
