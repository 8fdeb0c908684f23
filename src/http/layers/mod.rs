//! The middleware around every request: our own layers, one a file, and those of `tower-http`.

mod catch_panic;
mod count_answers;
mod observe;
mod problem_body;
mod request_check;
mod request_id;
mod response_headers;

use axum::Router;
use axum::extract::Request;
use axum::http::header::{
    AUTHORIZATION, COOKIE, REFERRER_POLICY, SET_COOKIE, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::middleware::from_fn_with_state;
use tower::ServiceBuilder;
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::request_id::PropagateRequestIdLayer;
use tower_http::sensitive_headers::SetSensitiveHeadersLayer;
use tower_http::set_header::{SetRequestHeaderLayer, SetResponseHeaderLayer};

use super::Web;
use observe::observe;

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// Browsers use TLS alone for a year.
const TLS_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");

/// Puts the layers around the application. They are listed outermost first: a request passes them
/// from top to bottom, its response from bottom to top.
pub(super) fn wrap(router: Router, web: &Web) -> Router {
    let transport_security = web.session_cookie.secure.then_some(TLS_FOR_A_YEAR);
    let counting = web.clone();
    let layers = ServiceBuilder::new()
        // Outermost, to count the status that the client gets.
        .layer(observe(move |request: &Request| count_answers::count(counting.clone(), request)))
        // Debug output and HTTP/2 header compression keep these values out.
        .layer(SetSensitiveHeadersLayer::new([AUTHORIZATION, COOKIE, SET_COOKIE]))
        // Our own id replaces the client's: an id in the log cannot be chosen from outside.
        .layer(SetRequestHeaderLayer::overriding(request_id::REQUEST_ID, request_id::make))
        .layer(PropagateRequestIdLayer::new(request_id::REQUEST_ID))
        .layer(SetResponseHeaderLayer::overriding(X_CONTENT_TYPE_OPTIONS, NOSNIFF))
        .layer(SetResponseHeaderLayer::overriding(REFERRER_POLICY, SAME_ORIGIN))
        .layer(SetResponseHeaderLayer::overriding(RESOURCE_POLICY, SAME_ORIGIN))
        .layer(SetResponseHeaderLayer::overriding(STRICT_TRANSPORT_SECURITY, transport_security))
        .layer(observe(response_headers::set))
        // Inside the request id, which it writes, and outside all that may fail.
        .layer(observe(problem_body::write))
        .map_response(catch_panic::with_axum_body)
        .layer(CatchPanicLayer::custom(catch_panic::answer))
        .layer(from_fn_with_state(web.clone(), request_check::check));
    router.layer(layers)
}

/// Whether a path is the API's: its failures are problems, even where a page would do.
fn is_api(path: &str) -> bool {
    path.starts_with("/api/") && path != "/api/openapi.json"
}
