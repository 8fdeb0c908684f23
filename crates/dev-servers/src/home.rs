//! The directory of one server: its log, its secrets, its markers.
//!
//! The log is also the lock: it is locked once, and the server inherits the open file, so that the
//! lock is held exactly as long as any process of that server lives, even if we were killed.

use std::fs::{self, DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::error::StartError;
use super::guardian::STOP_SECONDS_MAX;
use super::temporary::TemporaryDirectory;

/// The server's log, and the lock of its directory.
pub(super) const LOG: &str = "server.log";

/// The kernel's limit for a socket's path is 108 bytes with its final zero; macOS has 104.
const SOCKET_PATH_BYTES_MAX: usize = 100;

/// A log longer than this is emptied at the next start.
const LOG_BYTES_MAX: u64 = 8 << 20;

/// How much of a log goes into an error message.
const TAIL_LINES_MAX: usize = 15;
const TAIL_BYTES_MAX: u64 = 16 << 10;

/// A server's directory, locked.
#[derive(Debug)]
pub struct Home {
    /// The name of the server for messages.
    pub(super) server: &'static str,
    /// Its absolute path.
    pub(super) directory: PathBuf,
    /// The open, locked log that the server writes to.
    pub(super) log: File,
    /// Where in the log this start begins.
    log_start: u64,
}

impl Home {
    /// Makes the directory if needed, closes it to others, and locks it. If a server is just
    /// ending there, waits for it as long as a server may take to stop.
    ///
    /// # Errors
    /// The directory cannot be made or written, or another server keeps running on it.
    pub(super) async fn open(server: &'static str, directory: &Path) -> Result<Self, StartError> {
        make_private(directory)?;
        let directory = directory.canonicalize().map_err(StartError::io("open", directory))?;
        let path = directory.join(LOG);
        let mut log = OpenOptions::new()
            .create(true)
            .read(true)
            .append(true)
            .mode(0o600)
            .open(&path)
            .map_err(StartError::io("open", &path))?;
        lock(server, &directory, &log).await?;
        let length = log.metadata().map_err(StartError::io("read", &path))?.len();
        if length > LOG_BYTES_MAX {
            log.set_len(0).map_err(StartError::io("empty", &path))?;
        }
        let log_start = log.seek(SeekFrom::End(0)).map_err(StartError::io("read", &path))?;
        Ok(Self { server, directory, log, log_start })
    }

    /// As [`Home::open`], in a new temporary directory if none is given. The second value is to be
    /// kept for as long as the server runs.
    pub(super) async fn open_or_make(
        server: &'static str,
        directory: Option<PathBuf>,
    ) -> Result<(Self, Vec<TemporaryDirectory>), StartError> {
        if let Some(directory) = directory {
            return Ok((Self::open(server, &directory).await?, Vec::new()));
        }
        let temporary = TemporaryDirectory::make(Path::new(LOG))?;
        let home = Self::open(server, temporary.path()).await?;
        Ok((home, vec![temporary]))
    }

    /// The path of a file in the directory.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// The folder of the server's data, made when it is missing.
    pub(super) fn data(&self) -> Result<PathBuf, StartError> {
        let data = self.path("data");
        fs::create_dir_all(&data).map_err(StartError::io("make", &data))?;
        Ok(data)
    }

    /// Whether a file of this name exists.
    pub(super) fn has(&self, name: &str) -> bool {
        self.path(name).exists()
    }

    /// The trimmed text of a file, or `None` if there is no such file.
    pub(super) fn read(&self, name: &str) -> Result<Option<String>, StartError> {
        let path = self.path(name);
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text.trim().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StartError::io("read", &path)(error)),
        }
    }

    /// Writes a file that only we can read, whole or not at all.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<(), StartError> {
        write_private(&self.path(name), text)
    }

    /// The server's password: the one written here before, else a new random one.
    pub(super) fn password(&self) -> Result<String, StartError> {
        match self.read("password")? {
            Some(text) if is_password(&text) => Ok(text),
            Some(_) => Err(self.half_written("the file `password` is damaged")),
            None => {
                let password = new_password();
                self.write("password", &password)?;
                Ok(password)
            }
        }
    }

    /// A path for a unix socket: in this directory if the kernel takes a path that long, else in
    /// a short private directory, to be kept for as long as the server runs.
    pub(super) fn socket(
        &self,
        name: &str,
    ) -> Result<(PathBuf, Option<TemporaryDirectory>), StartError> {
        let near = self.path(name);
        if near.as_os_str().as_bytes().len() <= SOCKET_PATH_BYTES_MAX {
            return Ok((near, None));
        }
        let short = TemporaryDirectory::make(&self.path(LOG))?;
        Ok((short.path().join(name), Some(short)))
    }

    /// The error for a directory that cannot be trusted.
    pub(super) fn half_written(&self, reason: &str) -> StartError {
        StartError(format!(
            "{} is not a complete {} directory ({reason}); move it away or delete it, then start \
             again: a new one will be made",
            self.directory.display(),
            self.server,
        ))
    }

    /// The error for a server that ended, with the end of its log.
    pub(super) fn ended(&self, status: &str) -> StartError {
        let Self { server, .. } = self;
        let log = self.path(LOG);
        let tail = self.tail();
        StartError(format!("{server} ended ({status}); the end of {}:\n{tail}", log.display()))
    }

    /// The error for a server that runs and does not answer, with the end of its log.
    pub(super) fn silent(&self, waited: Duration, answer: &str) -> StartError {
        StartError(format!(
            "{} did not answer within {} s (last answer: {answer}); the end of {}:\n{}",
            self.server,
            waited.as_secs(),
            self.path(LOG).display(),
            self.tail(),
        ))
    }

    /// The last lines that were logged since this start; those from the first error of MySQL on, because a crash writes
    /// a long list of addresses after it.
    pub(super) fn tail(&self) -> String {
        let read = || -> io::Result<String> {
            let mut log = File::open(self.path(LOG))?;
            let length = log.metadata()?.len();
            let from = self.log_start.max(length.saturating_sub(TAIL_BYTES_MAX));
            log.seek(SeekFrom::Start(from))?;
            let mut bytes = Vec::new();
            log.take(TAIL_BYTES_MAX).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).into_owned())
        };
        let text = read().unwrap_or_else(|error| format!("(unreadable: {error})"));
        let lines: Vec<&str> = text.lines().collect();
        let last = lines.len().saturating_sub(TAIL_LINES_MAX);
        let from = lines.iter().position(|line| line.contains("[ERROR]")).unwrap_or(last).min(last);
        lines[from..].iter().take(TAIL_LINES_MAX).copied().collect::<Vec<_>>().join("\n")
    }
}

