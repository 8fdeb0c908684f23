//! Checks of the machine.

use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use rustix::fs::statvfs;

use super::{Finding, State};

/// Free space that `seckill dev` needs for the data of a new database and its log, in MiB; the files of the archive
/// are smaller.
const FREE_MIN_MIB: u64 = 300;

/// Checks the free space on the disk of a folder, or of the nearest folder above that is there.
pub fn check_free_space(dir: &Path) -> Finding {
    let check = "machine.disk";
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let there = absolute.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
    let free = match free_mib(there) {
        Ok(free) => free,
        Err(error) => {
            let found =
                format!("the free space on the disk of {} is not known: {error}", there.display());
            return Finding::bad(check, State::Warning, found, "check the folder");
        }
    };
    let found = format!("the disk of {} has {free} MiB left", there.display());
    if free >= FREE_MIN_MIB {
        return Finding::ok(check, found);
    }
    let remedy =
        format!("free {FREE_MIN_MIB} MiB, or set SECKILL_DATA_DIR to a folder on another disk");
    Finding::bad(check, State::Failed, found, remedy)
}

/// Checks the folder of the archive: it is there, takes files, and has room for more.
pub fn check_archive(dir: &Path) -> Finding {
    let check = "retention.dir";
    let bad = |found: String, remedy: &str| Finding::bad(check, State::Warning, found, remedy);
    let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let folder = dir.display();
    if !dir.is_dir() {
        let found = format!("the folder of the archive, {folder}, is not there");
        return bad(found, "make it, or mount its disk");
    }
    let probe = dir.join(format!(".doctor-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).open(&probe);
    if let Err(error) = written.and_then(|_| fs::remove_file(&probe)) {
        let found = format!("the folder of the archive, {folder}, takes no file: {error}");
        return bad(found, "let the account of the service write there");
    }
    match free_mib(&dir) {
        Ok(free) if free >= FREE_MIN_MIB => {
            let found = format!("the folder of the archive, {folder}, has {free} MiB left");
            Finding::ok(check, found)
        }
        Ok(free) => {
            let found = format!("the folder of the archive, {folder}, has {free} MiB left");
            bad(found, "free space, or set SECKILL_RETENTION_DIR to a folder on another disk")
        }
        Err(error) => {
            let found = format!("the free space of the archive, {folder}, is not known: {error}");
            bad(found, "check the folder")
        }
    }
}

fn free_mib(dir: &Path) -> io::Result<u64> {
    let disk = statvfs(dir)?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) / (1024 * 1024))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_told_from_one_with_free_space() {
        // This file system has no free space.
        let finding = check_free_space(Path::new("/proc/self"));
        assert_eq!(finding.state, State::Failed, "{finding:?}");
        assert!(finding.sentence().contains("SECKILL_DATA_DIR"), "{finding:?}");
        let finding = check_free_space(&std::env::temp_dir().join("not/there/yet"));
        assert_eq!(finding.state, State::Ok, "{finding:?}");
    }

    #[test]
    fn the_folder_of_the_archive_has_to_be_there_and_to_take_files() {
        let missing = check_archive(&std::env::temp_dir().join("not/there/yet"));
        assert!(missing.found.ends_with("is not there"), "{missing:?}");
        let closed = check_archive(Path::new("/proc/self"));
        assert!(closed.found.contains("takes no file"), "{closed:?}");
        assert_eq!((missing.state, closed.state), (State::Warning, State::Warning));
        let fine = check_archive(&std::env::temp_dir());
        assert_eq!(fine.state, State::Ok, "{fine:?}");
    }
}
