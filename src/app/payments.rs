//! Builds the payments with their provider.

use std::path::PathBuf;
use std::sync::Arc;

use serde::Deserialize;

use outgoing_https::{PrivateNetworks, Target};

use super::shared::Shared;
use crate::config::Config;
use crate::order::Orders;
use crate::payment::{Demo, PaymentParts, Payments, Provider, Webhook};

/// What is read of the section of the extension `events`.
#[derive(Deserialize)]
struct Outgoing {
    #[serde(default)]
    ca_file: PathBuf,
    #[serde(default = "timeout_ms")]
    timeout_ms: u64,
}

fn timeout_ms() -> u64 {
    10_000
}

/// The shortest secret, in bytes.
const SECRET_BYTES_MIN: usize = 24;

pub(super) fn payments(
    config: &Config,
    shared: &Shared,
    orders: &Orders,
) -> Result<Payments, String> {
    Ok(Payments::new(PaymentParts {
        ledger: shared.ledger.clone(),
        orders: orders.clone(),
        provider: provider(config, shared)?,
        clock: shared.clock.clone(),
        currency: config.currency()?.into(),
    }))
}

fn provider(config: &Config, shared: &Shared) -> Result<Arc<dyn Provider>, String> {
    let settings = &config.payment;
    if settings.provider == "demo" {
        return Ok(Arc::new(Demo));
    }
    let secret = settings.secret.reveal();
    if webhooks::secret_bytes(secret).is_none_or(|bytes| bytes.len() < SECRET_BYTES_MIN) {
        return Err(format!(
            "payment.secret must be whsec_ and at least {SECRET_BYTES_MIN} bytes in base64"
        ));
    }
    let refunds = match settings.refund_url.as_str() {
        "" => None,
        url => Some(
            Target::parse(url)
                .map_err(|why| format!("payment.refund_url cannot be used: {why}"))?,
        ),
    };
    let events: Outgoing = config.sections.read("events")?;
    // The operator who writes the settings may name any address.
    let client = shared.webhook_client(PrivateNetworks::all(), &events.ca_file, events.timeout_ms);
    let client = client.map_err(|why| format!("events.{why}"))?;
    Ok(Arc::new(Webhook {
        checkout_template: settings.checkout_url.clone(),
        secret: secret.to_owned(),
        refunds,
        client,
    }))
}
