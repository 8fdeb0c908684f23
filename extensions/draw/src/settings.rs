//! The settings of draws.

use draw_proof::ShopKeys;
use outgoing_https::PrivateNetworks;
use settings::{Secret, Sections, check, rules, sections};

/// The commented defaults.
pub(crate) const DEFAULTS: &str = include_str!("defaults.toml");

sections! {
    Draw {
        signing_key: Secret,
        signing_key_previous: Secret,
        beacon: String,
        drand_url: String,
        private_networks: PrivateNetworks,
        timeout_ms: u64,
        round_after_seconds: u32,
        entries_max: u32,
        poll_ms: u64,
    }
}

impl Draw {
    /// Reads and checks the section.
    pub(crate) fn read(sections: &Sections) -> Result<Self, String> {
        let settings: Self = sections.read("draw")?;
        check(rules! {
            settings.keys().is_some() =>
                "draw.signing_key and signing_key_previous must be 64 hexadecimal digits, as `openssl rand -hex 32` makes them";
            matches!(settings.beacon.as_str(), "drand" | "local") =>
                "draw.beacon must be drand or local";
            (10..=60_000).contains(&settings.poll_ms)
                && (100..=60_000).contains(&settings.timeout_ms)
                && (1..=86_400).contains(&settings.round_after_seconds)
                && (1..=2_000_000).contains(&settings.entries_max) =>
                "draw.poll_ms must be 10 to 60000, timeout_ms 100 to 60000, round_after_seconds 1 to 86400, and entries_max 1 to 2000000";
        })?;
        Ok(settings)
    }

    /// The keys that sign lists and promises; `None` when a text is no key.
    pub(crate) fn keys(&self) -> Option<ShopKeys> {
        ShopKeys::parse(self.signing_key.reveal(), self.signing_key_previous.reveal())
    }
}
