//! The URL of a Redis, and what it says about the shape of the servers behind it.

use std::fmt::Display;
use std::time::Duration;

#[cfg(feature = "tls")]
use redis::{Client, ClientTlsConfig, RedisResult, TlsCertificates};
use redis::{ConnectionAddr, ConnectionInfo, IntoConnectionInfo};

/// The port of a Sentinel whose address has none.
const SENTINEL_PORT: u16 = 26_379;
/// TCP keep-alive: idle time before the first probe, time between probes, and unanswered probes
/// after which the connection counts as broken.
const KEEPALIVE_AFTER: Duration = Duration::from_secs(10);
const KEEPALIVE_EVERY: Duration = Duration::from_secs(3);
const KEEPALIVE_TRIES: u32 = 3;
/// How long the kernel keeps sending data that the server's kernel does not acknowledge.
#[cfg(target_os = "linux")]
const UNACKNOWLEDGED_MAX: Duration = Duration::from_secs(15);

/// The address of Redis, parsed:
///
/// | URL | servers |
/// |---|---|
/// | `redis://[user:password@]host[:port][/db]` | one |
/// | `redis+unix:///path?pass=password` | one, on a unix socket |
/// | `redis+sentinel://[user:password@]h1[:port],h2,h3/name[/db]` | a primary, found by the Sentinels h1, h2, h3 under `name`; `?sentinel_user=` and `?sentinel_password=` log in to the Sentinels |
/// | `redis+cluster://[user:password@]h1[:port],h2,h3` | a cluster; any of its nodes find the others |
///
/// `rediss` instead of `redis` means TLS, to the Sentinels too; it needs the feature `tls`. `valkey`
/// stands for `redis`.
#[derive(Clone, Debug)]
pub struct Address(pub(crate) Shape);

#[derive(Clone, Debug)]
pub(crate) enum Shape {
    Single(ConnectionInfo),
    Sentinel {
        sentinels: Vec<ConnectionInfo>,
        name: String,
        /// How to log in to the primary, wherever it is.
        server: ConnectionInfo,
    },
    Cluster {
        seeds: Vec<ConnectionInfo>,
    },
}

/// Why an address cannot be used, in a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidAddress(String);

