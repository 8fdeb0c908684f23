//! HTTP: the routes of the shop, on the kit of the crate `web`.
//!
//! `route` has one file a resource; `outcomes` says which error of a use case is which type of problem, and `problems` is
//! the table of the shop's own; `pages` has the shop's files; `document` describes all of it.

mod document;
pub mod item_form;
mod one_file;
mod outcomes;
pub mod pages;
mod ports;
pub mod problems;
pub mod route;

use std::path::Path;
use std::sync::Arc;

pub use pages::policy_of as page_policy;

use axum::Router;
use axum::routing::{any, get};
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::account::Accounts;
use crate::audit::Auditor;
use crate::catalog::Catalog;
use crate::extensions;
use crate::live::{Hub, Watch};
use crate::order::Orders;
use crate::purchase::Purchases;
use crate::readiness::Readiness;
use crate::waiting_list::WaitingLists;
use extension::job::JobStatus;
use extension::ports::{AnnounceDraws, IdentityProvider, PaidElsewhere};
use shop_domain::Currency;
use shop_traces::Traces;
use web::Application;
use web::layers::{self, LayerParts};
use web::routes_state;

/// The locks whose metrics are read.
pub type Locks = Vec<leaselock::LeasedMutex>;

routes_state!(AppState, AppParts {
    purchases: Purchases,
    orders: Orders,
    paid_elsewhere: PaidElsewhere,
    waiting_lists: WaitingLists,
    /// Announces draws; `None`: no item is drawn.
    draws: Option<Arc<dyn AnnounceDraws>>,
    catalog: Catalog,
    accounts: Accounts,
    /// `None`: there is no identity provider.
    identity: Option<Arc<dyn IdentityProvider>>,
    auditor: Auditor,
    readiness: Arc<Readiness>,
    hub: Hub,
    watch: Watch,
    job_status: JobStatus,
    locks: Locks,
    /// The shop's currency.
    currency: Currency,
    traces: Traces,
    instance: String,
});

fn routes(document: OpenApi) -> OpenApiRouter<AppState> {
    OpenApiRouter::with_openapi(document)
        .routes(routes!(route::purchase::purchase))
        .routes(routes!(route::reservations::reserve))
        .routes(routes!(route::reservation_batch::reserve_each))
        .routes(routes!(route::items::list))
        .routes(routes!(route::items::find))
        .routes(routes!(route::products::find))
        .routes(routes!(route::ticket::create, route::ticket::leave))
        .routes(routes!(
            route::waiting_list::find,
            route::waiting_list::join,
            route::waiting_list::leave
        ))
        .routes(routes!(route::waiting_list::accept))
        .routes(routes!(route::events::stock))
        .routes(routes!(route::orders::list))
        .routes(routes!(route::events::orders))
        .routes(routes!(route::orders::find))
        .routes(routes!(route::orders::cancel))
        .routes(routes!(route::orders::extend))
        .routes(routes!(route::orders::give_back))
        .routes(routes!(route::users::create))
        .routes(routes!(route::users::delete))
        .routes(routes!(route::users::erase))
        .routes(routes!(route::session::create, route::session::end, route::session::find))
        .routes(routes!(route::session::methods))
        .routes(routes!(route::session::end_all))
        .routes(routes!(route::session::change_password))
        .routes(routes!(route::lists::strategies))
        .routes(routes!(route::lists::locks))
        .routes(routes!(route::admin::create))
        .routes(routes!(route::admin::edit))
        .routes(routes!(route::limit_groups::list, route::limit_groups::create))
        .routes(routes!(route::products::list, route::products::create))
        .routes(routes!(route::audit::find))
        .routes(routes!(route::actions::list))
        .routes(routes!(route::live::find))
        .routes(routes!(route::operator::alive))
        .routes(routes!(route::operator::ready))
        .routes(routes!(route::operator::health))
        .routes(routes!(route::operator::metrics))
}

/// The document that `GET /api/openapi.json` answers.
pub fn openapi() -> OpenApi {
    let mut document = routes(document::begin()).into_openapi();
    for extension in extensions::ALL {
        document.merge((extension.document)());
    }
    document::complete(&mut document);
    document
}

/// The whole application: the routes of the core and of the extensions, with the layers around them. Pages of `static_dir`.
pub fn application(
    state: AppState,
    extensions: Vec<OpenApiRouter>,
    static_dir: &Path,
    parts: LayerParts,
) -> impl Application + use<> {
    let api: Router<AppState> = routes(document::begin()).into();
    let extended = extensions.into_iter().map(Router::from);
    // Browsers may cache files, but ask each time whether there is a new version.
    let revalidate = SetResponseHeaderLayer::if_not_present(
        axum::http::header::CACHE_CONTROL,
        axum::http::HeaderValue::from_static("no-cache"),
    );
    let docs = Router::new().merge(SwaggerUi::new("/docs").url("/api/openapi.json", openapi()));
    // What is compressed is held as it was before.
    let docs = layers::leased(docs).layer(CompressionLayer::new());
    let pages = docs.merge(pages::router(static_dir)).layer(revalidate);
    // Otherwise the file server would answer unknown addresses of the API, with a page.
    let unknown = any(async || problems::NOT_FOUND.problem());
    let api = api.route("/api/", unknown.clone()).route("/api/{*unknown}", unknown);
    let api = api.route("/problems/{code}", get(document::explain));
    let all = extended.fold(api.merge(pages).with_state(state), Router::merge);
    layers::wrap(all, parts)
}
