//! The client's address: the peer of the connection, or, behind a proxy of the setting
//! `http.trusted_proxies`, the address that this proxy forwards.
//!
//! Each proxy appends the address of its peer to `X-Forwarded-For`, or to `Forwarded` (RFC 7239), which is read where the
//! first is missing. The list is read from its end for as long as the addresses are trusted proxies: anybody could have
//! written the rest. A proxy that hides its peer (`unknown`, `_name`) is the client.

use std::net::{IpAddr, Ipv6Addr};

use axum::extract::{FromRef, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName};
use ipnet::IpNet;

const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");
const FORWARDED: HeaderName = HeaderName::from_static("forwarded");

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
    pub fn contain(&self, address: IpAddr) -> bool {
        self.0.iter().any(|network| network.contains(&address))
    }

    /// The client of a request with these headers on a connection from `peer`.
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let mut client = peer.to_canonical();
        if !self.contain(client) {
            return client;
        }
        for hop in hops(headers).into_iter().rev() {
            let Some(next) = hop.filter(|_| self.contain(client)) else { break };
            client = next;
        }
        client
    }
}

/// The addresses that proxies have noted, the nearest last; `None` for one that cannot be read.
fn hops(headers: &HeaderMap) -> Vec<Option<IpAddr>> {
    let lines = |name| headers.get_all(name).iter().map(|line| line.to_str().unwrap_or("?"));
    if headers.contains_key(FORWARDED_FOR) {
        let parts = lines(FORWARDED_FOR).flat_map(|line| line.split(','));
        return parts.map(str::trim).filter(|part| !part.is_empty()).map(node).collect();
    }
    lines(FORWARDED).flat_map(hops_of_line).collect()
}

