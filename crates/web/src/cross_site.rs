//! Requests from pages of other sites. Such a page must change nothing with a buyer's cookie. It may use the API from a
//! browser (CORS) if its exact origin is in the setting `http.cors_origins`.
//!
//! Pages of these origins send a token in a header. Cookies are never accepted from them: answers do not allow
//! credentials, and the session cookie is `SameSite=Lax`.

use std::sync::Arc;
use std::time::Duration;

use axum::http::header::{ETAG, HOST, LOCATION, ORIGIN, RETRY_AFTER};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use axum::response::Response;
use tower::util::{Either, option_layer};
use tower_http::cors::{AllowOrigin, CorsLayer};

use crate::problem::Problem;
use crate::problems;

/// The host that a proxy was asked for.
const FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");

/// Refuses a change that a page of another site asked for.
///
/// # Errors
/// 403 `cross_site_request`.
pub fn refuse_cross_site(method: &Method, uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    if method.is_safe() { Ok(()) } else { refuse_other_sites(uri, headers) }
}

/// Refuses a request that a page of another site asked for. Compares `Origin` with `Host` (HTTP/2:
/// `:authority`), and with `X-Forwarded-Host` of a proxy that writes another `Host` (Apache's default): a page of another
/// site can set neither. `Origin: null` never matches.
pub(crate) fn refuse_other_sites(uri: &Uri, headers: &HeaderMap) -> Result<(), Problem> {
    let by_browser =
        headers.get("sec-fetch-site").map(|site| site == "same-origin" || site == "none");
    let ours = by_browser
        .unwrap_or_else(|| headers.get(ORIGIN).is_none_or(|origin| is_ours(origin, uri, headers)));
    if ours {
        return Ok(());
    }
    Err(problems::CROSS_SITE_REQUEST.problem())
}

fn is_ours(origin: &HeaderValue, uri: &Uri, headers: &HeaderMap) -> bool {
    let Some((scheme, theirs)) = origin.to_str().ok().and_then(|it| it.split_once("://")) else {
        return false;
    };
    let text =
        |name: HeaderName| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let authority = uri.authority().map(Authority::as_str);
    let host = if headers.contains_key(HOST) { text(HOST) } else { authority };
    let forwarded = text(FORWARDED_HOST).into_iter().flat_map(|names| names.split(','));
    let theirs = plain_name(scheme, theirs);
    host.into_iter().chain(forwarded).any(|ours| plain_name(scheme, ours) == theirs)
}

/// A host name with its port, as browsers write it: in small letters, and without a last dot or the scheme's own port.
fn plain_name(scheme: &str, name: &str) -> String {
    let name = name.trim().to_ascii_lowercase();
    let usual = if scheme == "https" { ":443" } else { ":80" };
    let name = name.strip_suffix(usual).unwrap_or(&name);
    match name.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => {
            format!("{}:{port}", host.trim_end_matches('.'))
        }
        _ => name.trim_end_matches('.').to_owned(),
    }
}

/// The header of an answer that an earlier request with the same key has got.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// Marks the answer of a repetition.
pub fn mark_repeated(response: &mut Response) {
    response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
}

/// Headers that a page of a named origin may send, one a line; `#` begins a comment.
const PAGE_HEADERS: &str = include_str!("page_headers.txt");
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
        let headers = PAGE_HEADERS.lines().filter(|line| !line.starts_with('#'));
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
                .allow_headers(headers.map(HeaderName::from_static).collect::<Vec<_>>())
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

    fn is_refused(headers: &[(&'static str, &str)]) -> bool {
        let named = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().expect("a header")));
        refuse_other_sites(&Uri::from_static("/"), &named.collect()).is_err()
    }

    /// What proxies make of the names of `https://shop.example`, without the browser's own word (over plain http, and in
    /// Safari before 16.4, there is none).
    #[test]
    fn the_names_that_proxies_pass_on_are_ours() {
        const OURS: &str = "https://shop.example";
        for (host, forwarded, source) in [
            ("shop.example", None, "HAProxy, Caddy, Traefik, Envoy, AWS, Google Cloud, Cloudflare"),
            ("shop.example:443", None, "a client or proxy that writes the usual port"),
            ("SHOP.example", None, "RFC 9110: names in any case"),
            ("shop.example.", None, "a name with its last dot"),
            ("shop.example.:443", None, "both"),
            ("10.0.0.3:8080", Some("shop.example"), "Apache, ProxyPreserveHost off"),
            ("seckill", Some("shop.example, proxy.internal"), "two of them"),
            ("seckill", Some("shop.example:443"), "with its port"),
        ] {
            let mut headers = vec![("origin", OURS), ("host", host)];
            headers.extend(forwarded.map(|names| ("x-forwarded-host", names)));
            assert!(!is_refused(&headers), "{source}: {headers:?}");
        }
        for (origin, host, forwarded, source) in [
            (OURS, "10.0.0.3:8080", None, "nginx, without proxy_set_header Host"),
            (OURS, "shop.example:8443", None, "another port is another site"),
            ("http://shop.example:8080", "shop.example", None, "the same"),
            ("https://evil.example", "shop.example", Some("shop.example"), "a foreign page"),
            ("https://shop.example.evil", "shop.example", None, "a longer name"),
            ("null", "shop.example", Some("null"), "a page without a site"),
        ] {
            let mut headers = vec![("origin", origin), ("host", host)];
            headers.extend(forwarded.map(|names| ("x-forwarded-host", names)));
            assert!(is_refused(&headers), "{source}: {headers:?}");
        }
        // The browser's own word counts more than names.
        assert!(!is_refused(&[("origin", OURS), ("host", "a"), ("sec-fetch-site", "same-origin")]));
        assert!(is_refused(&[
            ("origin", OURS),
            ("host", "shop.example"),
            ("sec-fetch-site", "cross-site")
        ]));
    }

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
