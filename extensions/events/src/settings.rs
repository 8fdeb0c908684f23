//! The settings of events.

use std::path::PathBuf;

use outgoing_https::PrivateNetworks;
use settings::{Sections, check, rules, sections};

/// The commented defaults.
pub(crate) const DEFAULTS: &str = include_str!("defaults.toml");

sections! {
    Events {
        enabled: bool,
        poll_ms: u64,
        batch_max: u32,
        timeout_ms: u64,
        refusals_max: u32,
        pause_seconds_max: u64,
        keep_hours: u32,
        private_networks: PrivateNetworks,
        ca_file: PathBuf,
    }
}

impl Events {
    /// Reads and checks the section.
    pub(crate) fn read(sections: &Sections) -> Result<Self, String> {
        let settings: Self = sections.read("events")?;
        check(rules! {
        (1..=1_000).contains(&settings.batch_max)
                && (100..=60_000).contains(&settings.timeout_ms)
                && (1..=87_600).contains(&settings.keep_hours) =>
                "events.batch_max must be 1 to 1000, timeout_ms 100 to 60000, and keep_hours 1 to 87600";
        })?;
        Ok(settings)
    }
}
