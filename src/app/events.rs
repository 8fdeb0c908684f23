//! The workers that bring events to other systems.

use std::time::Duration;

use outgoing_https::PrivateNetworks;

use super::shared::Shared;
use super::workers::Worker;
use crate::config::Config;
use crate::event::{Deliverer, DelivererParts, run_relay};

/// Builds the workers; none if events are switched off.
pub(super) fn workers(config: &Config, shared: &Shared) -> Result<Vec<Worker>, String> {
    let settings = &config.events;
    let networks = PrivateNetworks::parse(&settings.private_networks)
        .map_err(|why| format!("events.{why}"))?;
    if !settings.enabled {
        return Ok(Vec::new());
    }
    let poll = Duration::from_millis(settings.poll_ms);
    let webhooks = shared.webhook_client(networks, &settings.ca_file, settings.timeout_ms);
    let deliverer = Deliverer::new(DelivererParts {
        pool: shared.pool.clone(),
        webhooks: webhooks.map_err(|why| format!("events.{why}"))?,
        metrics: shared.metrics.clone(),
        clock: shared.clock.clone(),
        shop_currency: config.currency()?,
        instance: shared.instance.clone(),
        poll,
        batch_max: settings.batch_max,
        refusals_max: settings.refusals_max,
        pause_max: Duration::from_secs(settings.pause_seconds_max),
    });
    let drained = shared.lifecycle.drained();
    let relay = run_relay(shared.pool.clone(), poll, drained.clone());
    Ok(vec![("event log", Box::pin(relay)), ("event deliveries", Box::pin(deliverer.run(drained)))])
}
