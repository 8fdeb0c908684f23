//! HTTP: the only folder that knows axum, status codes and problem details.
//!
//! `server` accepts connections; `layers` has the middleware around every request; `extract`,
//! `body` and `session_cookie` parse requests; `pages` has the shop's files; `address`, `hosts`, `connection_limiter` and `rates`
//! limit one client; `route` has one file a resource; `problem` has the one table of failures.

pub mod address;
pub mod body;
pub mod connection_limiter;
pub mod cors;
pub mod extract;
pub mod hosts;
mod layers;
pub mod pages;
pub mod problem;
pub mod rates;
pub mod route;
pub mod runtimes;
pub mod server;
pub mod session_cookie;

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;

use axum::Router;
use axum::extract::{FromRef, Request};
use axum::response::Response;
use axum::routing::any;
use tower::Service;
use tower_http::compression::CompressionLayer;
use tower_http::set_header::SetResponseHeaderLayer;
use utoipa::OpenApi;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use utoipa_swagger_ui::SwaggerUi;

use crate::account::{Accounts, Claims, OperatorLog, Revocations, Tokens};
use crate::audit::Auditor;
use crate::catalog::Catalog;
use crate::event::Endpoints;
use crate::export::Exporter;
use crate::identity::Identity;
use crate::job::JobStatus;
use crate::lab::Lab;
use crate::lifecycle::Lifecycle;
use crate::live::{Hub, Watch};
use crate::order::Orders;
use crate::payment::Payments;
use crate::purchase::Purchases;
use crate::readiness::Readiness;
use crate::trace::Traces;
use crate::waiting_list::WaitingLists;
use address::Proxies;
use body::BodyLimits;
use cors::CorsOrigins;
use hosts::Hosts;
use ledger::item_move::Overview;
use problem::ProblemType;
use rates::Rates;
use session_cookie::SessionCookie;
use shop_domain::Clock;
use shop_metrics::Metrics;

/// The locks whose metrics are read.
pub type Locks = Vec<Arc<dyn leaselock::Mutex>>;

/// The state of all handlers. Clones share it. A handler takes the parts that it needs, as
/// `State<Part>`.
#[derive(Clone)]
pub struct Web(Arc<Parts>);

/// The parts of [`Web`].
pub struct Parts {
    pub purchases: Purchases,
    pub orders: Orders,
    pub payments: Payments,
    pub waiting_lists: WaitingLists,
    pub catalog: Catalog,
    pub accounts: Accounts,
    /// `None`: there is no identity provider.
    pub identity: Option<Arc<Identity>>,
    pub exporter: Exporter,
    pub operator_log: OperatorLog,
    pub overview: Overview,
    pub endpoints: Endpoints,
    pub auditor: Auditor,
    pub readiness: Arc<Readiness>,
    pub hub: Hub,
    pub lab: Lab,
    pub watch: Watch,
    pub tokens: Tokens,
    pub revocations: Revocations,
    pub rates: Rates,
    pub proxies: Proxies,
    pub hosts: Hosts,
    pub cors: CorsOrigins,
    pub job_status: JobStatus,
    pub locks: Locks,
    pub metrics: Metrics,
    pub clock: Clock,
    pub lifecycle: Lifecycle,
    pub body_limits: BodyLimits,
    pub session_cookie: SessionCookie,
    pub traces: Traces,
    pub static_dir: PathBuf,
    pub instance: String,
}

impl std::ops::Deref for Web {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

/// Lets handlers take one part of the state as `State<Part>`.
macro_rules! take_parts {
    ($($field:ident: $part:ty),* $(,)?) => {
        $(impl FromRef<Web> for $part {
            fn from_ref(web: &Web) -> Self {
                web.$field.clone()
            }
        })*
    };
}

take_parts! {
    purchases: Purchases,
    orders: Orders,
    payments: Payments,
    waiting_lists: WaitingLists,
    catalog: Catalog,
    accounts: Accounts,
    identity: Option<Arc<Identity>>,
    exporter: Exporter,
    operator_log: OperatorLog,
    overview: Overview,
    endpoints: Endpoints,
    auditor: Auditor,
    readiness: Arc<Readiness>,
    lab: Lab,
    job_status: JobStatus,
    locks: Locks,
    metrics: Metrics,
    clock: Clock,
    lifecycle: Lifecycle,
    body_limits: BodyLimits,
    session_cookie: SessionCookie,
}

impl Web {
    /// Wraps the parts.
    #[must_use]
    pub fn new(parts: Parts) -> Self {
        Self(Arc::new(parts))
    }

