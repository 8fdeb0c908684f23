//! A small file system in memory, for servers whose disk is full.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A tmpfs of a fixed size. [`SmallDisk::fill`] writes one file until no byte is free. Dropping it unmounts it.
#[derive(Debug)]
pub struct SmallDisk(PathBuf);

impl SmallDisk {
    /// Mounts one of `mebibytes` MiB at a new folder. Returns `None` without the rights of root.
    #[must_use]
    pub fn mount(folder: &Path, mebibytes: u32) -> Option<Self> {
        fs::create_dir_all(folder).ok()?;
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={mebibytes}m"), "tmpfs"]).arg(folder);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        mounted.then(|| Self(folder.to_path_buf()))
    }

    /// Where it is.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.0
    }

    /// Writes until the disk is full; returns the error.
    pub fn fill(&self) -> io::Result<String> {
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

    /// Gives some bytes of a full disk back.
    pub fn make_room(&self, bytes: u64) -> io::Result<()> {
        let ballast = File::options().write(true).open(self.ballast())?;
        ballast.set_len(ballast.metadata()?.len().saturating_sub(bytes))
    }

    /// Frees what [`fill`](Self::fill) has taken.
    pub fn empty(&self) -> io::Result<()> {
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
        let _ = fs::remove_dir(&self.0);
    }
}
