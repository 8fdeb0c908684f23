//! The cookie in which browsers keep the session token.

use std::time::Duration;

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

    /// The value of `Set-Cookie` that stores `token` for `life`; a life of zero deletes the cookie.
    #[must_use]
    pub fn set(self, token: &str, life: Duration) -> String {
        let (name, seconds) = (self.name(), life.as_secs());
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{name}={token}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
    }
}
