//! Checks of the machine.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

use super::{Finding, State};

/// Free space that `seckill dev` needs for the data of a new database and its log, in MiB.
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
}
