//! Sets the response headers that depend on the path: the browser policies of pages, and `no-store`
//! for the API.

use axum::extract::Request;
use axum::http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY};
use axum::http::{HeaderName, HeaderValue};
use axum::response::Response;

use super::{SAME_ORIGIN, is_api};

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

/// Sets the headers of the response of `request`.
pub(super) fn set(request: &Request) -> impl FnOnce(Response) -> Response + use<> {
    let path = request.uri().path();
    let (is_api, is_docs) = (is_api(path), path.starts_with("/docs"));
    move |mut response| {
        let headers = response.headers_mut();
        if is_api {
            headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
        } else {
            let policy = if is_docs { DOCS_POLICY } else { PAGE_POLICY };
            headers.insert(CONTENT_SECURITY_POLICY, policy);
            headers.insert(OPENER_POLICY, SAME_ORIGIN);
            headers.insert(PERMISSIONS_POLICY, NO_PERMISSIONS);
        }
        response
    }
}
