//! Addresses that a webhook may have, and the guard against requests into private networks (SSRF).
//!
//! A name is resolved for each connection, and the connection goes to an address that was checked:
//! a name that points elsewhere a moment later changes nothing. Redirects are not followed.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use hyper::Uri;
use ipnet::IpNet;
use serde::Deserialize;

/// The address of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// Whether the connection is encrypted.
    pub tls: bool,
    /// A name, or an address without brackets.
    pub host: String,
    pub port: u16,
    /// What stands in the Host header.
    pub authority: String,
    /// Path and query.
    pub path: String,
}

impl Target {
    /// Reads an address such as `https://shop.example/events`.
    ///
    /// # Errors
    /// A sentence for the operator.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let uri: Uri = text
            .parse()
            .map_err(|_| "Send a whole address, such as https://shop.example/events.")?;
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err("Send an address that begins with https://."),
        };
        let authority = uri.authority().ok_or("Send an address with a host name.")?;
        if authority.as_str().contains('@') {
            return Err(
                "Leave user name and password out of the address; check the signature instead.",
            );
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        if host.is_empty() {
            return Err("Send an address with a host name.");
        }
        // The parser takes any digits behind the host.
        let port = authority.port_u16().filter(|port| *port > 0);
        if port.is_none() && authority.as_str() != authority.host() {
            return Err("Send a port from 1 to 65535, or none.");
        }
        Ok(Self {
            tls,
            host,
            port: port.unwrap_or(if tls { 443 } else { 80 }),
            authority: authority.as_str().to_owned(),
            path: uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string),
        })
    }
}

/// The private networks that webhooks may reach.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(try_from = "String")]
pub struct PrivateNetworks(Vec<IpNet>);

impl PrivateNetworks {
    /// Reads addresses and networks that are separated by commas.
    ///
    /// # Errors
    /// A sentence with the part that is no network.
    pub fn parse(text: &str) -> Result<Self, String> {
        let parts = text.split(',').map(str::trim).filter(|part| !part.is_empty());
        let networks = parts.map(|part| {
            let network = part.parse().or_else(|_| part.parse::<IpAddr>().map(IpNet::from));
            network
                .map_err(|_| format!("private_networks takes addresses and networks, not {part:?}"))
        });
        networks.collect::<Result<_, _>>().map(Self)
    }

    /// All networks, for an address that the settings name.
    pub fn all() -> Self {
        let all = ["0.0.0.0/0", "::/0"].map(|network| network.parse().ok());
        Self(all.into_iter().flatten().collect())
    }

    /// Whether a webhook may be sent to `address`: to a public one if the connection is encrypted,
    /// to a private one if the settings name its network.
    pub fn permit(&self, address: IpAddr, tls: bool) -> bool {
        let address = address.to_canonical();
        let is_named = self.0.iter().any(|network| network.contains(&address));
        is_named || (tls && is_public(address))
    }
}

impl TryFrom<String> for PrivateNetworks {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Self::parse(&text)
    }
}

/// Whether an address belongs to the public internet, by IANA's registries of special addresses.
fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    !matches!(
        (a, b, c),
        (0 | 10 | 127 | 224..=255, _, _)
            | (100, 64..=127, _)
            | (169, 254, _)
            | (172, 16..=31, _)
            | (192, 0, 0 | 2)
            | (192, 31, 196)
            | (192, 52, 193)
            | (192, 88, 99)
            | (192, 168, _)
            | (192, 175, 48)
            | (198, 18 | 19, _)
            | (198, 51, 100)
            | (203, 0, 113)
    )
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    // Only 2000::/3 is handed out. Of that, 2001::/23 is for protocols (Teredo among them),
    // 2001:db8::/32 and 3fff::/20 are for documents, and 2002::/16 (6to4) hides an IPv4 address.
    (0x2000..0x4000).contains(&segments[0])
        && !(segments[0] == 0x2001 && (segments[1] < 0x200 || segments[1] == 0xdb8))
        && segments[0] != 0x2002
        && !(segments[0] == 0x3fff && segments[1] < 0x1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_a_doubtful_one_refused() {
        let target = Target::parse("https://shop.example/in?key=1#top").expect("an address");
        assert_eq!((target.tls, target.port, &*target.host), (true, 443, "shop.example"));
        assert_eq!(target.path, "/in?key=1");
        let target = Target::parse("http://[::1]:8080").expect("an address");
        assert_eq!((&*target.host, target.port, &*target.authority), ("::1", 8080, "[::1]:8080"));
        assert_eq!(target.path, "/");
        for bad in [
            "",
            "shop.example",
            "/in",
            "ftp://shop.example",
            "https://me:pw@shop.example",
            "https://",
            "file:///etc/passwd",
            "https://a b",
            "https://shop.example:99999/in",
            "https://shop.example:0/in",
            "https://shop.example:/in",
            "http://[::1]:65536",
        ] {
            assert!(Target::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn only_public_addresses_are_reached_unless_the_settings_name_them() {
        let none = PrivateNetworks::default();
        for private in [
            "127.0.0.1",
            "10.1.2.3",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "0.0.0.0",
            "255.255.255.255",
            "224.0.0.1",
            "198.18.0.1",
            "192.0.2.1",
            "::",
            "::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "ff02::1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "64:ff9b::a00:1",
            "2002:a00:1::",
            "2001::1",
            "2001:db8::1",
            "::7f00:1",
        ] {
            let address = private.parse().expect("an address");
            assert!(!none.permit(address, true), "{private}");
        }
        for public in
            ["1.1.1.1", "172.32.0.1", "192.169.0.1", "2606:4700:4700::1111", "2001:4860::1"]
        {
            let address = public.parse().expect("an address");
            assert!(none.permit(address, true), "{public}");
            assert!(!none.permit(address, false), "{public} without encryption");
        }
        let some = PrivateNetworks::parse("127.0.0.1, 10.0.0.0/8").expect("networks");
        for (address, permitted) in [
            ("127.0.0.1", true),
            ("10.9.9.9", true),
            ("::ffff:10.9.9.9", true),
            ("127.0.0.2", false),
            ("192.168.0.1", false),
        ] {
            let address_read = address.parse().expect("an address");
            assert_eq!(some.permit(address_read, false), permitted, "{address}");
        }
        assert!(PrivateNetworks::parse("ten").is_err());
    }
}
