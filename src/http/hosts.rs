//! The names by which this service is reached. A request for another name is answered 421: a page
//! elsewhere whose own name was made to point here (DNS rebinding) gets nothing, and no link is
//! ever made of a name that somebody else chose.

use std::net::{IpAddr, SocketAddr};

use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

/// The names that are ours.
#[derive(Clone, Debug)]
pub struct Hosts {
    names: Vec<String>,
    any: bool,
}

impl Hosts {
    /// Reads names that are separated by commas; `*` is any name. When there are none, a service
    /// that listens on loopback is `localhost`, and one that the network reaches may have any name.
    /// Addresses and what ends in `.localhost` cannot be made to point elsewhere and are always fine.
    #[must_use]
    pub fn new(names: &str, addr: SocketAddr) -> Self {
        let names = names.split(',').map(|name| name.trim().to_ascii_lowercase());
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        let any =
            names.iter().any(|name| name == "*") || names.is_empty() && !addr.ip().is_loopback();
        Self { names, any }
    }

    /// Whether a request is for us, by its `Host` and by the address in its request line (which is
    /// where HTTP/2 has the name). One that names nobody is; HTTP/1.1 requests that do are refused
    /// elsewhere.
    #[must_use]
    pub fn are_meant_by(&self, uri: &Uri, headers: &HeaderMap) -> bool {
        if self.any {
            return true;
        }
        let told = headers
            .get_all(HOST)
            .iter()
            .map(|value| value.to_str().ok().and_then(|text| text.parse::<Authority>().ok()));
        let named = uri.authority().cloned().map(Some);
        told.chain(named).all(|host| host.is_some_and(|host| self.contain(host.host())))
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

    fn meant(names: &str, addr: &str, host: &str) -> bool {
        let hosts = Hosts::new(names, addr.parse().expect("an address"));
        let headers = [(HOST, host.parse().expect("a header"))].into_iter().collect();
        hosts.are_meant_by(&Uri::from_static("/"), &headers)
    }

    #[test]
    fn a_foreign_name_is_not_ours() {
        let local = |host| meant("", "127.0.0.1:8080", host);
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
        assert!(meant("", "0.0.0.0:8080", "shop.example"));
        assert!(meant("shop.example, www.shop.example", "0.0.0.0:8080", "WWW.shop.example.:443"));
        assert!(!meant("shop.example", "0.0.0.0:8080", "evil.example"));
        assert!(meant("*", "127.0.0.1:8080", "evil.example"));
    }

    #[test]
    fn the_request_line_counts_too() {
        let hosts = Hosts::new("", "127.0.0.1:8080".parse().expect("an address"));
        let headers: HeaderMap =
            [(HOST, "localhost".parse().expect("a header"))].into_iter().collect();
        assert!(!hosts.are_meant_by(&Uri::from_static("http://evil.example/"), &headers));
        assert!(hosts.are_meant_by(&Uri::from_static("http://localhost:1/"), &headers));
    }
}
