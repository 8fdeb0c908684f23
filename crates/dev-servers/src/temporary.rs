//! Directories that go when we go.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread;

use super::error::StartError;

/// Waits for the end of its input, which is our end or `drop`; then until no server holds the lock
/// `$1` any more, for at most `$2` seconds; then removes `$3`,
/// again if something was written into it meanwhile.
const JANITOR: &str = r#"read -r _; [ ! -e "$1" ] || flock -w "$2" "$1" true; for _ in 1 2 3 4 5 6 7 8; do rm -rf -- "$3" && break; sleep 0.25; done"#;

/// Longer than a server takes to stop.
const LOCK_SECONDS_MAX: u64 = 15;

/// A new private directory under the system's temporary one. A small shell removes it after this
/// value is dropped or this process has ended in whatever way, but not before the server in it.
#[derive(Debug)]
pub(super) struct TemporaryDirectory {
    path: PathBuf,
    /// Taken by `drop`.
    janitor: Option<(Child, ChildStdin)>,
}

impl TemporaryDirectory {
    /// Makes a directory. `lock` is the file that the server keeps locked while it runs; relative
    /// to the new directory, or absolute.
    ///
    /// # Errors
    /// The directory or its janitor cannot be made.
    pub(super) fn make(lock: &Path) -> Result<Self, StartError> {
        let path = std::env::temp_dir().join(format!("seckill-{:016x}", rand::random::<u64>()));
        DirBuilder::new().mode(0o700).create(&path).map_err(StartError::io("make", &path))?;
        let mut janitor = Command::new("/bin/sh")
            .args(["-c", JANITOR, "seckill-janitor"])
            .arg(path.join(lock))
            .arg(LOCK_SECONDS_MAX.to_string())
            .arg(&path)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .inspect_err(|_| drop(fs::remove_dir(&path)))
            .map_err(StartError::io("start a janitor for", &path))?;
        let line = janitor.stdin.take().expect("stdin was asked to be a pipe");
        Ok(Self { path, janitor: Some((janitor, line)) })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for TemporaryDirectory {
    fn drop(&mut self) {
        if let Some((mut janitor, line)) = self.janitor.take() {
            drop(line);
            // Nobody waits for this thread: if we end before it, init reaps instead.
            thread::spawn(move || janitor.wait());
        }
    }
}