/// The `for` of each element of a line of `Forwarded`. With an open quote the line is no list: a client may have opened
/// it, so that it swallows what its proxy appends.
fn hops_of_line(line: &str) -> Vec<Option<IpAddr>> {
    let Some(elements) = split_unquoted(line, ',') else { return vec![None] };
    let address = |element: &str| {
        let pairs = split_unquoted(element, ';')?;
        let named = pairs.iter().filter_map(|pair| pair.split_once('='));
        let mut values = named.filter(|(name, _)| name.trim().eq_ignore_ascii_case("for"));
        let value = values.next()?.1.trim();
        node(value.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')).unwrap_or(value))
    };
    elements.into_iter().filter(|element| !element.trim().is_empty()).map(address).collect()
}

/// Splits a text at a letter outside of quoted parts; `None` when a quote stays open.
pub(crate) fn split_unquoted(text: &str, at: char) -> Option<Vec<&str>> {
    let mut is_quoted = false;
    let mut is_escaped = false;
    let split = |letter: char| {
        let is_end = letter == at && !is_quoted;
        is_quoted ^= letter == '"' && !is_escaped;
        is_escaped = letter == '\\' && is_quoted && !is_escaped;
        is_end
    };
    let parts = text.split(split).collect();
    (!is_quoted).then_some(parts)
}

/// The address of a node: with or without a port, an IPv6 address with or without brackets.
fn node(text: &str) -> Option<IpAddr> {
    let address = match (text.strip_prefix('['), text.split_once(':')) {
        (Some(rest), _) => rest.split_once(']')?.0,
        (None, Some((address, port))) if !port.contains(':') => address,
        _ => text,
    };
    address.parse().ok().map(|address: IpAddr| address.to_canonical())
}

/// The address under which a client is counted: an IPv4 address, or the /64 network of an IPv6
/// address, since one customer gets the whole network.
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

    fn client_of(proxies: &str, peer: &str, lines: &[(HeaderName, &str)]) -> String {
        let mut headers = HeaderMap::new();
        for (name, line) in lines {
            headers.append(name, line.parse().expect("a header"));
        }
        let peer = peer.parse().expect("an address");
        Proxies::parse(proxies).expect("networks").client(peer, &headers).to_string()
    }

    fn client(proxies: &str, peer: &str, lists: &[&str]) -> String {
        let lines: Vec<_> = lists.iter().map(|list| (FORWARDED_FOR, *list)).collect();
        client_of(proxies, peer, &lines)
    }

    #[test]
    fn a_header_of_an_untrusted_peer_is_ignored() {
        assert_eq!(client("", "9.9.9.9", &["1.1.1.1"]), "9.9.9.9");
        assert_eq!(client("10.0.0.0/8", "9.9.9.9", &["1.1.1.1"]), "9.9.9.9");
        assert_eq!(client_of("", "9.9.9.9", &[(FORWARDED, "for=1.1.1.1")]), "9.9.9.9");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &["6.6.6.6, 1.1.1.1"]), "1.1.1.1");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &["6.6.6.6", "1.1.1.1, 10.2.2.2"]), "1.1.1.1");
        assert_eq!(client("10.0.0.0/8,::1", "::1", &["10.2.2.2"]), "10.2.2.2");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &["6.6.6.6, nonsense"]), "10.1.1.1");
        assert_eq!(client("10.0.0.0/8", "10.1.1.1", &[]), "10.1.1.1");
        assert_eq!(client("10.0.0.1", "::ffff:10.0.0.1", &["1.1.1.1"]), "1.1.1.1");
    }

    /// Each form of `X-Forwarded-For` that a proxy sends, its source, and the client. The proxies are 10.0.0.0/8, and the
    /// nearest is 10.0.0.1.
    #[test]
    fn the_lists_of_real_proxies_are_read() {
        for (lines, expected, source) in [
            (
                &["203.0.113.7"][..],
                "203.0.113.7",
                "nginx, $proxy_add_x_forwarded_for; Caddy; Traefik",
            ),
            (&["6.6.6.6, 203.0.113.7"], "203.0.113.7", "the same, after a client's own line"),
            (&["6.6.6.6,203.0.113.7"], "203.0.113.7", "Envoy, use_remote_address: no space"),
            (
                &["6.6.6.6", "203.0.113.7"],
                "203.0.113.7",
                "HAProxy, option forwardfor: a line of its own",
            ),
            (&["203.0.113.7, 10.0.0.2"], "203.0.113.7", "two proxies of ours"),
            (
                &["203.0.113.7,10.0.0.9"],
                "203.0.113.7",
                "Google Cloud: client, then its own address",
            ),
            (&["203.0.113.7,34.1.1.1"], "34.1.1.1", "the same, its own address not trusted"),
            (&["203.0.113.7:41523"], "203.0.113.7", "Azure Application Gateway: IP:port"),
            (&["6.6.6.6:1, 203.0.113.7:41523"], "203.0.113.7", "AWS, xff_client_port.enabled"),
            (&["[2001:db8::7]:41523"], "2001:db8::7", "AWS, xff_client_port.enabled, IPv6"),
            (&["2001:db8::7"], "2001:db8::7", "AWS, Cloudflare: IPv6 without brackets"),
            (&["[2001:db8::7]"], "2001:db8::7", "IIS ARR: IPv6 in brackets without a port"),
            (&["2001:DB8:0:0:0:0:0:7"], "2001:db8::7", "in capitals, not shortened"),
            (&["::ffff:203.0.113.7"], "203.0.113.7", "a proxy that listens on IPv6 for both"),
            (&[" \t203.0.113.7 "], "203.0.113.7", "spaces and tabs"),
            (&["203.0.113.7,"], "203.0.113.7", "an empty element, RFC 9110, 5.6.1"),
            (&["203.0.113.7", ""], "203.0.113.7", "an empty line"),
            (&["203.0.113.7, unknown"], "10.0.0.1", "Squid, forwarded_for off"),
            (&["203.0.113.7, _hidden"], "10.0.0.1", "an obfuscated name"),
            (&["203.0.113.7, localhost"], "10.0.0.1", "a name"),
            (&["203.0.113.7, 10.0.0.2:http"], "203.0.113.7", "a port that is none"),
            (&["6.6.6.6 203.0.113.7"], "10.0.0.1", "a space instead of a comma"),
            (&["203.0.113.7, 1.2.3"], "10.0.0.1", "half an address"),
        ] {
            assert_eq!(client("10.0.0.0/8", "10.0.0.1", lines), expected, "{source}: {lines:?}");
        }
    }

    /// Each form of `Forwarded`, its source, and the client.
    #[test]
    fn the_standard_header_is_read_in_each_form() {
        for (lines, expected, source) in [
            (&["for=203.0.113.7"][..], "203.0.113.7", "RFC 7239, section 4"),
            (&["For=203.0.113.7"], "203.0.113.7", "RFC 7239: names in any case"),
            (&["proto=http;for=203.0.113.7"], "203.0.113.7", "HAProxy 2.8, option forwarded"),
            (
                &["for=203.0.113.7;host=shop.example;proto=https"],
                "203.0.113.7",
                "OpenShift's router",
            ),
            (&["by=10.0.0.1;for=203.0.113.7;host=a;proto=https"], "203.0.113.7", "AWS API Gateway"),
            (&["for=6.6.6.6, for=203.0.113.7"], "203.0.113.7", "a list"),
            (&["for=6.6.6.6", "for=203.0.113.7;by=10.0.0.1"], "203.0.113.7", "several lines"),
            (&["for=203.0.113.7,for=10.0.0.2"], "203.0.113.7", "two proxies of ours"),
            (&["for=\"[2001:db8::7]\""], "2001:db8::7", "RFC 7239, section 6.1"),
            (&["for=\"[2001:db8::7]:4711\""], "2001:db8::7", "the same with a port"),
            (&["for=\"203.0.113.7:4711\""], "203.0.113.7", "HAProxy, for_port"),
            (&["for=203.0.113.7:4711"], "203.0.113.7", "the same unquoted"),
            (&["for=\"203.0.113.7:_port\""], "203.0.113.7", "RFC 7239: an obfuscated port"),
            (&["for=\"203.0.113.7\" ; proto=http"], "203.0.113.7", "spaces"),
            (&["host=\"a, for=6.6.6.6\";for=203.0.113.7"], "203.0.113.7", "a comma within quotes"),
            (&["host=\"a\\\", b\";for=203.0.113.7"], "203.0.113.7", "a quote within quotes"),
            (&["for=203.0.113.7, for=unknown"], "10.0.0.1", "RFC 7239, section 6.2"),
            (&["for=203.0.113.7, for=_hidden"], "10.0.0.1", "RFC 7239, section 6.3; YARP"),
            (&["for=203.0.113.7, proto=https"], "10.0.0.1", "an element without a client"),
            (&["for=6.6.6.6;x=\", for=203.0.113.7"], "10.0.0.1", "a quote that a client left open"),
            (&["for=6.6.6.6;x=\", for=\"[2001:db8::7]\""], "10.0.0.1", "the same before IPv6"),
        ] {
            let headers: Vec<_> = lines.iter().map(|line| (FORWARDED, *line)).collect();
            let found = client_of("10.0.0.0/8", "10.0.0.1", &headers);
            assert_eq!(found, expected, "{source}: {lines:?}");
        }
        let both = [(FORWARDED, "for=6.6.6.6"), (FORWARDED_FOR, "203.0.113.7")];
        assert_eq!(client_of("10.0.0.0/8", "10.0.0.1", &both), "203.0.113.7");
        for other in ["x-real-ip", "cf-connecting-ip", "true-client-ip", "x-client-ip"] {
            let lines = [(HeaderName::from_static(other), "6.6.6.6")];
            assert_eq!(client_of("10.0.0.0/8", "10.0.0.1", &lines), "10.0.0.1", "{other}");
        }
    }

    #[test]
    fn one_customers_ipv6_network_is_one_address() {
        let key = |text: &str| rate_limit_key(text.parse().expect("an address")).to_string();
        assert_eq!(key("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::");
        assert_eq!(key("::ffff:1.2.3.4"), "1.2.3.4");
    }
}