/// Certificates for TLS, in PEM.
#[cfg(feature = "tls")]
#[derive(Clone, Debug, Default)]
pub struct Certificates {
    /// The roots that a server's certificate must come from; `None`: those of the system.
    pub roots: Option<Vec<u8>>,
    /// The certificate with which this client proves itself, and its key.
    pub client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Address {
    /// Parses a URL.
    ///
    /// # Errors
    /// A sentence without the URL, which may have a password.
    pub fn parse(url: &str) -> Result<Self, InvalidAddress> {
        let (scheme, rest) = url.split_once("://").ok_or_else(|| invalid("it has no ://"))?;
        let (protocol, shape) = scheme.split_once('+').unwrap_or((scheme, ""));
        match shape {
            "sentinel" => sentinels(protocol, rest),
            "cluster" => cluster(protocol, rest),
            _ => Ok(Self(Shape::Single(settled(url)?))),
        }
    }

    /// Puts the certificates into an address with TLS; the others need none.
    ///
    /// # Errors
    /// A sentence when a certificate or a key cannot be read.
    #[cfg(feature = "tls")]
    pub fn with_certificates(self, certificates: &Certificates) -> Result<Self, InvalidAddress> {
        let add = |info: ConnectionInfo| certified(info, certificates);
        let add_all =
            |all: Vec<ConnectionInfo>| all.into_iter().map(add).collect::<RedisResult<_>>();
        let added = || -> RedisResult<Shape> {
            Ok(match self.0 {
                Shape::Single(info) => Shape::Single(add(info)?),
                Shape::Sentinel { sentinels, name, server } => {
                    Shape::Sentinel { sentinels: add_all(sentinels)?, name, server: add(server)? }
                }
                Shape::Cluster { seeds } => Shape::Cluster { seeds: add_all(seeds)? },
            })
        };
        added().map(Self).map_err(|error| invalid(format_args!("its certificates: {error}")))
    }

    /// Whether everything that is sent is encrypted.
    #[must_use]
    pub fn is_encrypted(&self) -> bool {
        matches!(self.template().addr(), ConnectionAddr::TcpTls { .. })
    }

    /// Whether there is a password for the servers.
    #[must_use]
    pub fn has_password(&self) -> bool {
        self.template().redis_settings().password().is_some_and(|password| !password.is_empty())
    }

    /// The hosts of the URL; none for a unix socket.
    #[must_use]
    pub fn hosts(&self) -> Vec<&str> {
        let all = match &self.0 {
            Shape::Single(info) => std::slice::from_ref(info),
            Shape::Sentinel { sentinels, .. } => sentinels,
            Shape::Cluster { seeds } => seeds,
        };
        all.iter().filter_map(|info| host_of(info.addr())).collect()
    }

    /// Whether it is one server, neither Sentinel nor a cluster.
    #[must_use]
    pub fn is_single(&self) -> bool {
        matches!(self.0, Shape::Single(_))
    }

    fn template(&self) -> &ConnectionInfo {
        match &self.0 {
            Shape::Single(info) | Shape::Sentinel { server: info, .. } => info,
            Shape::Cluster { seeds } => &seeds[0],
        }
    }
}

/// The address of another server that is logged in to in the same way.
pub(crate) fn at(template: &ConnectionInfo, host: &str, port: u16) -> ConnectionInfo {
    let host = host.to_owned();
    let address = match template.addr() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => ConnectionAddr::TcpTls {
            host,
            port,
            insecure: *insecure,
            tls_params: tls_params.clone(),
        },
        _ => ConnectionAddr::Tcp(host, port),
    };
    template.clone().set_addr(address)
}

pub(crate) fn host_of(address: &ConnectionAddr) -> Option<&str> {
    match address {
        ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } => Some(host),
        _ => None,
    }
}

fn sentinels(protocol: &str, rest: &str) -> Result<Address, InvalidAddress> {
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    let (name, db) = path.split_once('/').unwrap_or((path, ""));
    if name.is_empty() {
        return Err(invalid("the name of the primary is missing: redis+sentinel://h1,h2,h3/name"));
    }
    let mut user = "";
    let mut password = "";
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        match pair.split_once('=') {
            Some(("sentinel_user", value)) => user = value,
            Some(("sentinel_password", value)) => password = value,
            _ => return Err(invalid("it has an unknown parameter behind the question mark")),
        }
    }
    let sentinel_login =
        if password.is_empty() { String::new() } else { format!("{user}:{password}") };
    let sentinels = infos(protocol, &sentinel_login, hosts, "", Some(SENTINEL_PORT))?;
    let [server] = &*infos(protocol, login, "primary", db, None)? else {
        return Err(invalid("it has no host"));
    };
    Ok(Address(Shape::Sentinel { sentinels, name: name.to_owned(), server: server.clone() }))
}

fn cluster(protocol: &str, rest: &str) -> Result<Address, InvalidAddress> {
    let (login, rest) = rest.rsplit_once('@').unwrap_or(("", rest));
    let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
    if !matches!(path, "" | "0") {
        return Err(invalid("a cluster has only the database 0"));
    }
    Ok(Address(Shape::Cluster { seeds: infos(protocol, login, hosts, "", None)? }))
}

/// One address for each host, by the library's own parser.
fn infos(
    protocol: &str,
    login: &str,
    hosts: &str,
    db: &str,
    default_port: Option<u16>,
) -> Result<Vec<ConnectionInfo>, InvalidAddress> {
    let at = if login.is_empty() { "" } else { "@" };
    hosts
        .split(',')
        .map(|host| {
            let has_port =
                host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            let port = match default_port {
                Some(port) if !has_port => format!(":{port}"),
                _ => String::new(),
            };
            settled(&format!("{protocol}://{login}{at}{host}{port}/{db}"))
        })
        .collect()
}

