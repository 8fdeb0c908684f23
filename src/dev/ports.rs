//! Where private servers listen: loopback ports, and socket paths written into URLs.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::error::StartError;

/// The port for a server: the asked one, else the one it had last time if that is free, else a
/// new free one. The choice is written to `memory`, so that addresses stay the same over restarts.
///
/// Between this look and the server's own bind another process can take the port; callers that
/// did not ask for a port try again, see [`lost_the_race`].
///
/// # Errors
/// The asked port is in use, or no port is free.
pub(super) fn choose(
    server: &'static str,
    asked: Option<u16>,
    memory: &Path,
) -> Result<u16, StartError> {
    let remembered = || fs::read_to_string(memory).ok()?.trim().parse().ok();
    let port = match asked {
        Some(port) if is_free(port) => port,
        Some(port) => return Err(StartError::PortInUse { server, port }),
        None => match remembered().filter(|port| is_free(*port)) {
            Some(port) => port,
            None => free().map_err(StartError::io("find a free port for", memory))?,
        },
    };
    fs::write(memory, format!("{port}\n")).map_err(StartError::io("write", memory))?;
    Ok(port)
}

/// Whether a server ended because its port was taken after we had found it free.
pub(super) fn lost_the_race(error: &StartError) -> bool {
    matches!(error, StartError::Ended { tail, .. } if tail.to_lowercase().contains("address already in use"))
}

/// A path as it stands in a URL: everything but letters, digits and `-._~/` as `%XX`.
pub(super) fn url_path(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~/".contains(byte) {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

/// Whether a listener could bind this port on 127.0.0.1 now.
fn is_free(port: u16) -> bool {
    port != 0 && TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

/// So many different free ports.
///
/// # Errors
/// Not so many are free.
pub(super) fn several_free(count: usize) -> std::io::Result<Vec<u16>> {
    // All are held until all are known, so that none is given out twice.
    let listeners = (0..count).map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
    let listeners = listeners.collect::<std::io::Result<Vec<_>>>()?;
    listeners.iter().map(|listener| Ok(listener.local_addr()?.port())).collect()
}

fn free() -> std::io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
