//! Pages of other sites that may use the API from a browser (CORS): those of the exact origins in the
//! setting `http.cors_origins`.
//!
//! They send a token in a header. Cookies are never accepted from them: answers do not allow
//! credentials, and the session cookie is `SameSite=Lax`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{
    AUTHORIZATION, CONTENT_TYPE, ETAG, IF_MATCH, LOCATION, ORIGIN, RETRY_AFTER,
};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use tower::util::{Either, option_layer};
use tower_http::cors::{AllowOrigin, CorsLayer};

/// The header of an answer that an earlier request with the same key has got.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

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
        let key = HeaderName::from_static("idempotency-key");
        let ticket = HeaderName::from_static("purchase-ticket");
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
                .allow_headers([AUTHORIZATION, CONTENT_TYPE, IF_MATCH, key, ticket])
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
