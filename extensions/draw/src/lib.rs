//! Draws: buyers enter until the close, and a shuffle that anybody can check gives each entry its place.
//!
//! `draws` is the use case: entries, and the steps after the close, which a job takes. `sql` has the transactions, the
//! crate `draw-proof` the shuffle. The units are then offered by the waiting list of the core.

mod advance;
mod beacon;
mod draws;
mod list;
mod problems;
mod route;
mod settings;
mod sql;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use ::settings::Sections;
use extension::job::ScheduledJob;
use extension::{Core, Extension, Parts};
use outgoing_https::HttpsClient;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::routes_state;

use crate::advance::DrawJob;
use crate::beacon::Beacons;
use crate::draws::{DrawParts, Draws};
use crate::settings::Draw as Settings;

routes_state!(RoutesState, RoutesParts { draws: Draws });

/// The extension.
pub static EXTENSION: Extension = Extension {
    name: "draw",
    defaults: settings::DEFAULTS,
    check: |sections| Settings::read(sections).map(drop),
    problems: problems::ALL,
    personal_data: &[sql::ENTRIES],
    document: || routes().into_openapi(),
    build,
};

fn build(core: &Core, sections: &Sections) -> Result<Parts, String> {
    let settings = Settings::read(sections)?;
    let parts = parts(core, &settings)?;
    let draws = Draws::new(parts.clone());
    let state = RoutesState::new(Arc::clone(&core.kit), RoutesParts { draws: draws.clone() });
    let period = Duration::from_millis(settings.poll_ms);
    Ok(Parts {
        routes: routes().with_state(state),
        jobs: vec![ScheduledJob::new("draws", period, DrawJob::new(parts))],
        draws: Some(Arc::new(draws)),
        ..Parts::default()
    })
}

fn parts(core: &Core, settings: &Settings) -> Result<DrawParts, String> {
    let timeout = Duration::from_millis(settings.timeout_ms);
    let client = HttpsClient::new(settings.private_networks.clone(), Path::new(""), timeout)
        .map_err(|why| format!("draw.{why}"))?;
    let keys = Arc::new(settings.keys().ok_or("draw.signing_key is no key")?);
    let url = &settings.drand_url;
    let beacons = Beacons::new(client, &settings.beacon, url, Arc::clone(&keys))?;
    Ok(DrawParts {
        core: core.clone(),
        beacons,
        keys,
        round_after: Duration::from_secs(settings.round_after_seconds.into()),
        entries_max: settings.entries_max.into(),
    })
}

fn routes() -> OpenApiRouter<RoutesState> {
    OpenApiRouter::new()
        .routes(routes!(route::enter, route::find, route::withdraw))
        .routes(routes!(route::draw))
        .routes(routes!(route::announcement))
        .routes(routes!(route::proof))
        .routes(routes!(route::progress))
}