pub(super) fn make_private(directory: &Path) -> Result<(), StartError> {
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(directory)
        .map_err(StartError::io("make", directory))?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
        .map_err(StartError::io("close to others", directory))
}

async fn lock(server: &'static str, directory: &Path, log: &File) -> Result<(), StartError> {
    // A second more than a stopping server is given.
    let deadline = Instant::now() + Duration::from_secs(STOP_SECONDS_MAX + 1);
    let mut told = false;
    loop {
        match log.try_lock() {
            Ok(()) => return Ok(()),
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {}
            Err(TryLockError::WouldBlock) => {
                return Err(StartError::in_use(server, directory));
            }
            Err(TryLockError::Error(error)) => {
                return Err(StartError::io("lock", directory)(error));
            }
        }
        if !told {
            tracing::info!("waiting for the {server} that still uses {}", directory.display());
            told = true;
        }
        sleep(Duration::from_millis(50)).await;
    }
}

/// Writes a file that only we can read, whole or not at all.
pub(super) fn write_private(path: &Path, text: &str) -> Result<(), StartError> {
    let draft = path.with_added_extension("new");
    let write = || -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file = options.create(true).write(true).truncate(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(StartError::io("write", path))
}

/// Makes a password.
pub(super) fn new_password() -> String {
    format!("{:032x}", rand::random::<u128>())
}

/// Passwords go into URLs, SQL and a configuration file unquoted, so only ours are taken.
fn is_password(text: &str) -> bool {
    text.len() == 32 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Takes it for done that a file or folder to be removed is not there.
pub(super) fn ignore_missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}
