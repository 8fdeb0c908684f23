//! HTTP: the routes of the shop, on the kit of the crate `web`.
//!
//! `route` has one file a resource; `outcomes` says which error of a use case is which type of problem, and `problems` is
//! the table of the shop's own; `pages` has the shop's files; `document` describes all of it.

mod document;
mod one_file;
mod outcomes;
pub mod pages;
pub mod problems;
mod request_trace;
pub mod route;
mod streams;

use std::path::Path;
use std::sync::Arc;

pub use one_file::policy_of as page_policy;

use axum::Router;
use axum::extract::FromRef;
use axum::routing::any;
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::account::{Accounts, Actor, OperatorLog};
use crate::audit::Auditor;
use crate::catalog::Catalog;
use crate::draw::Draws;
use crate::event::Endpoints;
use crate::export::Exporter;
use crate::identity::Identity;
use crate::job::JobStatus;
use crate::lab::Lab;
use crate::live::{Hub, Watch};
use crate::order::Orders;
use crate::payment::Payments;
use crate::purchase::Purchases;
use crate::readiness::Readiness;
use crate::waiting_list::WaitingLists;
use lifecycle::Lifecycle;
use shop_domain::{Clock, Currency};
use shop_metrics::Metrics;
use shop_traces::Traces;
use web::Application;
use web::address::Proxies;
use web::body::BodyLimits;
use web::cors::CorsOrigins;
use web::extract::Operator;
use web::layers::{self, LayerParts};
use web::rates::Rates;
use web::session::Authenticator;
use web::session_cookie::SessionCookie;

/// The locks whose metrics are read.
pub type Locks = Vec<Arc<dyn leaselock::Mutex>>;

/// Declares the state of all handlers. A handler takes the parts that it needs, as `State<Part>`.
macro_rules! app_state {
    ($($(#[$doc:meta])* $field:ident: $part:ty,)*) => {
        /// What the handlers work with.
        pub struct AppParts {
            $($(#[$doc])* pub $field: $part,)*
        }

        $(impl FromRef<AppState> for $part {
            fn from_ref(state: &AppState) -> Self {
                state.0.$field.clone()
            }
        })*
    };
}

app_state! {
    purchases: Purchases,
    orders: Orders,
    payments: Payments,
    waiting_lists: WaitingLists,
    draws: Draws,
    catalog: Catalog,
    accounts: Accounts,
    /// `None`: there is no identity provider.
    identity: Option<Arc<Identity>>,
    exporter: Exporter,
    operator_log: OperatorLog,
    endpoints: Endpoints,
    auditor: Auditor,
    readiness: Arc<Readiness>,
    hub: Hub,
    lab: Lab,
    watch: Watch,
    authenticator: Authenticator,
    rates: Arc<Rates>,
    proxies: Proxies,
    cors: CorsOrigins,
    job_status: JobStatus,
    locks: Locks,
    metrics: Metrics,
    clock: Clock,
    /// The shop's currency.
    currency: Currency,
    lifecycle: Lifecycle,
    body_limits: BodyLimits,
    session_cookie: SessionCookie,
    traces: Traces,
    instance: String,
}

/// The state of all handlers. Clones share it.
#[derive(Clone)]
pub struct AppState(Arc<AppParts>);

impl AppState {
    /// Shares the parts.
    #[must_use]
    pub fn new(parts: AppParts) -> Self {
        Self(Arc::new(parts))
    }
}

/// Who does something now, for the log of the operators' actions.
fn actor_of(operator: &Operator) -> Actor {
    Actor { user: operator.user, address: Some(operator.address), now: operator.at }
}

/// The routes of the API with their OpenAPI document.
fn api() -> OpenApiRouter<AppState> {
    let mut router = routes(document::begin());
    document::complete(router.get_openapi_mut());
    router
}

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
        .routes(routes!(route::orders::pay))
        .routes(routes!(route::orders::cancel))
        .routes(routes!(route::orders::extend))
        .routes(routes!(route::orders::give_back))
        .routes(routes!(route::users::create))
        .routes(routes!(route::users::delete))
        .routes(routes!(route::users::erase))
        .routes(routes!(route::session::create, route::session::end, route::session::find))
        .routes(routes!(route::identity::methods))
        .routes(routes!(route::identity::start))
        .routes(routes!(route::identity::finish))
        .routes(routes!(route::session::end_all))
        .routes(routes!(route::session::change_password))
        .routes(routes!(route::draw::enter, route::draw::find, route::draw::withdraw))
        .routes(routes!(route::draw::draw))
        .routes(routes!(route::draw::proof))
        .routes(routes!(route::draw::progress))
        .routes(routes!(route::lists::strategies))
        .routes(routes!(route::lists::locks))
        .routes(routes!(route::admin::create))
        .routes(routes!(route::admin::edit))
        .routes(routes!(route::limit_groups::list, route::limit_groups::create))
        .routes(routes!(route::products::list, route::products::create))
        .routes(routes!(route::audit::find))
        .routes(routes!(route::export::export))
        .routes(routes!(route::import::import))
        .routes(routes!(route::lab::create, route::lab::list))
        .routes(routes!(route::lab::find, route::lab::cancel))
        .routes(routes!(route::lab::events))
        .routes(routes!(route::actions::list))
        .routes(routes!(route::payments::take))
        .routes(routes!(route::payments::list))
        .routes(routes!(route::payments::refund))
        .routes(routes!(route::endpoints::list, route::endpoints::create))
        .routes(routes!(route::endpoints::switch, route::endpoints::delete))
        .routes(routes!(route::endpoints::replay))
        .routes(routes!(route::endpoints::dead_letters))
        .routes(routes!(route::endpoints::log))
        .routes(routes!(route::live::find))
        .routes(routes!(route::operator::alive))
        .routes(routes!(route::operator::ready))
        .routes(routes!(route::operator::metrics))
}

/// The document that `GET /api/openapi.json` answers.
#[must_use]
pub fn openapi() -> OpenApi {
    api().into_openapi()
}

/// The whole application: the routes with the layers around them. Pages of `static_dir`.
pub fn application(
    state: AppState,
    static_dir: &Path,
    parts: LayerParts,
) -> impl Application + use<> {
    let (api, document) = api().split_for_parts();
    // Browsers may cache files, but ask each time whether there is a new version.
    let revalidate = SetResponseHeaderLayer::if_not_present(
        axum::http::header::CACHE_CONTROL,
        axum::http::HeaderValue::from_static("no-cache"),
    );
    let docs = Router::new().merge(SwaggerUi::new("/docs").url("/api/openapi.json", document));
    // What is compressed is held as it was before.
    let docs = layers::leased(docs).layer(CompressionLayer::new());
    let pages = docs.merge(pages::router(static_dir)).layer(revalidate);
    // Otherwise the file server would answer unknown addresses of the API, with a page.
    let unknown = any(async || problems::NOT_FOUND.problem());
    let api: Router<AppState> =
        api.route("/api/", unknown.clone()).route("/api/{*unknown}", unknown);
    layers::wrap(api.merge(pages).with_state(state), parts)
}
