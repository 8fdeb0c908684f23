//! The cookie in which browsers keep the session token.

use std::time::Duration;

use time::OffsetDateTime;

/// The session cookie of this service.
#[derive(Clone, Copy, Debug)]
pub struct SessionCookie {
    /// Whether browsers send it over TLS only.
    pub secure: bool,
}

impl SessionCookie {
    /// The name. The prefix `__Host-` makes browsers bind the cookie to TLS and to this host.
    #[must_use]
    pub fn name(self) -> &'static str {
        if self.secure { "__Host-seckill" } else { "seckill" }
    }

    /// The name of the cookie that a browser has while it is at the identity provider.
    #[must_use]
    pub fn sign_in_name(self) -> &'static str {
        if self.secure { "__Host-seckill-sign-in" } else { "seckill-sign-in" }
    }

    /// The value of `Set-Cookie` for the way to the identity provider and back; a life of zero
    /// deletes the cookie. `Lax` lets the browser send it when the provider sends the browser back.
    #[must_use]
    pub fn set_sign_in(self, value: &str, life: Duration) -> String {
        self.write(self.sign_in_name(), value, life)
    }

    /// The value of `Set-Cookie` that stores `token` for `life`; a life of zero deletes the cookie.
    #[must_use]
    pub fn set(self, token: &str, life: Duration) -> String {
        self.write(self.name(), token, life)
    }

    /// The value of `Set-Cookie` that stores `token` from `now` until it expires.
    #[must_use]
    pub fn set_until(self, token: &str, expires_at: OffsetDateTime, now: OffsetDateTime) -> String {
        self.set(token, (expires_at - now).try_into().unwrap_or_default())
    }

    fn write(self, name: &str, value: &str, life: Duration) -> String {
        let seconds = life.as_secs();
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }
}
