//! Finding server binaries, and who we are.

use std::env;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::error::StartError;

/// Where servers live although a plain user's `PATH` leaves it out.
const SERVER_DIRECTORIES: [&str; 4] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin"];

/// The first executable of this name on `PATH` or in the usual server directories.
pub fn find(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SERVER_DIRECTORIES.map(PathBuf::from))
        .map(|directory| directory.join(name))
        .find(|candidate| is_executable(candidate))
}

/// The library that gives a process a wrong clock, where it is installed.
pub fn libfaketime() -> Option<PathBuf> {
    let folders = fs::read_dir("/usr/lib").ok()?.flatten();
    let mut libraries = folders.map(|folder| folder.path().join("faketime/libfaketimeMT.so.1"));
    libraries.find(|library| library.is_file())
}

/// The program, or another path, that an environment variable names.
pub(super) fn named(variable: &str) -> Option<PathBuf> {
    env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from)
}

/// Where the project's scripts put programs whose packages would start a system service.
pub(super) fn unpacked(name: &str) -> Option<PathBuf> {
    let cache = named("XDG_CACHE_HOME").or_else(|| Some(named("HOME")?.join(".cache")))?;
    Some(cache.join("seckill").join(name))
}

/// The first line that `program --version` prints.
///
/// # Errors
/// The program does not run, fails, or says nothing.
pub(super) fn version(server: &str, program: &Path) -> Result<String, StartError> {
    let unusable = |reason: String| StartError::unusable(server, program, reason);
    let output = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| unusable(error.to_string()))?;
    let text = String::from_utf8_lossy(&output.stdout);
    match text.lines().next() {
        Some(line) if output.status.success() => Ok(line.trim().to_owned()),
        _ => Err(unusable(format!(
            "`--version` ended with {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        ))),
    }
}

/// Whether we run as root. Database servers refuse to, unless they are told that it is meant.
pub(super) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

fn is_executable(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & 0o111 != 0)
}
