//! The settings of payments.

use std::path::PathBuf;

use serde::Deserialize;
use settings::{Secret, Sections, check, rules, sections};

/// The commented defaults.
pub(crate) const DEFAULTS: &str = include_str!("defaults.toml");
/// The shortest secret, in bytes.
const SECRET_BYTES_MIN: usize = 24;

sections! {
    Payment {
        provider: String,
        checkout_url: String,
        secret: Secret,
        refund_url: String,
        currency: String,
    }
}

impl Payment {
    /// Reads and checks the section. The core checks the currency, of which it makes use, too.
    pub(crate) fn read(sections: &Sections) -> Result<Self, String> {
        let settings: Self = sections.read("payment")?;
        check(rules! {
        matches!(settings.provider.as_str(), "demo" | "webhook") =>
            "payment.provider must be demo or webhook";
        settings.provider == "demo" || settings.checkout_url.contains("{order}") =>
            "payment.provider = webhook needs payment.checkout_url with {order}";
        settings.provider == "demo"
            || webhooks::secret_bytes(settings.secret.reveal())
                .is_some_and(|bytes| bytes.len() >= SECRET_BYTES_MIN) =>
            "payment.provider = webhook needs payment.secret: whsec_ and at least 24 random bytes in base64";
        })?;
        Ok(settings)
    }
}

/// What is read of the section of the extension `events`: how other systems are called.
#[derive(Deserialize)]
pub(crate) struct Outgoing {
    #[serde(default)]
    pub ca_file: PathBuf,
    #[serde(default = "timeout_ms")]
    pub timeout_ms: u64,
}

fn timeout_ms() -> u64 {
    10_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_provider_of_payments_needs_an_address_and_a_long_secret() {
        let refused = |url: &str, secret: &str| {
            let mut sections = Sections::new(toml::from_str(DEFAULTS).expect("the defaults"));
            sections.set("payment", "provider", "webhook");
            sections.set("payment", "checkout_url", url);
            sections.set("payment", "secret", secret);
            Payment::read(&sections).expect_err("refused")
        };
        let error = refused("https://pay.example", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw");
        assert!(error.contains("{order}") && !error.contains("secret"), "{error}");
        // One byte less than the secret above.
        let error =
            refused("https://pay.example/{order}", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaQ=");
        assert!(error.contains("payment.secret") && !error.contains("{order}"), "{error}");
    }
}
