//! What is done around every request, outermost first: a request id, the refusal of what no
//! handler should see, a net for panics, then, on the way out, problem details, security headers
//! and metrics. One function, because the order matters and is easiest to read as a sequence.

use std::panic::AssertUnwindSafe;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{
    ACCEPT, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST,
    REFERRER_POLICY, STRICT_TRANSPORT_SECURITY, X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue, Method, StatusCode, Version};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use futures::FutureExt;

use super::Web;
use super::problem::Problem;

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
/// The shop asks the browser for none of these.
const NO_PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
);
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data: https:; style-src 'self'; script-src 'self'; \
     object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);
/// The page of the API's document is a foreign one that styles itself inline.
const DOCS_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
     script-src 'self'; frame-ancestors 'none'",
);

/// Headers that a response is given here at most.
const HEADERS_ADDED: usize = 10;

/// Wraps a request.
pub(super) async fn wrap(State(web): State<Web>, request: Request, next: Next) -> Response {
    let request_id = format!("{:016x}", rand::random::<u64>());
    let method = method_label(request.method());
    let path = request.uri().path().to_owned();
    let is_api = path.starts_with("/api/") && path != "/api/openapi.json";
    let answered = match refuse_early(&web, &request, is_api) {
        Some(problem) => problem.into_response(),
        None => AssertUnwindSafe(next.run(request)).catch_unwind().await.unwrap_or_else(|_| {
            tracing::error!(%request_id, path, "a handler panicked");
            Problem::internal().into_response()
        }),
    };
    let mut response = as_problem(answered, &request_id, is_api);
    let status = response.status();
    if status.is_server_error() {
        tracing::debug!(%request_id, path, status = status.as_u16(), "answered with an error");
    }
    let headers = response.headers_mut();
    // Room for all of them at once.
    headers.reserve(HEADERS_ADDED);
    if let Ok(value) = HeaderValue::from_str(&request_id) {
        headers.insert(REQUEST_ID, value);
    }
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(REFERRER_POLICY, HeaderValue::from_static("same-origin"));
    headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
    if web.cookie_secure {
        headers.insert(STRICT_TRANSPORT_SECURITY, HeaderValue::from_static("max-age=31536000"));
    }
    if is_api {
        headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    } else {
        let policy = if path.starts_with("/docs") { DOCS_POLICY } else { POLICY };
        headers.insert(CONTENT_SECURITY_POLICY, policy);
        headers.insert(OPENER_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(PERMISSIONS_POLICY, NO_PERMISSIONS);
    }
    web.metrics.request_answered(method, status.as_u16());
    response
}

/// What no handler should see.
fn refuse_early(web: &Web, request: &Request, is_api: bool) -> Option<Problem> {
    if request.version() == Version::HTTP_11 && !request.headers().contains_key(HOST) {
        return Some(Problem::new(400, "host_missing", "No Host", "Name the host."));
    }
    if !web.hosts.are_meant_by(request.uri(), request.headers()) {
        let detail = "There is no service of this name here; http.hosts lists the names.";
        return Some(Problem::new(421, "misdirected_request", "Not this service", detail).close());
    }
    // The files would take it for one slash, a proxy in front of us perhaps for another host.
    if request.uri().path().contains("//") {
        return Some(Problem::not_found());
    }
    if is_api && !accepts_our_types(request) {
        let detail = "Answers are application/json or text/event-stream.";
        return Some(Problem::new(406, "not_acceptable", "Not acceptable", detail));
    }
    None
}

fn accepts_our_types(request: &Request) -> bool {
    let mut accepted = request.headers().get_all(ACCEPT).iter().peekable();
    if accepted.peek().is_none() {
        return true;
    }
    let types = accepted.filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    types.map(|media| media.split(';').next().unwrap_or_default().trim()).any(|media| {
        let ours = ["*/*", "application/*", "application/json", "application/problem+json"];
        ours.contains(&media) || media.starts_with("text/event-stream") || media == "text/*"
    })
}

/// Writes the body of a problem, and turns errors that axum made by itself into one.
fn as_problem(mut response: Response, request_id: &str, is_api: bool) -> Response {
    let status = response.status();
    if let Some(problem) = response.extensions_mut().remove::<Problem>() {
        return with_body(response, &problem, request_id);
    }
    if !needs_problem(&response, status, is_api) {
        return response;
    }
    let problem = Problem::of_status(status);
    let made = problem.clone().into_response();
    *response.status_mut() = made.status();
    for (name, value) in made.headers() {
        response.headers_mut().insert(name, value.clone());
    }
    with_body(response, &problem, request_id)
}

fn with_body(response: Response, problem: &Problem, request_id: &str) -> Response {
    let (mut parts, _) = response.into_parts();
    parts.headers.remove(CONTENT_LENGTH);
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    Response::from_parts(parts, Body::from(problem.body(request_id)))
}

/// A page that was not found is for people, and a handler that answers an error with a document of
/// its own means it (`/readyz`); every other error becomes a problem.
fn needs_problem(response: &Response, status: StatusCode, is_api: bool) -> bool {
    let error = status.is_client_error() || status.is_server_error();
    let kind = response.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let is = |wanted: &str| kind.is_some_and(|kind| kind.starts_with(wanted));
    error && !is("application/json") && (is_api || !is("text/html"))
}

/// Methods as labels: a client cannot invent new ones.
fn method_label(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::POST => "POST",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        Method::HEAD => "HEAD",
        Method::OPTIONS => "OPTIONS",
        _ => "other",
    }
}
