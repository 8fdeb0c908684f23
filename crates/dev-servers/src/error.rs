//! Why a private server did not start, as a sentence that says what to do.

use std::io;
use std::path::{Path, PathBuf};

/// Why a private server did not start, or why it ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// No binary of this server was found.
    #[error(
        "no {server} was found; install the package {package} (`scripts/install-packages` does), \
         or set {variable}, or set DATABASE_URL and REDIS_URL to use servers of your own"
    )]
    ProgramMissing {
        /// The server's name.
        server: &'static str,
        /// The Debian package that brings it.
        package: &'static str,
        /// The environment variable that names a binary.
        variable: &'static str,
    },
    /// The binary was found, but it is not a server that we know.
    #[error("{program} is not a usable {server}: {reason}")]
    ProgramUnusable {
        /// The binary.
        program: PathBuf,
        /// The server it was taken for.
        server: &'static str,
        /// What it did instead.
        reason: String,
    },
    /// Another process runs on the same directory.
    #[error(
        "another {server} is running on {directory}; stop the other `seckill dev` first, or choose \
         another directory with SECKILL_DATA_DIR"
    )]
    InUse {
        /// The server's name.
        server: &'static str,
        directory: PathBuf,
    },
    /// The directory holds something that this module did not finish writing.
    #[error(
        "{directory} is not a complete {server} directory ({reason}); move it away or delete it, \
         then start again: a new one will be made"
    )]
    HalfWritten {
        /// The server's name.
        server: &'static str,
        directory: PathBuf,
        /// What is missing.
        reason: String,
    },
    /// The data was written by another kind of server.
    #[error(
        "{directory} was made by {made_by}, but {program} is {server}; choose another directory \
         with SECKILL_DATA_DIR, or delete this one to begin with an empty database"
    )]
    OtherFlavour {
        directory: PathBuf,
        /// Who wrote the data.
        made_by: String,
        /// The binary that was to run on it.
        program: PathBuf,
        /// The kind of that binary.
        server: &'static str,
    },
    /// The server, or the making of its data directory, ended.
    #[error("{server} ended ({status}); the end of {log}:\n{tail}")]
    Ended {
        /// The server's name.
        server: &'static str,
        /// How it ended.
        status: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// The server runs, but did not answer in time.
    #[error(
        "{server} did not answer within {seconds} s (last answer: {answer}); the end of {log}:\n{tail}"
    )]
    Silent {
        /// The server's name.
        server: &'static str,
        /// How long we waited.
        seconds: u64,
        /// The last error of a connection attempt.
        answer: String,
        log: PathBuf,
        /// The last lines of the log.
        tail: String,
    },
    /// A server of a cluster did not do what it was told.
    #[error("{server}: cannot {action}: {answer}")]
    Cluster {
        /// The server's name.
        server: &'static str,
        /// What was tried.
        action: &'static str,
        /// Its answer, or its state.
        answer: String,
    },
    /// A file, a directory or a process could not be made.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl StartError {
    /// Wraps an input/output error: `io("open", path)` is meant for `map_err`.
    pub(super) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { action, path, source }
    }
}
