//! Accounts from elsewhere: an identity provider (OpenID Connect) says who a user is.
//!
//! A browser signs in on the provider's page ([`sign_in`]); a program exchanges a token of the provider ([`client`]).
//! Either gets a session of ours, so the purchase path knows nothing of the provider. A subject becomes a user once, at
//! its first sign-in.

mod claim_path;
mod client;
mod keys;
mod problems;
mod provider;
mod route;
mod settings;
mod sign_in;
mod signature;
mod token;

use std::sync::Arc;
use std::time::Duration;

use ::settings::Sections;
use extension::ports::IdentityProvider;
use extension::{Core, Extension, Parts};
use outgoing_https::HttpsClient;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::routes_state;

use crate::client::Client;
use crate::settings::Identity as Settings;

routes_state!(IdentityState, IdentityParts {
    /// `None`: there is no identity provider.
    client: Option<Arc<Client>>,
});

/// The extension.
pub static EXTENSION: Extension = Extension {
    name: "identity",
    defaults: settings::DEFAULTS,
    check: |sections| Settings::read(sections).map(drop),
    problems: problems::ALL,
    personal_data: &[],
    document: || routes().into_openapi(),
    build,
};

fn build(core: &Core, sections: &Sections) -> Result<Parts, String> {
    let client = client(core, &Settings::read(sections)?)?;
    let provider = client.clone().map(|client| client as Arc<dyn IdentityProvider>);
    let state = IdentityState::new(Arc::clone(&core.kit), IdentityParts { client });
    let routes = routes().with_state(state);
    Ok(Parts { routes, identity: provider, ..Parts::default() })
}

/// Builds the client of the provider, if the settings name one.
fn client(core: &Core, settings: &Settings) -> Result<Option<Arc<Client>>, String> {
    if settings.issuer.is_empty() {
        return Ok(None);
    }
    let timeout = Duration::from_millis(settings.timeout_ms);
    let https = HttpsClient::new(settings.private_networks.clone(), &settings.ca_file, timeout)
        .map_err(|why| format!("identity.{why}"))?;
    Client::new(core, settings, https).map(Arc::new).map(Some)
}

fn routes() -> OpenApiRouter<IdentityState> {
    OpenApiRouter::new().routes(routes!(route::start)).routes(routes!(route::finish))
}
