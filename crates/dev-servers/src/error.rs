//! Why a private server did not start, as a sentence that says what to do.

use std::fmt::Display;
use std::io;
use std::path::Path;

/// Why a private server did not start, or why it ended.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct StartError(pub(super) String);

impl StartError {
    /// No binary of a server was found. `package` is the Debian package that brings it, `variable`
    /// the environment variable that names one.
    pub(super) fn missing(server: &str, package: &str, variable: &str) -> Self {
        Self(format!(
            "no {server} was found; install the package {package} (`scripts/install-packages` \
             does), or set {variable}, or set DATABASE_URL and REDIS_URL to use servers of your own"
        ))
    }

    /// A binary was found, but it is not the server that it was taken for.
    pub(super) fn unusable(server: &str, program: &Path, reason: impl Display) -> Self {
        Self(format!("{} is not a usable {server}: {reason}", program.display()))
    }

    /// Another process runs on the same directory.
    pub(super) fn in_use(server: &str, directory: &Path) -> Self {
        Self(format!(
            "another {server} is running on {}; stop the other `seckill dev` first, or choose \
             another directory with SECKILL_DATA_DIR",
            directory.display()
        ))
    }

    /// A server did not do what it was told: what it answered.
    pub(super) fn refused(server: &str, action: &str, answer: impl Display) -> Self {
        Self(format!("{server}: cannot {action}: {answer}"))
    }

    /// Wraps an input/output error: `io("open", path)` is meant for `map_err`.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |error| Self(format!("cannot {action} {}: {error}", path.display()))
    }
}
