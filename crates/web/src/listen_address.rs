//! Where the service listens, as the settings write it: `127.0.0.1:8080`, or `unix:/run/seckill/http.sock`.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

/// What the address of a unix socket begins with.
const UNIX: &str = "unix:";
/// The permissions that a socket's mode may name: those to read and to write, of its owner, its group and all others.
const MODE_BITS: u32 = 0o666;

/// An address of TCP, or the path of a unix socket.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub enum ListenAddress {
    /// An address and a port; port 0 is any free one.
    Tcp(SocketAddr),
    /// An absolute path.
    Unix(PathBuf),
}

/// Who may connect to a unix socket, as the octal digits of `chmod`. To connect takes the right to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct SocketMode(pub u32);

impl ListenAddress {
    /// Whether nobody but programs of this machine can connect. Who connects to a unix socket is a proxy, which
    /// passes on what others ask.
    pub fn is_loopback(&self) -> bool {
        matches!(self, Self::Tcp(address) if address.ip().is_loopback())
    }

    /// The address of TCP, if it is one.
    pub fn tcp(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }

    /// The path of the unix socket, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Tcp(_) => None,
            Self::Unix(path) => Some(path),
        }
    }

    /// Where a program of this machine connects to it: a service that listens on all addresses has a loopback one.
    pub fn from_here(&self) -> Self {
        let Self::Tcp(address) = self else { return self.clone() };
        let ip = match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            ip => ip,
        };
        Self::Tcp(SocketAddr::new(ip, address.port()))
    }
}

impl FromStr for ListenAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(path) = text.strip_prefix(UNIX) else {
            let wanted = "an address with a port, such as 127.0.0.1:8080, or unix:/path";
            let address = text.parse().map(Self::Tcp);
            return address.map_err(|_| format!("it must be {wanted}, not {text:?}"));
        };
        let is_file = Path::new(path).is_absolute() && !path.ends_with('/');
        let wrong = || format!("the path after unix: must begin with / and name a file: {text:?}");
        is_file.then(|| Self::Unix(path.into())).ok_or_else(wrong)
    }
}

impl TryFrom<String> for ListenAddress {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(formatter),
            Self::Unix(path) => write!(formatter, "{UNIX}{}", path.display()),
        }
    }
}

impl TryFrom<String> for SocketMode {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let mode = u32::from_str_radix(&text, 8).ok().filter(|mode| mode & !MODE_BITS == 0);
        let wrong = || format!("it must be three octal digits of 0, 2, 4 and 6, not {text:?}");
        let is_plain = text.len() == 3 && text.bytes().all(|digit| digit.is_ascii_digit());
        mode.filter(|_| is_plain).map(Self).ok_or_else(wrong)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_shown_alike() {
        for text in ["127.0.0.1:8080", "[::]:0", "unix:/run/seckill/http.sock"] {
            let address: ListenAddress = text.parse().expect("an address");
            assert_eq!(address.to_string(), text);
        }
        for text in ["", "8080", "localhost:8080", "unix:", "unix:http.sock", "unix:@x", "unix:/"] {
            assert!(text.parse::<ListenAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_of_this_machine_reaches_it() {
        for (text, from_here) in [
            ("0.0.0.0:80", "127.0.0.1:80"),
            ("[::]:80", "[::1]:80"),
            ("10.0.0.1:80", "10.0.0.1:80"),
            ("unix:/a", "unix:/a"),
        ] {
            let address: ListenAddress = text.parse().expect("an address");
            assert_eq!(address.from_here().to_string(), from_here);
        }
    }

    #[test]
    fn a_mode_is_octal_and_runs_nothing() {
        let read = |text: &str| SocketMode::try_from(text.to_owned());
        assert_eq!(read("660"), Ok(SocketMode(0o660)));
        assert_eq!(read("600"), Ok(SocketMode(0o600)));
        for text in ["", "66", "0660", "770", "888", "-66", "+66"] {
            assert!(read(text).is_err(), "{text}");
        }
    }
}
