//! Events for other systems: every change of an order that is durable, at least once.
//!
//! The transaction of a change writes the *outbox* (`ledger::rows::outbox`). [`sql::relay`] moves the rows into the
//! *log*, which numbers them. [`deliver`] sends them on to the [`endpoints`]: signed webhooks. [`tend`] measures, and
//! deletes old events.

pub mod deliver;
pub mod endpoints;
pub mod filter;
pub mod metrics;
pub mod problems;
mod receiver;
mod route;
mod settings;
/// The statements. The ledger writes the outbox.
pub mod sql {
    pub mod deliveries;
    pub mod endpoints;
    pub mod event_log;
    pub mod relay;
}
mod tend;

use std::sync::Arc;
use std::time::Duration;

use ::settings::Sections;
use extension::job::ScheduledJob;
use extension::{Core, Extension, Parts};
use ledger::erasure::traces::{Fate, Trace};
use outgoing_https::HttpsClient;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::routes_state;
use webhooks::WebhookClient;

use crate::deliver::Deliverer;
use crate::endpoints::Endpoints;
use crate::metrics::EventMetrics;
use crate::settings::Events as Settings;
use crate::sql::relay;
use crate::tend::TendEvents;

/// The pause between two runs of the job.
const TEND_PERIOD: Duration = Duration::from_secs(1);

routes_state!(EventsState, EventsParts { endpoints: Endpoints });

/// The extension.
pub static EXTENSION: Extension = Extension {
    name: "events",
    defaults: settings::DEFAULTS,
    check: |sections| Settings::read(sections).map(drop),
    problems: problems::ALL,
    // `events.keep_hours`.
    personal_data: &[Trace { table: "event_log", column: "payload", fate: Fate::ForATime }],
    document: || routes().into_openapi(),
    build,
};

fn build(core: &Core, sections: &Sections) -> Result<Parts, String> {
    let settings = Settings::read(sections)?;
    let enabled = core.outbox.is_enabled();
    let endpoints = Endpoints { ledger: core.ledger.clone(), enabled };
    let state = EventsState::new(Arc::clone(&core.kit), EventsParts { endpoints });
    let metrics = EventMetrics::default();
    core.kit.metrics.add(|registry| metrics.register(registry));
    let mut parts = Parts { routes: routes().with_state(state), ..Parts::default() };
    if enabled {
        run(core, &settings, &metrics, &mut parts)?;
    }
    Ok(parts)
}

/// Adds what runs beside the requests.
fn run(
    core: &Core,
    settings: &Settings,
    metrics: &EventMetrics,
    parts: &mut Parts,
) -> Result<(), String> {
    let timeout = Duration::from_millis(settings.timeout_ms);
    let https = HttpsClient::new(settings.private_networks.clone(), &settings.ca_file, timeout)
        .map_err(|why| format!("events.{why}"))?;
    let poll = Duration::from_millis(settings.poll_ms);
    let pool = &core.ledger.pool;
    let deliverer = Deliverer {
        core: core.clone(),
        settings: settings.clone(),
        webhooks: WebhookClient { https, traces: core.traces.clone() },
        metrics: metrics.clone(),
    };
    let drained = core.kit.lifecycle.drained();
    let relay = relay::run_relay(pool.clone(), poll, drained.clone());
    parts.workers.push(("event log", Box::pin(relay)));
    parts.workers.push(("event deliveries", Box::pin(deliverer.run(drained))));
    let tend = TendEvents::new(pool.clone(), metrics.clone(), settings.keep_hours);
    parts.jobs.push(ScheduledJob::new("events", TEND_PERIOD, tend));
    Ok(())
}

fn routes() -> OpenApiRouter<EventsState> {
    OpenApiRouter::new()
        .routes(routes!(route::list, route::create))
        .routes(routes!(route::switch, route::delete))
        .routes(routes!(route::replay))
        .routes(routes!(route::dead_letters))
        .routes(routes!(route::log))
}