/// Reads the URL of one server, with the settings of every TCP connection.
fn settled(url: &str) -> Result<ConnectionInfo, InvalidAddress> {
    let info = url.into_connection_info().map_err(invalid)?;
    let keepalive = socket2::TcpKeepalive::new()
        .with_time(KEEPALIVE_AFTER)
        .with_interval(KEEPALIVE_EVERY)
        .with_retries(KEEPALIVE_TRIES);
    let settings = redis::io::tcp::TcpSettings::default().set_nodelay(true);
    let settings = settings.set_keepalive(keepalive);
    #[cfg(target_os = "linux")]
    let settings = settings.set_user_timeout(UNACKNOWLEDGED_MAX);
    Ok(info.set_tcp_settings(settings))
}

#[cfg(feature = "tls")]
fn certified(info: ConnectionInfo, certificates: &Certificates) -> RedisResult<ConnectionInfo> {
    if !matches!(info.addr(), ConnectionAddr::TcpTls { .. }) {
        return Ok(info);
    }
    // All clients of this process encrypt with one provider. An error means that it is set already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let client_tls = certificates.client.clone();
    let client_tls =
        client_tls.map(|(client_cert, client_key)| ClientTlsConfig { client_cert, client_key });
    let certificates = TlsCertificates { client_tls, root_cert: certificates.roots.clone() };
    Ok(Client::build_with_tls(info, certificates)?.get_connection_info().clone())
}

pub(crate) fn invalid(why: impl Display) -> InvalidAddress {
    InvalidAddress(why.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(url: &str) -> Shape {
        Address::parse(url).unwrap_or_else(|error| panic!("{url}: {error}")).0
    }

    #[test]
    fn every_shape_is_read() {
        let Shape::Single(one) = parsed("redis://:secret@cache.example:7000/3") else { panic!() };
        assert_eq!(one.addr().to_string(), "cache.example:7000");
        assert_eq!(
            (one.redis_settings().db(), one.redis_settings().password()),
            (3, Some("secret"))
        );
        assert!(matches!(parsed("redis+unix:///run/redis.sock?pass=x"), Shape::Single(_)));

        let url = "redis+sentinel://me:pw@a,b:1,[::1]:2/shop/1?sentinel_password=other";
        let Shape::Sentinel { sentinels, name, server } = parsed(url) else { panic!() };
        let hosts: Vec<String> = sentinels.iter().map(|info| info.addr().to_string()).collect();
        assert_eq!((hosts.join(" ").as_str(), name.as_str()), ("a:26379 b:1 ::1:2", "shop"));
        assert_eq!(sentinels[0].redis_settings().password(), Some("other"));
        assert_eq!(server.redis_settings().username(), Some("me"));
        assert_eq!(
            (server.redis_settings().password(), server.redis_settings().db()),
            (Some("pw"), 1)
        );

        let tls = if cfg!(feature = "tls") { "s" } else { "" };
        let url = format!("redis{tls}+cluster://:pw@a:7000,b");
        let Shape::Cluster { seeds } = parsed(&url) else { panic!() };
        let hosts: Vec<String> = seeds.iter().map(|info| info.addr().to_string()).collect();
        assert_eq!(hosts, ["a:7000", "b:6379"]);
        assert_eq!(Address(Shape::Cluster { seeds }).is_encrypted(), cfg!(feature = "tls"));
        let other = at(&one, "elsewhere", 9);
        assert_eq!(other.addr().to_string(), "elsewhere:9");
        assert_eq!(other.redis_settings().password(), Some("secret"));
    }

    #[test]
    fn what_cannot_be_used_is_refused() {
        for url in [
            "",
            "localhost:6379",
            "http://a",
            "redis+sentinel://a,b",
            "redis+cluster://a/1",
            "redis+cluster://",
            "redis+sentinel://a/name?password=x",
            "redis+cluster://a,,b",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
    }
}
