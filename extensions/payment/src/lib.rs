//! Payments: who takes the money for an order, and how the service learns of it.
//!
//! A [`provider`] is one of two. `demo` records "paid" when the buyer presses *Pay*. `webhook` sends the buyer to a
//! checkout page, and its signed messages report each payment. The messages may come late, twice, or in any order; each
//! payment is taken once, or has to go back.

mod message;
mod payments;
mod problems;
mod provider;
mod refunds;
mod route;
mod settings;
mod take_error;
mod verifier;

use std::sync::Arc;
use std::time::Duration;

use ::settings::Sections;
use extension::job::ScheduledJob;
use extension::ports::PaidElsewhere;
use extension::{Core, Extension, Parts};
use outgoing_https::{HttpsClient, PrivateNetworks, Target};
use prometheus_client::metrics::gauge::Gauge;
use shop_metrics::Metrics;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::routes_state;
use webhooks::WebhookClient;

use crate::payments::Payments;
use crate::provider::Provider;
use crate::refunds::RequestRefunds;
use crate::settings::{Outgoing, Payment as Settings};

/// The pause between two runs of the job.
const REFUNDS_PERIOD: Duration = Duration::from_secs(1);

routes_state!(PaymentState, PaymentStateParts { payments: Payments });

/// The extension.
pub static EXTENSION: Extension = Extension {
    name: "payment",
    defaults: settings::DEFAULTS,
    check: |sections| Settings::read(sections).map(drop),
    problems: problems::ALL,
    personal_data: &[],
    document: || routes().into_openapi(),
    build,
};

fn build(core: &Core, sections: &Sections) -> Result<Parts, String> {
    let settings = Settings::read(sections)?;
    let outgoing = sections.read("events")?;
    let payments = Payments::new(core.clone(), provider(core, &settings, &outgoing)?);
    let open = open_refunds(&core.kit.metrics);
    let mut parts = Parts::default();
    if !payments.are_made_here() {
        let payments = payments.clone();
        let refunds = RequestRefunds { payments, open };
        parts.jobs.push(ScheduledJob::new("refunds", REFUNDS_PERIOD, refunds));
        parts.paid_elsewhere = PaidElsewhere(true);
    }
    let state = PaymentState::new(Arc::clone(&core.kit), PaymentStateParts { payments });
    parts.routes = routes().with_state(state);
    Ok(parts)
}

/// Adds the metric of payments that have to go back, and are not known to have done so.
pub fn open_refunds(metrics: &Metrics) -> Gauge {
    let open = Gauge::default();
    let help = "Payments that have to go back, at most 100000";
    metrics.add(|registry| registry.register("refunds_open", help, open.clone()));
    open
}

fn provider(
    core: &Core,
    settings: &Settings,
    outgoing: &Outgoing,
) -> Result<Option<Arc<Provider>>, String> {
    if settings.provider == "demo" {
        return Ok(None);
    }
    let refunds = match settings.refund_url.as_str() {
        "" => None,
        url => Some(
            Target::parse(url)
                .map_err(|why| format!("payment.refund_url cannot be used: {why}"))?,
        ),
    };
    let timeout = Duration::from_millis(outgoing.timeout_ms);
    // The operator who writes the settings may name any address.
    let https = HttpsClient::new(PrivateNetworks::all(), &outgoing.ca_file, timeout)
        .map_err(|why| format!("events.{why}"))?;
    Ok(Some(Arc::new(Provider {
        checkout_template: settings.checkout_url.clone(),
        secret: settings.secret.reveal().to_owned(),
        refunds,
        client: WebhookClient { https, traces: core.traces.clone() },
    })))
}

fn routes() -> OpenApiRouter<PaymentState> {
    OpenApiRouter::new()
        .routes(routes!(route::pay))
        .routes(routes!(route::take))
        .routes(routes!(route::list))
        .routes(routes!(route::refund))
}
