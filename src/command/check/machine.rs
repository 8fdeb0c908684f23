//! Checks of the machine.

use std::io;
use std::path::Path;

use rustix::fs::statvfs;

use super::{Finding, State};

/// Free space that `seckill dev` needs to make a database, in MiB. Its redo log alone takes 512 at once.
const FREE_MIN_MIB: u64 = 700;
/// Free space that it needs when a start before has made the database: for temporary tables and new orders, in MiB.
const FREE_MIN_LATER_MIB: u64 = 50;
/// In the folder of the data since the database in it is complete; the crate `dev-servers` writes it.
const DATABASE_READY: &str = "mysql/ready";

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
    let needed = needed_mib(dir);
    if free >= needed {
        return Finding::ok(check, found);
    }
    let remedy = format!("free {needed} MiB, or set SECKILL_DATA_DIR to a folder on another disk");
    Finding::bad(check, State::Failed, found, remedy)
}

/// How much the next start needs. A later one must not be refused for the space that the first one has taken.
fn needed_mib(dir: &Path) -> u64 {
    if dir.join(DATABASE_READY).exists() { FREE_MIN_LATER_MIB } else { FREE_MIN_MIB }
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
    fn the_first_start_needs_room_for_the_redo_log_and_a_later_one_does_not() {
        let dir = std::env::temp_dir().join(format!("seckill-disk-{}", std::process::id()));
        std::fs::create_dir_all(dir.join("mysql")).expect("a folder");
        // A redo log, the system tables and the undo logs.
        assert!(needed_mib(&dir) >= 600, "{}", needed_mib(&dir));
        std::fs::write(dir.join(DATABASE_READY), "MariaDB").expect("written");
        let later = needed_mib(&dir);
        std::fs::remove_dir_all(&dir).expect("removed");
        assert!(later < 100, "{later}");
    }
}
