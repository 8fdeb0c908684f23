//! Checks of the machine.

use std::path::Path;

use rustix::fs::statvfs;

use super::{Finding, State};

/// Room that `seckill dev` needs for the data of a new database and its log, in MiB.
const ROOM_MIN_MIB: u64 = 300;

/// Checks the room on the disk of a folder, or of the nearest folder above that is there.
pub fn check_room(dir: &Path) -> Finding {
    let check = "machine.disk";
    let absolute = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
    let there = absolute.ancestors().find(|dir| dir.is_dir()).unwrap_or(Path::new("/"));
    let room = match statvfs(there) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize) / (1024 * 1024),
        Err(error) => {
            let found =
                format!("the room on the disk of {} is not known: {error}", there.display());
            return Finding::bad(check, State::Warning, found, "check the folder");
        }
    };
    let found = format!("the disk of {} has {room} MiB left", there.display());
    if room >= ROOM_MIN_MIB {
        return Finding::ok(check, found);
    }
    let remedy =
        format!("free {ROOM_MIN_MIB} MiB, or set SECKILL_DATA_DIR to a folder on another disk");
    Finding::bad(check, State::Failed, found, remedy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_without_room_is_told_from_one_with_room() {
        // This file system has no room at all.
        let finding = check_room(Path::new("/proc/self"));
        assert_eq!(finding.state, State::Failed, "{finding:?}");
        assert!(finding.sentence().contains("SECKILL_DATA_DIR"), "{finding:?}");
        let finding = check_room(&std::env::temp_dir().join("not/there/yet"));
        assert_eq!(finding.state, State::Ok, "{finding:?}");
    }
}
