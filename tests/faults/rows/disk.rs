//! A database whose disk is full: a small file system of its own, and a file that takes what is left.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use dev_servers::MysqlOptions;
use tokio::time::sleep;

use super::mysql::execute;
use super::{FAULT, proven};
use crate::TrialResult;
use crate::checker::TrialOutcome;
use crate::testbed::Testbed;
use crate::trial::{Plan, Wanted, run_trial, when_it_stops};

/// Holds a new database and its log, and little else.
const DISK: &str = "size=160m";
/// More rows of ours than the pages of their table can take.
const ROWS_MAX: usize = 1_000;
/// What makes a database so small, whichever of its kinds it is.
const SMALL: &str = "--innodb-buffer-pool-size=64M --loose-innodb-log-file-size=16M \
                     --loose-innodb-redo-log-capacity=16M";

/// The database's disk is full, and later it is not.
pub async fn full(testbed: &mut Testbed, seed: u64) -> TrialResult {
    let folder = testbed.folder().join("small-disk");
    let Some(disk) = SmallDisk::mount(&folder.join("disk")) else {
        let proof = "left out: only root may mount a small disk".to_owned();
        return Ok(TrialOutcome { proof, ..TrialOutcome::default() });
    };
    let mut options = MysqlOptions::new(disk.0.join("mysql"));
    options.program =
        Some(small_server(&folder, testbed.mysql.pid()).map_err(|error| said(&error))?);
    let small = testbed.ledger(options).await?;
    // For this trial it is the ledger.
    let usual = std::mem::replace(&mut testbed.mysql, small);
    let plan = Plan::new(seed, Wanted::Safe, &testbed.setup());
    let trial = run_trial(testbed, plan, async |testbed, trial| {
        let mut operator = testbed.operator().await?;
        execute(&mut operator, "CREATE TABLE fault_room (piece CHAR(250))").await?;
        let error = disk.fill().map_err(|error| said(&error))?;
        trial.injections += 1;
        // Pages that the tables have already are still written: it stops when they are full, and even
        // then an order may still fit where a batch did not.
        let then = when_it_stops(|| trial.sold()).await;
        sleep(FAULT).await;
        let sold = trial.sold() - then;
        let mut refused = String::new();
        for _ in 0..ROWS_MAX {
            let row = "INSERT INTO fault_room VALUES (REPEAT('x', 250))";
            if let Err(why) = execute(&mut operator, row).await {
                refused = why;
                break;
            }
        }
        disk.empty().map_err(|error| said(&error))?;
        if !testbed.mysql.resume() {
            // It may give up; then an operator frees space and starts it again.
            testbed.mysql.restart().await.map_err(|error| error.to_string())?;
        }
        trial.fault_ended();
        proven(
            refused.contains("full"),
            format!("a file grew until \"{error}\"; {sold} were sold meanwhile; {refused}"),
        )
    });
    let trial = trial.await;
    std::mem::replace(&mut testbed.mysql, usual).stop().await;
    trial
}

/// A file system in memory. Unmounted when dropped.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// `None` where we may not.
    fn mount(folder: &Path) -> Option<Self> {
        fs::create_dir_all(folder).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", DISK, "tmpfs"]).arg(folder).stderr(Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| Self(folder.to_path_buf()))
    }

    /// Writes until the disk is full; returns the error.
    fn fill(&self) -> io::Result<String> {
        let mut ballast = File::create(self.ballast())?;
        let mut piece = vec![0; 1 << 20];
        loop {
            match ballast.write_all(&piece) {
                Ok(()) => {}
                // The last bytes too.
                Err(_) if piece.len() > 1 => piece.truncate(piece.len() / 2),
                Err(error) => return Ok(error.to_string()),
            }
        }
    }

    fn empty(&self) -> io::Result<()> {
        fs::remove_file(self.ballast())
    }

    fn ballast(&self) -> PathBuf {
        self.0.join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a server that did not end may still have files open.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// A wrapper of the running server's program with further arguments, beside what belongs to it.
fn small_server(folder: &Path, running: u32) -> io::Result<PathBuf> {
    let program = fs::read_link(format!("/proc/{running}/exe"))?;
    let prefix = program.parent().and_then(Path::parent).unwrap_or(Path::new("/usr"));
    let wrapper = folder.join("bin/database");
    fs::create_dir_all(folder.join("bin"))?;
    let _ = fs::remove_file(folder.join("share"));
    symlink(prefix.join("share"), folder.join("share"))?;
    fs::write(&wrapper, format!("#!/bin/sh\nexec '{}' \"$@\" {SMALL}\n", program.display()))?;
    fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o700))?;
    Ok(wrapper)
}

fn said(error: &io::Error) -> String {
    format!("the small disk: {error}")
}