    /// Whether a session is live: its token has not expired and was not signed out.
    #[must_use]
    pub fn is_live(&self, claims: &Claims) -> bool {
        claims.expires_at > self.clock.now() && !self.revocations.contains(claims)
    }
}

#[derive(OpenApi)]
#[openapi(info(title = "Seckill"), components(schemas(problem::ProblemBody)))]
struct Document;

/// The routes of the API with their OpenAPI document.
fn api() -> OpenApiRouter<Web> {
    let mut document = Document::openapi();
    let description = format!("{}\n{}", include_str!("description.md"), ProblemType::table());
    document.info.description = Some(description);
    let bearer = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    let components = document.components.get_or_insert_default();
    components.add_security_scheme("bearer", bearer);
    let mut router = routes(document);
    name_operations(router.get_openapi_mut());
    route::purchase::document_options(router.get_openapi_mut());
    router
}

/// Gives each operation an id of its own, made of its method and path, as OpenAPI asks for:
/// generators of clients make names of these ids.
fn name_operations(document: &mut utoipa::openapi::OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let words = path.trim_start_matches("/api").split(|c: char| !c.is_ascii_alphanumeric());
        let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
        let operations = [
            ("get", &mut item.get),
            ("put", &mut item.put),
            ("post", &mut item.post),
            ("patch", &mut item.patch),
            ("delete", &mut item.delete),
        ];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                operation.operation_id = Some(format!("{method}_{}", words.join("_")));
            }
        }
    }
}

fn routes(document: utoipa::openapi::OpenApi) -> OpenApiRouter<Web> {
    OpenApiRouter::with_openapi(document)
        .routes(routes!(route::purchase::purchase))
        .routes(routes!(route::items::list))
        .routes(routes!(route::items::find))
        .routes(routes!(route::ticket::create))
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
        .routes(routes!(route::users::create))
        .routes(routes!(route::session::create, route::session::end, route::session::find))
        .routes(routes!(route::identity::methods))
        .routes(routes!(route::identity::start))
        .routes(routes!(route::identity::finish))
        .routes(routes!(route::session::end_all))
        .routes(routes!(route::session::change_password))
        .routes(routes!(route::lists::strategies))
        .routes(routes!(route::lists::locks))
        .routes(routes!(route::admin::create))
        .routes(routes!(route::admin::edit))
        .routes(routes!(route::limit_groups::list, route::limit_groups::create))
        .routes(routes!(route::shards::list))
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
pub fn openapi() -> utoipa::openapi::OpenApi {
    api().into_openapi()
}

/// A service that answers every request; clones are cheap and share everything.
pub trait Application:
    Service<Request, Response = Response, Error = Infallible, Future: Send> + Clone + Send + 'static
{
}

impl<S> Application for S where
    S: Service<Request, Response = Response, Error = Infallible, Future: Send>
        + Clone
        + Send
        + 'static
{
}

/// The whole application: the routes with the layers around them.
pub fn application(web: &Web) -> impl Application + use<> {
    let (api, document) = api().split_for_parts();
    // Browsers may cache files, but ask each time whether there is a new version.
    let revalidate = SetResponseHeaderLayer::if_not_present(
        axum::http::header::CACHE_CONTROL,
        axum::http::HeaderValue::from_static("no-cache"),
    );
    let docs = Router::new().merge(SwaggerUi::new("/docs").url("/api/openapi.json", document));
    let pages =
        docs.layer(CompressionLayer::new()).merge(pages::router(&web.static_dir)).layer(revalidate);
    // Otherwise the file server would answer unknown addresses of the API, with a page.
    let unknown = any(async || ProblemType::NotFound.problem());
    let api: Router<Web> = api.route("/api/", unknown.clone()).route("/api/{*unknown}", unknown);
    layers::wrap(api.merge(pages).with_state(web.clone()), web)
}
