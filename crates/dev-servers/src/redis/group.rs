//! What the servers of a group share: a folder, a password, and ports that stay the same.

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};

use super::{Part, RedisOptions, SERVER};
use crate::error::StartError;
use crate::home::new_password;
use crate::ports;

/// How long a group may take until all its members work together.
const READY_MAX: Duration = Duration::from_secs(60);
/// How long one look at a group may take: a frozen server does not answer.
const LOOK_MAX: Duration = Duration::from_secs(5);
/// The pause before a group is looked at again.
const READY_POLL: Duration = Duration::from_millis(50);

/// The folder of a group, or `None` for throw-away members; their password and ports.
pub(super) struct Group {
    folder: Option<PathBuf>,
    pub(super) password: String,
    pub(super) ports: Vec<u16>,
}

impl Group {
    /// Takes the password and the ports of an earlier start on this folder, or chooses new ones.
    pub(super) fn open(folder: Option<PathBuf>, ports: usize) -> Result<Self, StartError> {
        let file = folder.as_ref().map(|folder| folder.join("group"));
        let (mut head, ports) = ports::remembered(SERVER, file, vec![new_password()], ports)?;
        Ok(Self { folder, password: head.remove(0), ports })
    }

    /// The options of a member, whose port is that of this number.
    pub(super) fn member(
        &self,
        name: &str,
        port: usize,
        part: Part,
        lines: Vec<String>,
    ) -> RedisOptions {
        RedisOptions {
            data_dir: self.folder.as_ref().map(|folder| folder.join(name)),
            port: Some(self.ports[port]),
            extra_lines: lines,
            password: Some(self.password.clone()),
            part,
            ..RedisOptions::temporary()
        }
    }
}

/// Waits until `look` finds nothing missing; the error names the missing part. A look that takes too long counts as an
/// answer that is missing.
pub(super) async fn until<T, F: Future<Output = Result<T, String>>>(
    what: &'static str,
    mut look: impl FnMut() -> F,
) -> Result<T, StartError> {
    let begin = Instant::now();
    loop {
        let seen = timeout(LOOK_MAX, look()).await;
        match seen.unwrap_or_else(|_| Err("no answer".to_owned())) {
            Ok(found) => return Ok(found),
            Err(missing) if begin.elapsed() >= READY_MAX => {
                let action = format!("work together within {} s", READY_MAX.as_secs());
                return Err(StartError::refused(what, &action, missing));
            }
            Err(_) => sleep(READY_POLL).await,
        }
    }
}

/// A field of the answer to INFO or CLUSTER INFO.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':')).map(str::trim)
}

/// An error of a command that sets a group up.
pub(super) fn failed(error: impl Display) -> StartError {
    StartError::refused(SERVER, "set up a group", error)
}
