//! Builds the client of the identity provider.

use std::sync::Arc;
use std::time::Duration;

use super::shared::Shared;
use crate::account::Accounts;
use crate::config::Config;
use crate::event::{self, PrivateNetworks, WebhookClient};
use crate::identity::{Identity, Parts};

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
    let client = WebhookClient {
        networks: PrivateNetworks::parse(&settings.private_networks).map_err(ours)?,
        tls: Arc::new(event::tls(&settings.ca_file).map_err(ours)?),
        timeout: Duration::from_millis(settings.timeout_ms),
        traces: shared.traces.clone(),
    };
    let parts = Parts {
        pool: shared.pool.clone(),
        breaker: shared.breakers.mysql.clone(),
        accounts: accounts.clone(),
        clock: shared.clock.clone(),
        client,
    };
    Identity::new(settings, parts).map(Arc::new).map(Some)
}
