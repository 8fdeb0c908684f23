//! The file of a unix socket: who owns its path, and that it goes when its owner does.
//!
//! A process that was killed leaves the file behind, and nobody can bind a socket where a file is. Whether a process
//! still listens there is asked by connecting. Two starts at once would both find nobody: so a lock beside the
//! file, which the kernel takes from a process that ends, says whose path it is.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use socket2::{Domain, SockAddr, Socket, Type};

/// A path that belongs to this process. Dropping it removes the socket there.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Held for as long as the path is ours. The file stays: without it, another process could lock a second one.
    _lock: File,
}

impl SocketFile {
    /// Takes the path, and removes a socket there on which nobody listens any more.
    ///
    /// # Errors
    /// `AddrInUse` when another process has it; `AlreadyExists` when something else than a socket is there.
    pub(crate) fn claim(path: &Path) -> io::Result<Self> {
        let mut beside = path.as_os_str().to_owned();
        beside.push(".lock");
        let lock = File::options().create(true).truncate(false).write(true).open(beside)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => ErrorKind::AddrInUse.into(),
            TryLockError::Error(error) => error,
        })?;
        match fs::symlink_metadata(path) {
            Ok(found) if !found.file_type().is_socket() => {
                let sentence = "there is a file that is no socket";
                return Err(io::Error::new(ErrorKind::AlreadyExists, sentence));
            }
            Ok(_) if is_abandoned(path)? => fs::remove_file(path)?,
            Ok(_) => return Err(ErrorKind::AddrInUse.into()),
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        Ok(Self { path: path.to_owned(), _lock: lock })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// Whether nobody listens. A full queue of a process that stands still is no such sign, and does not hold us up.
fn is_abandoned(path: &Path) -> io::Result<bool> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    let refused = socket.connect(&SockAddr::unix(path)?).err();
    Ok(refused.is_some_and(|error| error.kind() == ErrorKind::ConnectionRefused))
}
