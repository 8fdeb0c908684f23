//! The client's address: the peer of the connection, or, behind a proxy of the setting
//! `http.trusted_proxies`, the address that this proxy forwards.
//!
//! Each proxy appends the address of its peer to `X-Forwarded-For`. The list is read from its end
//! for as long as the addresses are trusted proxies: anybody could have written the rest.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The address at the other end of a request's connection.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// The address of the client that sent a request. It is `::` for a request without a connection,
/// which only unit tests make.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

impl<S: Send + Sync> FromRequestParts<S> for ClientAddress
where
    Proxies: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv6Addr::UNSPECIFIED.into(), |it| it.0);
        Ok(Self(Proxies::from_ref(state).client(peer, &parts.headers)))
    }
}

/// The networks of trusted proxies.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Reads addresses and networks (CIDR), separated by commas.
    ///
    /// # Errors
    /// A sentence that names the first part that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let read = |part: &str| {
            let network = part.parse().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
            network
                .map_err(|_| format!("http.trusted_proxies: {part:?} is not an address or network"))
        };
        parts.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether an address is a trusted proxy.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client of a request with these headers on a connection from `peer`.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        let lists = headers.get_all(FORWARDED_FOR).iter().rev();
        let hops = lists.flat_map(|list| list.to_str().unwrap_or_default().rsplit(','));
        for hop in hops {
            if !self.contain(client) {
                break;
            }
            let Ok(next) = hop.trim().parse::<IpAddr>() else { break };
            client = next.to_canonical();
        }
        client
    }
}

/// The address under which a client is counted: an IPv4 address, or the /64 network of an IPv6
/// address, since one customer gets the whole network.
#[must_use]
pub fn rate_limit_key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into()
        }
        address => address,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn client(proxies: &str, peer: &str, lists: &[&str]) -> String {
        let mut headers = HeaderMap::new();
        for list in lists {
            headers.append(FORWARDED_FOR, list.parse().expect("a header"));
        }
        let peer = peer.parse().expect("an address");
        Proxies::parse(proxies).expect("networks").client(peer, &headers).to_string()
    }

    #[test]
    fn a_header_of_an_untrusted_peer_is_ignored() {
        assert_eq!(client("", "9.9.9.9", &["1.1.1.1"]), "9.9.9.9");
        assert_eq!(client("10.0.0.0/8", "9.9.9.9", &["1.1.1.1"]), "9.9.9.9");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &["6.6.6.6, 1.1.1.1"]), "1.1.1.1");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &["6.6.6.6", "1.1.1.1, 10.2.2.2"]), "1.1.1.1");
        assert_eq!(client("10.0.0.0/8,::1", "::1", &["10.2.2.2"]), "10.2.2.2");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &["6.6.6.6, nonsense"]), "10.1.1.1");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &[]), "10.1.1.1");
        assert_eq!(client("10.0.0.1", "::ffff:10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
    }

    #[test]
    fn the_error_names_the_invalid_network() {
        let error = Proxies::parse("10.0.0.0/8, ten").expect_err("no network");
        assert!(error.contains("\"ten\""), "{error}");
    }

    #[test]
    fn one_customers_ipv6_network_is_one_address() {
        let key = |text: &str| rate_limit_key(text.parse().expect("an address")).to_string();
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(key("::ffff:1.2.3.4"), "1.2.3.4");
    }
}
