//! Listening sockets that systemd passes to this process (`LISTEN_FDS`), or another program that does as it does.
//! They outlive the process: who connects while it is replaced waits, and is not refused.

use listenfd::ListenFd;
use web::listener::Listener;

/// The names of sockets for HTTP: `FileDescriptorName=http`, none, and what systemd says for none.
const NAMES: [&str; 3] = ["http", "", "unknown"];
/// Without `FileDescriptorName=` a socket has the name of its unit.
const UNIT: &str = ".socket";

/// The sockets, before they are used.
pub struct PassedSockets {
    sockets: ListenFd,
    names: Vec<String>,
}

impl PassedSockets {
    /// Takes them. It removes variables, so no other thread may run yet.
    pub fn take() -> Self {
        let names = std::env::var("LISTEN_FDNAMES").unwrap_or_default();
        let names = names.split(':').map(str::to_owned).collect();
        Self { sockets: ListenFd::from_env(), names }
    }

    /// Listens on them.
    ///
    /// # Errors
    /// A sentence for the operator. No socket is left out: its clients would wait for ever.
    pub fn listeners(mut self) -> Result<Vec<Listener>, String> {
        (0..self.sockets.len()).map(|index| self.listener(index)).collect()
    }

    fn listener(&mut self, index: usize) -> Result<Listener, String> {
        let name = self.names.get(index).cloned().unwrap_or_default();
        if !NAMES.contains(&name.as_str()) && !name.ends_with(UNIT) {
            return Err(format!(
                "a socket named {name:?} was passed, and there is no use for it: its unit must say FileDescriptorName=http"
            ));
        }
        let unusable =
            |error| format!("the passed socket {index} {name:?} cannot be used: {error}");
        if let Ok(Some(socket)) = self.sockets.take_tcp_listener(index) {
            return Listener::passed_tcp(socket).map_err(unusable);
        }
        match self.sockets.take_unix_listener(index) {
            Ok(Some(socket)) => Listener::passed_unix(socket).map_err(unusable),
            Ok(None) => Err(format!("the passed socket {index} {name:?} was taken before")),
            Err(error) => Err(unusable(error)),
        }
    }
}
