//! The lab: compares strategies inside the service, one run at a time, for the lab's page.
//!
//! A run has a cell (`lane` in JSON) for each strategy, arbiter and round: a fresh lab item, a load
//! generator that buys it through `purchase` without HTTP, and an audit of the ledger against the
//! record of every answer. A run goes on when its creator disconnects, ends when the service stops,
//! and ends the sales of its items. It shares the service with real sales: its purchases pass the
//! same admission and the same pool. It runs in one process, so a gate that breaks with two
//! instances is clean here; `loadtest` can load several.

mod evaluate;
mod load_generator;
mod plan;
pub mod problems;
mod report;
mod route;
mod run;
mod runs;
mod tracked;

use std::sync::Arc;

use extension::{Core, Extension, Parts};
use ledger::Ledger;
use settings::Sections;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use web::routes_state;

use crate::runs::Lab as Runs;

routes_state!(
    LabState,
    LabRoutes {
        runs: Runs,
        /// Where the actions of operators are noted.
        ledger: Ledger,
    }
);

/// The extension.
pub static EXTENSION: Extension = Extension {
    name: "lab",
    defaults: "",
    check: |_| Ok(()),
    problems: problems::ALL,
    personal_data: &[],
    document: || routes().into_openapi(),
    build,
};

fn build(core: &Core, _: &Sections) -> Result<Parts, String> {
    let parts = LabRoutes { runs: Runs::new(core.clone()), ledger: core.ledger.clone() };
    let state = LabState::new(Arc::clone(&core.kit), parts);
    Ok(Parts { routes: routes().with_state(state), ..Parts::default() })
}

fn routes() -> OpenApiRouter<LabState> {
    OpenApiRouter::new()
        .routes(routes!(route::create, route::list))
        .routes(routes!(route::find, route::cancel))
        .routes(routes!(route::events))
}
