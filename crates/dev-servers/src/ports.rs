//! Where private servers listen: loopback ports, and socket paths written into URLs.

use std::collections::HashSet;
use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};

use super::error::StartError;
use super::home::{make_private, write_private};
use super::lock;

/// How often a start is tried when another process takes a port between our look and the server's
/// bind.
const PORT_ATTEMPTS_MAX: u32 = 3;
/// How many ports are looked at for one that is free and new to this process.
const OFFERS_MAX: usize = 1_000;
/// The first port that is given to a server. Below are those of well-known services.
const FIRST: u16 = 10_000;
/// The least number of ports that are worth choosing from.
const CHOICE_MIN: u16 = 5_000;
/// The file in which Linux says which ports it gives to connections.
const OF_CONNECTIONS: &str = "/proc/sys/net/ipv4/ip_local_port_range";

/// The port for a server: the one it had last time if that is free, else a new free one. The choice
/// is written to `memory`, so that addresses stay the same over restarts.
///
/// Between this look and the server's own bind another process can take the port; callers try again,
/// see [`start_again`].
///
/// # Errors
/// No port is free.
pub(super) fn choose(memory: &Path) -> Result<u16, StartError> {
    let remembered = || fs::read_to_string(memory).ok()?.trim().parse().ok();
    let port = match remembered().filter(|port| is_free(*port)) {
        Some(port) => port,
        None => free_port().map_err(StartError::io("find a free port for", memory))?,
    };
    fs::write(memory, format!("{port}\n")).map_err(StartError::io("write", memory))?;
    Ok(port)
}

/// Starts servers, and starts them again while another process takes one of their ports.
///
/// # Errors
/// That of the last start.
pub(super) async fn start_again<T, F: Future<Output = Result<T, StartError>>>(
    start: impl Fn() -> F,
) -> Result<T, StartError> {
    for _ in 1..PORT_ATTEMPTS_MAX {
        match start().await {
            // As the log says it.
            Err(error) if error.0.to_lowercase().contains("address already in use") => {}
            started => return started,
        }
    }
    start().await
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

/// `count` different free ports.
///
/// # Errors
/// Fewer ports are free.
pub(super) fn several_free(server: &str, count: usize) -> Result<Vec<u16>, StartError> {
    let free: std::io::Result<_> = (0..count).map(|_| free_port()).collect();
    free.map_err(StartError::io("find free ports for", Path::new(server)))
}

/// What the members of a set remember in a file of the set's folder: the lines `head` and `count`
/// ports. Those of an earlier start, else these lines and new ports.
///
/// # Errors
/// The folder cannot be written, or fewer ports are free.
pub(super) fn remembered(
    server: &str,
    file: Option<PathBuf>,
    head: Vec<String>,
    count: usize,
) -> Result<(Vec<String>, Vec<u16>), StartError> {
    let read = |file: &PathBuf| {
        let mut lines: Vec<_> = fs::read_to_string(file).ok()?.lines().map(str::to_owned).collect();
        let ports = lines.split_off(head.len().min(lines.len()));
        let ports = ports.iter().map(|port| port.parse().ok()).collect::<Option<Vec<u16>>>()?;
        (ports.len() == count).then_some((lines, ports))
    };
    if let Some(found) = file.as_ref().and_then(read) {
        return Ok(found);
    }
    let ports = several_free(server, count)?;
    if let Some(file) = file {
        make_private(file.parent().unwrap_or(Path::new("/")))?;
        let lines = head.iter().cloned().chain(ports.iter().map(u16::to_string));
        write_private(&file, &lines.map(|line| line + "\n").collect::<String>())?;
    }
    Ok((head, ports))
}

/// A free port on 127.0.0.1 that this process has not been given before.
///
/// On Linux it is none that the system gives to connections. While nobody listens on such a port, as before a server's
/// start and during a restart, any connection may get it as its own address, even that of a client which tries to reach
/// this very port: it would then be connected to itself, and the server could not start.
///
/// # Errors
/// No port is free.
pub fn free_port() -> std::io::Result<u16> {
    static GIVEN: LazyLock<Mutex<HashSet<u16>>> = LazyLock::new(Mutex::default);
    static OWN: LazyLock<Option<Range<u16>>> =
        LazyLock::new(|| of_no_connection(&fs::read_to_string(OF_CONNECTIONS).ok()?));
    // Held until one is found, so that every further offer of the system is another one.
    let mut passed_over = Vec::new();
    for _ in 0..OFFERS_MAX {
        let asked = OWN.clone().map_or(0, rand::random_range);
        let Ok(listener) = TcpListener::bind((Ipv4Addr::LOCALHOST, asked)) else { continue };
        let port = listener.local_addr()?.port();
        if lock(&GIVEN).insert(port) {
            return Ok(port);
        }
        passed_over.push(listener);
    }
    Err(std::io::Error::other(format!("no port that was looked at is free, {OFFERS_MAX} times")))
}

/// The ports from [`FIRST`] on that the system gives to no connection by itself, by what it says of those that it does;
/// `None` when they are too few.
fn of_no_connection(said: &str) -> Option<Range<u16>> {
    let first_of_connections = said.split_whitespace().next()?.parse().ok()?;
    let own = FIRST..first_of_connections;
    (own.len() >= usize::from(CHOICE_MIN)).then_some(own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_port_is_given_twice() {
        let ports = several_free("tests", 2_000).unwrap();
        assert_eq!(ports.iter().collect::<HashSet<_>>().len(), ports.len());
    }

    /// A try of a start gets another port than the last one if that was taken meanwhile.
    #[test]
    fn a_taken_port_is_replaced() {
        let name = format!("seckill-port-{:016x}", rand::random::<u64>());
        let memory = std::env::temp_dir().join(name);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let taken = listener.local_addr().unwrap().port();
        fs::write(&memory, format!("{taken}\n")).unwrap();
        assert_ne!(choose(&memory).unwrap(), taken);
        fs::remove_file(memory).unwrap();
    }

    #[test]
    fn a_server_gets_no_port_that_a_connection_may_have() {
        assert_eq!(of_no_connection("32768\t60999\n"), Some(10_000..32_768));
        for few in ["1024\t65535\n", "10000\t65535", "", "nonsense"] {
            assert_eq!(of_no_connection(few), None, "{few:?}");
        }
        let said = fs::read_to_string(OF_CONNECTIONS).unwrap_or_default();
        let own = of_no_connection(&said);
        assert!(own.is_none_or(|own| own.contains(&free_port().unwrap())), "{said}");
    }
}
