//! The host names of this service. A request for another name is answered 421, so that a foreign
//! page whose own name was made to resolve to this service (DNS rebinding) cannot use it.

use std::net::IpAddr;

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

/// The host names of this service.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<String>,
    any: bool,
}

impl Hosts {
    /// Reads names that are separated by commas; `*` is any name. Without names, a service that
    /// listens on loopback is `localhost`, and another one has any name, since it cannot know its
    /// own. IP addresses and names below `localhost` always match, since DNS cannot redirect them.
    pub fn new(names: &str, is_loopback: bool) -> Self {
        let names = names.split(',').map(|name| name.trim().to_ascii_lowercase());
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let any = names.iter().any(|name| name == "*") || names.is_empty() && !is_loopback;
        Self { names, any }
    }

    /// Whether each host name in a request is ours: the `Host` headers, and the authority of the
    /// request's address, which is where HTTP/2 has it. A request without a name matches;
    /// `layers::request_check` refuses it in HTTP/1.1.
    pub fn match_request(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if self.any {
            return true;
        }
        let hosts = headers
            .get_all(HOST)
            .iter()
            .map(|value| value.to_str().ok().and_then(|text| text.parse::<Authority>().ok()));
        let authority = uri.authority().cloned().map(Some);
        hosts.chain(authority).all(|host| host.is_some_and(|host| self.contain(host.host())))
    }

    fn contain(&self, host: &str) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        let is_address = host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok();
        is_address
            || host == "localhost"
            || host.ends_with(".localhost")
            || self.names.contains(&host)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listen_address::ListenAddress;

    fn matches(names: &str, addr: &str, host: &str) -> bool {
        let addr: ListenAddress = addr.parse().expect("an address");
        let hosts = Hosts::new(names, addr.is_loopback());
        let headers = [(HOST, host.parse().expect("a header"))].into_iter().collect();
        hosts.match_request(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn a_foreign_host_name_does_not_match() {
        let local = |host| matches("", "127.0.0.1:8080", host);
        for host in
            ["localhost", "LOCALHOST:1", "shop.localhost", "127.0.0.1:8080", "[::1]:80", "10.1.2.3"]
        {
            assert!(local(host), "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:8080",
            "localhost.evil.example",
            "",
            "a b",
            "@",
            "1.2.3.4.evil",
        ] {
            assert!(!local(host), "{host}");
        }
        assert!(matches("", "0.0.0.0:8080", "shop.example"));
        assert!(matches("", "unix:/run/http.sock", "shop.example"), "a proxy is in front");
        assert!(matches("shop.example, www.shop.example", "0.0.0.0:8080", "WWW.shop.example.:443"));
        assert!(!matches("shop.example", "0.0.0.0:8080", "evil.example"));
        assert!(matches("*", "127.0.0.1:8080", "evil.example"));
    }
}
