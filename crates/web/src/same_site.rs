//! Which requests come from pages of this site: a page of another one must change nothing with a buyer's cookie.

use axum::http::header::{HOST, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};

use crate::problem::Problem;
use crate::problems;

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
}
