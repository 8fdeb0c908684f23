//! Who sends a request: reads the token, asks whether its session goes on, and counts the request. Browsers keep the
//! token in a cookie.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use time::OffsetDateTime;

use crate::problem::Problem;
use crate::problems;
use crate::rates::Rates;
use crate::token::{Claims, Holder, Role, TokenError, Tokens};
use shop_domain::{BuyerReference, Clock, LedgerError, ShopId, UserId};
use shop_metrics::Metrics;

/// A session after a sign-in.
#[derive(Clone, Debug)]
pub struct Session {
    /// The bearer token.
    pub token: String,
    pub user: UserId,
    /// The user's role.
    pub role: Role,
    /// The expiry of the token.
    pub expires_at: OffsetDateTime,
}

/// What this instance knows of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionState {
    /// Not ended.
    Live,
    /// Signed out.
    Ended,
    /// Only the ledger knows: ask [`Sessions::has_begun`].
    Unlisted,
    /// Nothing is known yet, so no token may be accepted.
    Unread,
}

/// The port to the accounts: which sessions go on, and who the guests of a shop are.
#[async_trait]
pub trait Sessions: Send + Sync {
    /// What this instance knows of the session of a token.
    fn state(&self, claims: &Claims) -> SessionState;

    /// Whether the ledger has begun the generation of a token.
    ///
    /// # Errors
    /// The ledger's.
    async fn has_begun(&self, claims: &Claims) -> Result<bool, LedgerError>;

    /// The buyer whom a shop names by `reference`; the first request with it makes the guest. `None`: the ledger does
    /// not know the shop, because it is an older copy of the one that has made the token.
    ///
    /// # Errors
    /// The ledger's.
    async fn guest(
        &self,
        shop: ShopId,
        reference: BuyerReference,
    ) -> Result<Option<UserId>, LedgerError>;
}

/// Authenticates requests. Clones share everything.
#[derive(Clone)]
pub struct Authenticator(Arc<AuthenticatorParts>);

/// What an [`Authenticator`] works with.
pub struct AuthenticatorParts {
    pub tokens: Tokens,
    pub sessions: Arc<dyn Sessions>,
    pub rates: Arc<Rates>,
    pub cookie: SessionCookie,
    pub clock: Clock,
    pub metrics: Metrics,
}

impl Authenticator {
    /// Shares the parts.
    pub fn new(parts: AuthenticatorParts) -> Self {
        Self(Arc::new(parts))
    }

    /// The claims of a token whose session goes on. A request of a buyer counts for the buyer's rate.
    ///
    /// # Errors
    /// 401 for a token that is not valid, 429 above the rate, 503 while nothing is known.
    pub async fn claims(&self, token: &str) -> Result<Claims, Problem> {
        let parts = &self.0;
        let claims = parts.tokens.read(token, self.now()).map_err(|error| match error {
            TokenError::Invalid if is_json_web_token(token) => problems::INVALID_TOKEN.detail(
                "This is a token of an identity provider; exchange it for one of ours by POST /api/session.",
            ),
            TokenError::Invalid => problems::INVALID_TOKEN.problem(),
            TokenError::Expired => problems::TOKEN_EXPIRED.problem(),
        })?;
        match parts.sessions.state(&claims) {
            SessionState::Live => {}
            SessionState::Ended => return Err(problems::INVALID_TOKEN.problem()),
            SessionState::Unread => return Err(Problem::dependency("mysql")),
            SessionState::Unlisted if parts.sessions.has_begun(&claims).await? => {}
            SessionState::Unlisted => return Err(problems::INVALID_TOKEN.problem()),
        }
        if let Holder::User { id, role: Role::Buyer } = claims.holder {
            parts.rates.user(id).inspect_err(|_| parts.metrics.rate_limited("user"))?;
        }
        Ok(claims)
    }

    /// The buyer whom a shop names by `reference`.
    ///
    /// # Errors
    /// Those of the ledger; 401, if it does not know the shop.
    pub async fn guest(&self, shop: ShopId, reference: BuyerReference) -> Result<UserId, Problem> {
        let guest = self.0.sessions.guest(shop, reference).await?;
        guest.ok_or_else(|| problems::INVALID_TOKEN.problem())
    }

    /// Whether a session is live, for a stream that goes on for long: its token has not expired and was not signed out.
    pub fn is_live(&self, claims: &Claims) -> bool {
        claims.expires_at > self.now() && self.0.sessions.state(claims) != SessionState::Ended
    }

    /// The name of the session cookie.
    pub fn cookie_name(&self) -> &'static str {
        self.0.cookie.name()
    }

    /// The time by the clock of this instance.
    pub fn now(&self) -> OffsetDateTime {
        self.0.clock.now()
    }
}

/// Whether a token has the form of an identity provider's: three parts, of which the first is a JSON object.
fn is_json_web_token(token: &str) -> bool {
    token.starts_with("eyJ") && token.matches('.').count() == 2
}

/// The session cookie of this service.
#[derive(Clone, Copy, Debug)]
pub struct SessionCookie {
    /// Whether browsers send it over TLS only.
    pub secure: bool,
}

impl SessionCookie {
    /// The name. The prefix `__Host-` makes browsers bind the cookie to TLS and to this host.
    pub fn name(self) -> &'static str {
        if self.secure { "__Host-seckill" } else { "seckill" }
    }

    /// The name of the cookie that a browser has while it is at the identity provider.
    pub fn sign_in_name(self) -> &'static str {
        if self.secure { "__Host-seckill-sign-in" } else { "seckill-sign-in" }
    }

    /// The value of `Set-Cookie` for the way to the identity provider and back; a life of zero
    /// deletes the cookie. `Lax` lets the browser send it when the provider sends the browser back.
    pub fn set_sign_in(self, value: &str, life: Duration) -> String {
        self.write(self.sign_in_name(), value, life)
    }

    /// The value of `Set-Cookie` that stores `token` for `life`; a life of zero deletes the cookie.
    pub fn set(self, token: &str, life: Duration) -> String {
        self.write(self.name(), token, life)
    }

    /// The value of `Set-Cookie` that stores `token` from `now` until it expires.
    pub fn set_until(self, token: &str, expires_at: OffsetDateTime, now: OffsetDateTime) -> String {
        self.set(token, (expires_at - now).try_into().unwrap_or_default())
    }

    fn write(self, name: &str, value: &str, life: Duration) -> String {
        let seconds = life.as_secs();
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }
}
