//! Sets the security headers of every response, the browser policies of pages, and `no-store` for
//! the API.

use axum::extract::Request;
use axum::http::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, REFERRER_POLICY, STRICT_TRANSPORT_SECURITY,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use super::is_api;

const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");
const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
/// Browsers use TLS alone for a year.
const TLS_FOR_A_YEAR: HeaderValue = HeaderValue::from_static("max-age=31536000");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
/// The pages ask the browser for none of these.
const NO_PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
);
const PAGE_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data: https:; style-src 'self'; script-src 'self'; \
     object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
);
/// Swagger UI, which shows the API's description, has inline styles.
const DOCS_POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; \
     script-src 'self'; frame-ancestors 'none'",
);

/// Sets the headers of the response of `request`. `is_secure`: the service is reached by TLS alone.
pub(super) fn set(
    request: &Request,
    is_secure: bool,
    page_policy: fn(&str) -> Option<HeaderValue>,
) -> impl FnOnce(Response) -> Response + use<> {
    let path = request.uri().path();
    let is_api = is_api(path);
    let usual_policy = if path.starts_with("/docs") { DOCS_POLICY } else { PAGE_POLICY };
    let policy = if is_api { None } else { page_policy(path) }.unwrap_or(usual_policy);
    move |mut response| {
        let headers = response.headers_mut();
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        headers.insert(REFERRER_POLICY, SAME_ORIGIN);
        headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
        if is_secure {
            headers.insert(STRICT_TRANSPORT_SECURITY, TLS_FOR_A_YEAR);
        }
        if is_api {
            headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        } else {
            headers.insert(CONTENT_SECURITY_POLICY, policy);
            headers.insert(OPENER_POLICY, SAME_ORIGIN);
            headers.insert(PERMISSIONS_POLICY, NO_PERMISSIONS);
        }
        response
    }
}
