//! The middleware around every request.

mod catch_panic;
mod hold;
mod problem_body;
mod request_check;
mod response_headers;

use std::convert::Infallible;
use std::task::{Context, Poll};

use axum::Router;
use axum::extract::Request;
use axum::http::{HeaderValue, Method};
use axum::response::{IntoResponse, Response};
use axum::routing::Route;
use futures::TryFutureExt;
use futures::future::{Either, MapOk, Ready, ready};
use tower::layer::layer_fn;
use tower::{Layer, Service};

use crate::Application;
use crate::cross_site::CorsOrigins;
use crate::hosts::Hosts;
use crate::problem::Problem;
use catch_panic::PanicGuard;
pub use problem_body::RequestId;
use shop_metrics::Metrics;

/// What the layers work with.
#[derive(Clone)]
pub struct LayerParts {
    pub hosts: Hosts,
    pub cors: CorsOrigins,
    pub metrics: Metrics,
    /// Whether the service is reached by TLS alone.
    pub is_secure: bool,
    /// The content security policy of a page that needs another one than the usual, by its path.
    pub page_policy: fn(&str) -> Option<HeaderValue>,
}

/// Puts the layers around `service`. They are listed innermost first: a request passes them from
/// bottom to top, its response from top to bottom.
///
/// They stand around the router as a whole. `Router::layer` would put them around each route, and
/// box and clone all of them for each request.
pub fn wrap<S>(service: S, parts: LayerParts) -> impl Application + use<S>
where
    S: Service<Request, Response = Response, Error = Infallible> + Clone + Send + Sync + 'static,
    S::Future: Send,
{
    let LayerParts { hosts, cors, metrics, is_secure, page_policy } = parts;
    let service = refuse(move |request: &Request| request_check::check(&hosts, request), service);
    let service = PanicGuard(service);
    // Inside the layer that writes the problem of a refusal.
    let service = observe(hold::hold, service);
    // Outside all that may fail.
    let service = observe(problem_body::write, service);
    // Outside the layers that refuse: pages of other sites read refusals, too.
    let service = cors.layer().layer(service);
    let set = move |request: &Request| response_headers::set(request, is_secure, page_policy);
    let service = observe(set, service);
    // Outermost, to count the status that the client gets.
    observe(move |request: &Request| count(metrics.clone(), request), service)
}

/// A router whose large answers take their bytes from the budgets, for where a further layer hides how large
/// they are.
pub fn leased<S: Clone + Send + Sync + 'static>(router: Router<S>) -> Router<S> {
    router.layer(layer_fn(|route: Route| observe(hold::lease, route)))
}

/// Counts the response of `request` by method and status, for `GET /metrics`.
fn count(metrics: Metrics, request: &Request) -> impl FnOnce(Response) -> Response + use<> {
    let method = method_label(request.method());
    move |response| {
        metrics.request_answered(method, response.status().as_u16());
        response
    }
}

/// A method as a label. Methods that a client invents share one label.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::PUT => "PUT",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}

/// Whether a path is the API's: its failures are problems, even where a page would do.
fn is_api(path: &str) -> bool {
    path.starts_with("/api/") && path != "/api/openapi.json"
}

/// Puts `read` around a service: it gets each request, and returns what changes the request's response. Unlike axum's
/// `from_fn` it neither boxes a future nor clones the service behind it.
fn observe<R, C, S>(read: R, inner: S) -> ObservedService<R, S>
where
    R: Fn(&Request) -> C,
    C: FnOnce(Response) -> Response,
{
    ObservedService { read, inner }
}

/// The service that [`observe`] makes.
#[derive(Clone)]
struct ObservedService<R, S> {
    read: R,
    inner: S,
}

impl<R, C, S> Service<Request> for ObservedService<R, S>
where
    R: Fn(&Request) -> C,
    C: FnOnce(Response) -> Response,
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = MapOk<S::Future, C>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        let change = (self.read)(&request);
        self.inner.call(request).map_ok(change)
    }
}

/// Puts `check` around a service: it gets each request, and returns the problem of those that it refuses.
fn refuse<R, S>(check: R, inner: S) -> CheckedService<R, S>
where
    R: Fn(&Request) -> Option<Problem>,
{
    CheckedService { check, inner }
}

/// The service that [`refuse`] makes.
#[derive(Clone)]
struct CheckedService<R, S> {
    check: R,
    inner: S,
}

impl<R, S> Service<Request> for CheckedService<R, S>
where
    R: Fn(&Request) -> Option<Problem>,
    S: Service<Request, Response = Response, Error = Infallible>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Either<Ready<Result<Response, Infallible>>, S::Future>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request) -> Self::Future {
        match (self.check)(&request) {
            Some(problem) => Either::Left(ready(Ok(problem.into_response()))),
            None => Either::Right(self.inner.call(request)),
        }
    }
}
