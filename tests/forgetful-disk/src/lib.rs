//! Disks for tests: one whose power can be cut, and which forgets what was not flushed; and a small one
//! ([`SmallDisk`]), which can be full.
//!
//! `kill -9` of a database does not test its flushes, because the operating system keeps what the process has written.
//! [`ForgetfulDisk`] is a file system (FUSE) over a folder. It carries out each write at once and remembers what was
//! there before, until the file is flushed. When the power is cut, every operation fails; and before it comes back, what
//! was not flushed is undone: as a whole, or for each sector of 512 bytes by chance, as on a disk that had written a
//! part of its cache. Names follow ext4: a flush of any file makes all earlier creations, renames and deletions durable.
//! Bytes that were added to a file survive from their front on, as with `data=ordered`.

mod files;
mod small_disk;
#[cfg(test)]
mod tests;
mod unflushed;

use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use fuser::{BackgroundSession, Config, MountOption};

pub use crate::small_disk::SmallDisk;

use crate::files::Files;
use crate::unflushed::Unflushed;

/// What survives of the writes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survives {
    /// Nothing.
    Nothing,
    /// Some sectors and names, by a seed.
    Some(u64),
}

/// An operation on the disk at which the power can be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// After a write.
    Write,
    /// Before a flush has done anything.
    BeforeFlush,
    /// After a flush was carried out, and before its caller hears of it.
    AfterFlush,
}

/// What a cut has taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    /// Writes, truncations and changes of names that were not flushed.
    pub steps: u64,
    /// Bytes of the writes among them.
    pub bytes: u64,
}

/// A folder on such a disk. Dropping it takes the disk away; what was written stays in the folder beside it.
pub struct ForgetfulDisk {
    folder: PathBuf,
    power: Arc<Mutex<Power>>,
    session: Option<BackgroundSession>,
    /// Its input ends with this value or with our process.
    janitor: Child,
}

/// Takes the disk away if we cannot.
const JANITOR: &str = r#"read -r _; umount -l -- "$1" 2>/dev/null"#;

/// The state that the operations on the disk share.
struct Power {
    is_on: bool,
    /// Whether flushes are answered without being carried out.
    lies: bool,
    /// The moment of the cut, and how many of them are let pass before.
    cut_at: Option<(Moment, u32)>,
    unflushed: Unflushed,
}

impl ForgetfulDisk {
    /// Moves what is in `folder` to a folder beside it, and puts the disk in its place. No process may have a file of it
    /// open.
    ///
    /// # Errors
    /// There is no FUSE here, or not the right to mount.
    pub fn over(folder: &Path) -> io::Result<Self> {
        let beside = |name: &str| folder.with_added_extension(name);
        let below = beside("below");
        let attic = beside("attic");
        fs::rename(folder, &below)?;
        fs::create_dir_all(folder)?;
        fs::create_dir_all(&attic)?;
        let unflushed = Unflushed::new(&below, attic);
        let power = Power { is_on: true, lies: false, cut_at: None, unflushed };
        let power = Arc::new(Mutex::new(power));
        let mut config = Config::default();
        config.mount_options = vec![MountOption::FSName("forgetful-disk".to_owned())];
        let files = Files::new(below.clone(), Arc::clone(&power));
        match fuser::spawn_mount(files, folder, &config) {
            Ok(session) => {
                let janitor = Command::new("/bin/sh")
                    .args(["-c", JANITOR, "forgetful-disk-janitor"])
                    .arg(folder)
                    .stdin(Stdio::piped())
                    .process_group(0)
                    .spawn()?;
                let session = Some(session);
                Ok(Self { folder: folder.to_path_buf(), power, session, janitor })
            }
            Err(error) => {
                // As it was.
                fs::remove_dir(folder)?;
                fs::rename(&below, folder)?;
                Err(error)
            }
        }
    }

    /// Cuts the power now: from here on each operation fails.
    pub fn cut(&self) {
        lock(&self.power).cut();
    }

    /// Cuts the power at a moment to come, after `later` others of its kind.
    pub fn cut_at(&self, moment: Moment, later: u32) {
        lock(&self.power).cut_at = Some((moment, later));
    }

    /// Whether the power is cut.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        !lock(&self.power).is_on
    }

    /// From now on a flush is answered and not carried out, or carried out again.
    pub fn lie(&self, lies: bool) {
        lock(&self.power).lies = lies;
    }

    /// Undoes what was not flushed, and lets the disk work again. All processes that used it must have ended.
    ///
    /// # Errors
    /// The folder below cannot be written.
    pub fn power_on(&self, survives: Survives) -> io::Result<Forgotten> {
        let mut power = lock(&self.power);
        power.cut();
        let forgotten = power.unflushed.undo(survives)?;
        power.is_on = true;
        Ok(forgotten)
    }
}

impl Drop for ForgetfulDisk {
    fn drop(&mut self) {
        let ended = self.session.take().map(BackgroundSession::umount_and_join);
        if let Some(Err(error)) = ended {
            eprintln!("{} is still mounted: {error}", self.folder.display());
        }
        drop(self.janitor.stdin.take());
        let _ = self.janitor.wait();
    }
}

impl Power {
    fn cut(&mut self) {
        self.is_on = false;
        self.cut_at = None;
    }

    /// Cuts the power if this is the moment.
    fn reached(&mut self, moment: Moment) {
        match &mut self.cut_at {
            Some((wanted, 0)) if *wanted == moment => self.cut(),
            Some((wanted, later)) if *wanted == moment => *later -= 1,
            _ => {}
        }
    }

    /// Whether the disk works.
    fn works(&self) -> io::Result<()> {
        if self.is_on { Ok(()) } else { Err(io::Error::from_raw_os_error(EIO)) }
    }

    /// A flush of a file.
    fn flush(&mut self, inode: u64) -> io::Result<()> {
        self.works()?;
        self.reached(Moment::BeforeFlush);
        self.works()?;
        if !self.lies {
            self.unflushed.flush(inode)?;
        }
        self.reached(Moment::AfterFlush);
        self.works()
    }
}

/// Input/output error.
const EIO: i32 = 5;

fn lock(power: &Mutex<Power>) -> MutexGuard<'_, Power> {
    power.lock().unwrap_or_else(PoisonError::into_inner)
}
