//! The settings of the identity provider.

use std::path::PathBuf;

use outgoing_https::PrivateNetworks;
use serde::Deserialize;
use settings::{List, Secret, Sections, check, rules, sections};

/// The commented defaults.
pub(crate) const DEFAULTS: &str = include_str!("defaults.toml");

sections! {
    Identity {
        issuer: String,
        name: String,
        client_id: String,
        client_secret: Secret,
        redirect_url: String,
        scopes: String,
        audience: List,
        algorithms: List,
        jwks_url: String,
        jwks_file: PathBuf,
        jwks_seconds_max: u64,
        clock_skew_seconds: u64,
        role_claim: String,
        operator_values: List,
        admin_values: List,
        timeout_ms: u64,
        private_networks: PrivateNetworks,
        ca_file: PathBuf,
    }
}

/// What is read of the core's section `session`.
#[derive(Deserialize)]
struct OwnAccounts {
    own_accounts: bool,
}

impl Identity {
    /// Reads and checks the section.
    pub(crate) fn read(sections: &Sections) -> Result<Self, String> {
        let settings: Self = sections.read("identity")?;
        let OwnAccounts { own_accounts } = sections.read("session")?;
        check(rules! {
        own_accounts || !settings.issuer.is_empty() =>
            "session.own_accounts = false needs identity.issuer, or nobody can sign in";
        settings.issuer.len() <= 500 =>
            "identity.issuer must have at most 500 characters, as the ledger keeps it";
        settings.issuer.is_empty()
            || !(settings.client_id.is_empty() && settings.audience.is_empty()) =>
            "identity.issuer needs identity.client_id or identity.audience, or tokens for other services are accepted";
        settings.client_id.is_empty() || !settings.redirect_url.is_empty() =>
            "identity.client_id needs identity.redirect_url, the address of /api/session/callback";
        !settings.operator_values.has_a_cut_name() && !settings.admin_values.has_a_cut_name() =>
            "identity.operator_values and admin_values: a comma cuts CN=Sales,OU=Shop in two; write a list: [\"CN=Sales,OU=Shop\"]";
        settings.jwks_url.is_empty() || settings.jwks_file.as_os_str().is_empty() =>
            "identity.jwks_url and identity.jwks_file exclude each other";
        settings.clock_skew_seconds <= 300
            && (100..=60_000).contains(&settings.timeout_ms) =>
            "identity.clock_skew_seconds must be at most 300, and timeout_ms 100 to 60000";
        })?;
        Ok(settings)
    }
}
