//! Pages of other sites that may use the API from a browser (CORS): those of the exact origins in the
//! setting `http.cors_origins`.
//!
//! They send a token in a header. Cookies are never accepted from them: answers do not allow
//! credentials, and the session cookie is `SameSite=Lax`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ETAG, LOCATION, ORIGIN, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::Response;
use tower::util::{Either, option_layer};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The header of an answer that an earlier request with the same key has got.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Marks the answer of a repetition.
pub fn mark_repeated(response: &mut Response) {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
}

/// The headers of a request that the service reads.
const READ: [&str; 8] = [
    "authorization",
    "content-type",
    "idempotency-key",
    "if-match",
    "if-none-match",
    "last-event-id",
    "purchase-ticket",
    "traceparent",
];
/// Headers that scripts of a page add to each request by themselves. One belongs here if a library in wide use adds it,
/// and the service does nothing by it; so none that proxies set.
const ADDED: [&str; 43] = [
    // W3C Trace Context and Baggage.
    "baggage",
    "tracestate",
    // Zipkin, and OpenTelemetry with its propagator.
    "b3",
    "x-b3-flags",
    "x-b3-parentspanid",
    "x-b3-sampled",
    "x-b3-spanid",
    "x-b3-traceid",
    // Sentry.
    "sentry-trace",
    // Datadog.
    "x-datadog-origin",
    "x-datadog-parent-id",
    "x-datadog-sampled",
    "x-datadog-sampling-priority",
    "x-datadog-tags",
    "x-datadog-trace-id",
    // New Relic.
    "newrelic",
    // Azure Application Insights.
    "request-context",
    "request-id",
    "x-ms-client-request-id",
    // Elastic, Jaeger, SkyWalking, Honeycomb.
    "elastic-apm-traceparent",
    "sw8",
    "uber-trace-id",
    "x-honeycomb-trace",
    // AWS X-Ray and Google Cloud Trace.
    "x-amzn-trace-id",
    "x-cloud-trace-context",
    // Instana and Dynatrace.
    "x-dtpc",
    "x-dtreferer",
    "x-instana-l",
    "x-instana-s",
    "x-instana-t",
    // Recordings of sessions: Highlight and PostHog.
    "x-highlight-request",
    "x-posthog-distinct-id",
    "x-posthog-session-id",
    "x-posthog-window-id",
    // jQuery, axios, Angular, and what their users set for all requests.
    "cache-control",
    "if-modified-since",
    "pragma",
    "x-correlation-id",
    "x-csrf-token",
    "x-request-id",
    "x-requested-with",
    "x-trace-id",
    "x-xsrf-token",
];

/// How long a browser remembers what we allow.
const MAX_AGE: Duration = Duration::from_secs(600);
/// The most origins.
const ORIGINS_MAX: usize = 100;

/// The origins of such pages.
#[derive(Clone, Debug, Default)]
pub struct CorsOrigins(Arc<[HeaderValue]>);

impl CorsOrigins {
    /// Reads origins that are separated by commas, such as `https://shop.example`.
    ///
    /// # Errors
    /// A sentence that names the first part that is no exact origin.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let origins: Vec<HeaderValue> = parts.map(origin).collect::<Result<_, _>>()?;
        if origins.len() > ORIGINS_MAX {
            return Err(format!("http.cors_origins takes at most {ORIGINS_MAX} origins"));
        }
        Ok(Self(origins.into()))
    }

    /// Whether a request says that it comes from a page of one of the origins.
    #[must_use]
    pub fn contain(&self, headers: &HeaderMap) -> bool {
        headers.get(ORIGIN).is_some_and(|origin| self.0.contains(origin))
    }

    /// The layer that answers preflights, and says to browsers who may read the answers of the API.
    pub(super) fn layer(&self) -> Either<CorsLayer, tower::layer::util::Identity> {
        if self.0.is_empty() {
            return option_layer(None);
        }
        let origins = Arc::clone(&self.0);
        let allowed = move |origin: &HeaderValue, request: &Parts| {
            request.uri.path().starts_with("/api/") && origins.contains(origin)
        };
        let headers = READ.into_iter().chain(ADDED).map(HeaderName::from_static);
        let request_id = HeaderName::from_static("x-request-id");
        option_layer(Some(
            CorsLayer::new()
                .allow_origin(AllowOrigin::predicate(allowed))
                .allow_methods([
                    Method::GET,
                    Method::POST,
                    Method::PATCH,
                    Method::PUT,
                    Method::DELETE,
                ])
                .allow_headers(headers.collect::<Vec<_>>())
                .expose_headers([LOCATION, RETRY_AFTER, ETAG, request_id, REPLAYED])
                .max_age(MAX_AGE),
        ))
    }
}

/// Reads one origin: scheme, host and perhaps port, as browsers write them.
fn origin(text: &str) -> Result<HeaderValue, String> {
    let wrong = || {
        format!("http.cors_origins takes exact origins such as https://shop.example, not {text:?}")
    };
    let uri: Uri = text.parse().map_err(|_| wrong())?;
    let authority = uri.authority().map(ToString::to_string).unwrap_or_default();
    let scheme = uri.scheme_str().filter(|scheme| ["http", "https"].contains(scheme));
    let exact = format!("{}://{}", scheme.ok_or_else(wrong)?, authority.to_ascii_lowercase());
    let is_exact = exact == text && !authority.is_empty() && !authority.contains(['@', '*']);
    let default_port = if scheme == Some("https") { ":443" } else { ":80" };
    if !is_exact || authority.ends_with(default_port) {
        return Err(wrong());
    }
    HeaderValue::from_str(text).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_exact_origins_are_taken() {
        for right in ["", "https://shop.example", "http://127.0.0.1:3000,https://a.example:8443"] {
            assert!(CorsOrigins::parse(right).is_ok(), "{right}");
        }
        for wrong in [
            "*",
            "null",
            "shop.example",
            "https://*.example",
            "https://shop.example/",
            "https://shop.example/page",
            "https://Shop.example",
            "https://shop.example:443",
            "https://me@shop.example",
            "ftp://shop.example",
        ] {
            assert!(CorsOrigins::parse(wrong).is_err(), "{wrong}");
        }
    }
}
