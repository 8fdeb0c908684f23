//! Where a request comes from: the peer of its connection, or, behind a proxy that is named in the
//! settings, the address that this proxy tells.
//!
//! `X-Forwarded-For` is a list that every hop appends to. It is read from its end, and only as far
//! as the hops are ours: what stands before the first foreign address anybody could have written.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

use super::Web;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of the connection that a request came on.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub IpAddr);

/// Where a request comes from, as far as we believe it. Requests without a connection (there are
/// none but in unit tests) come from nowhere, `::`.
#[derive(Clone, Copy, Debug)]
pub struct ClientAddress(pub IpAddr);

impl<S> FromRequestParts<S> for ClientAddress
where
    S: Send + Sync,
    Web: FromRef<S>,
{
    type Rejection = std::convert::Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Self::Rejection> {
        let peer = parts.extensions.get::<Peer>().map_or(Ipv6Addr::UNSPECIFIED.into(), |it| it.0);
        Ok(Self(Web::from_ref(state).proxies.client(peer, &parts.headers)))
    }
}

/// The networks whose word about an address is believed.
#[derive(Clone, Debug, Default)]
pub struct Proxies(Vec<IpNet>);

impl Proxies {
    /// Reads addresses and networks that are separated by commas.
    ///
    /// # Errors
    /// A sentence with the part that is neither.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let read = |part: &str| {
            let network = part.parse().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
            network.map_err(|_| format!("http.trusted_proxies: {part:?} is no address or network"))
        };
        parts.map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Whether an address is one of our proxies.
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// Where a request on a connection of `peer` comes from.
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

/// What is counted as one address: in IPv6 the network that a customer gets as a whole.
#[must_use]
pub fn household(address: IpAddr) -> IpAddr {
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
    fn a_strangers_word_is_not_believed() {
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
    fn what_is_no_network_is_named() {
        let error = Proxies::parse("10.0.0.0/8, ten").expect_err("no network");
        assert!(error.contains("\"ten\""), "{error}");
    }

    #[test]
    fn one_customers_ipv6_network_is_one_address() {
        let household = |text: &str| household(text.parse().expect("an address")).to_string();
        assert_eq!(household("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(household("::ffff:1.2.3.4"), "1.2.3.4");
    }
}
