//! Builds the client of the identity provider.

use std::sync::Arc;

use outgoing_https::PrivateNetworks;

use super::shared::{Shared, https_client};
use crate::account::Accounts;
use crate::config::Config;
use crate::identity::{Identity, IdentityParts};

pub(super) fn identity(
    config: &Config,
    shared: &Shared,
    accounts: &Accounts,
) -> Result<Option<Arc<Identity>>, String> {
    let settings = &config.identity;
    if settings.issuer.is_empty() {
        return Ok(None);
    }
    let ours = |why: String| format!("identity.{why}");
    let networks = PrivateNetworks::parse(&settings.private_networks).map_err(ours)?;
    let client = https_client(networks, &settings.ca_file, settings.timeout_ms);
    let parts = IdentityParts {
        pool: shared.pool.clone(),
        breaker: shared.breakers.mysql.clone(),
        accounts: accounts.clone(),
        clock: shared.clock.clone(),
        client: client.map_err(ours)?,
    };
    Identity::new(settings, parts).map(Arc::new).map(Some)
}
