//! Listeners: of TCP or a unix socket, made here or passed to this process.

use std::fs;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use socket2::SockRef;
use tokio::net::{TcpListener, TcpSocket, TcpStream, UnixListener, UnixSocket, UnixStream};
use tokio_util::either::Either;

use crate::listen_address::{ListenAddress, SocketMode};
use crate::socket_file::SocketFile;

/// Connections that may wait to be accepted; the kernel may allow fewer (net.core.somaxconn).
const BACKLOG: u32 = 4_096;
/// Unsent bytes that the kernel buffers for one client. Without this limit it would buffer
/// megabytes of events for each client that does not read.
const UNSENT_BYTES_MAX: u32 = 16 * 1024;
/// Whose address a client on a unix socket has: it is a program of this machine.
pub const LOCAL_PEER: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

/// A connection that a runtime serves.
pub(crate) type Stream = Either<TcpStream, UnixStream>;

/// A socket on which clients connect.
pub struct Listener {
    socket: ListeningSocket,
    /// `None` for a passed socket, whose file is not ours.
    _file: Option<SocketFile>,
}

enum ListeningSocket {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A connection that belongs to no runtime yet.
pub(crate) enum Accepted {
    Tcp(std::net::TcpStream, IpAddr),
    Unix(std::os::unix::net::UnixStream),
}

impl Listener {
    /// Listens on `address` with a backlog of [`BACKLOG`] connections. With the usual 128, most of a
    /// thousand clients that connect at once would try again a second later. `mode` is that of a unix socket.
    ///
    /// # Errors
    /// Why the address cannot be used, as a sentence for the operator.
    pub fn bind(address: &ListenAddress, mode: SocketMode) -> Result<Self, String> {
        let bound = match address {
            ListenAddress::Tcp(address) => bind_tcp(*address),
            ListenAddress::Unix(path) => bind_unix(path, mode),
        };
        bound.map_err(|error| {
            if error.kind() == ErrorKind::AddrInUse {
                return format!(
                    "another program listens on {address} already: stop it, or choose another address with SECKILL_HTTP_ADDR"
                );
            }
            format!("cannot listen on {address}: {error}")
        })
    }

    /// A listening socket of TCP that was passed to this process.
    ///
    /// # Errors
    /// When it does not listen, or cannot be registered.
    pub fn passed_tcp(socket: std::net::TcpListener) -> io::Result<Self> {
        check_listens(&SockRef::from(&socket))?;
        socket.set_nonblocking(true)?;
        limit_unsent(&SockRef::from(&socket))?;
        let socket = ListeningSocket::Tcp(TcpListener::from_std(socket)?);
        Ok(Self { socket, _file: None })
    }

    /// A listening unix socket that was passed to this process. Its file is not removed.
    ///
    /// # Errors
    /// When it does not listen, or cannot be registered.
    pub fn passed_unix(socket: std::os::unix::net::UnixListener) -> io::Result<Self> {
        check_listens(&SockRef::from(&socket))?;
        socket.set_nonblocking(true)?;
        let socket = ListeningSocket::Unix(UnixListener::from_std(socket)?);
        Ok(Self { socket, _file: None })
    }

    /// Where it listens, with the real port. A socket without a path is `unix:@`.
    ///
    /// # Errors
    /// When the kernel does not say it.
    pub fn address(&self) -> io::Result<ListenAddress> {
        match &self.socket {
            ListeningSocket::Tcp(socket) => socket.local_addr().map(ListenAddress::Tcp),
            ListeningSocket::Unix(socket) => {
                let address = socket.local_addr()?;
                let path = address.as_pathname().map_or_else(|| PathBuf::from("@"), Path::to_owned);
                Ok(ListenAddress::Unix(path))
            }
        }
    }

    /// Waits for the next connection.
    pub(crate) async fn accept(&self) -> io::Result<Accepted> {
        match &self.socket {
            ListeningSocket::Tcp(socket) => {
                let accepted = socket.accept().await?;
                accepted.0.set_nodelay(true)?;
                Ok(Accepted::Tcp(accepted.0.into_std()?, accepted.1.ip()))
            }
            ListeningSocket::Unix(socket) => {
                let stream = socket.accept().await?.0;
                // Unlike TCP's, it does not come from the listener.
                SockRef::from(&stream).set_send_buffer_size(UNSENT_BYTES_MAX as usize)?;
                Ok(Accepted::Unix(stream.into_std()?))
            }
        }
    }
}

impl Accepted {
    /// The address of the client.
    pub(crate) fn peer(&self) -> IpAddr {
        match self {
            Self::Tcp(_, peer) => *peer,
            Self::Unix(_) => LOCAL_PEER,
        }
    }

    /// Registers it with the runtime that calls this, to which it belongs from then on.
    pub(crate) fn register(self) -> io::Result<Stream> {
        match self {
            Self::Tcp(stream, _) => TcpStream::from_std(stream).map(Either::Left),
            Self::Unix(stream) => UnixStream::from_std(stream).map(Either::Right),
        }
    }
}

fn bind_tcp(address: SocketAddr) -> io::Result<Listener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    limit_unsent(&SockRef::from(&socket))?;
    socket.bind(address)?;
    Ok(Listener { socket: ListeningSocket::Tcp(socket.listen(BACKLOG)?), _file: None })
}

fn bind_unix(path: &Path, mode: SocketMode) -> io::Result<Listener> {
    let file = SocketFile::claim(path)?;
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Before it listens: until then nobody can connect, whatever the umask says.
    fs::set_permissions(path, fs::Permissions::from_mode(mode.0))?;
    Ok(Listener { socket: ListeningSocket::Unix(socket.listen(BACKLOG)?), _file: Some(file) })
}

/// Accepted connections inherit it.
#[cfg(target_os = "linux")]
fn limit_unsent(socket: &SockRef<'_>) -> io::Result<()> {
    socket.set_tcp_notsent_lowat(UNSENT_BYTES_MAX)
}

#[cfg(not(target_os = "linux"))]
fn limit_unsent(_: &SockRef<'_>) -> io::Result<()> {
    Ok(())
}

/// With `Accept=yes` systemd passes a connection, and starts a process for each.
fn check_listens(socket: &SockRef<'_>) -> io::Result<()> {
    let sentence = "it is a connection; the unit of the socket must say Accept=no";
    let wrong = || io::Error::new(ErrorKind::InvalidInput, sentence);
    socket.peer_addr().is_err().then_some(()).ok_or_else(wrong)
}
