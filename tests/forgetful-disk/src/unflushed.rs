//! What was written and not flushed, as the steps that undo it.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::{Forgotten, Survives};

/// The part of a write that is there as a whole or not at all.
const SECTOR: u64 = 512;
/// A whole page for tables of Aria, MariaDB's own: it has no copy of a page that is torn, and does not start then.
const ARIA_PAGE: u64 = 8_192;
const OF_ARIA: [&str; 2] = ["MAI", "MAD"];

/// Everything that a cut undoes.
pub(crate) struct Unflushed {
    /// Of each file, by its inode, the oldest first.
    writes: HashMap<u64, Vec<Write>>,
    /// Of names, the oldest first.
    names: Vec<Name>,
    /// Where deleted files are until their deletion is durable.
    attic: PathBuf,
    /// Deleted files so far.
    deleted: u64,
    below: PathBuf,
}

/// A write or a change of a file's length.
struct Write {
    file: Arc<File>,
    /// Where it began, and what was there before, up to the file's end.
    at: u64,
    before: Vec<u8>,
    length_before: u64,
    bytes: u64,
    sector: u64,
}

/// The part of a write to a file of this name that is there as a whole or not at all.
pub(crate) fn sector_of(path: &Path) -> u64 {
    let extension = path.extension().and_then(OsStr::to_str).unwrap_or_default();
    if OF_ARIA.contains(&extension) { ARIA_PAGE } else { SECTOR }
}

/// What is written to.
#[derive(Clone)]
pub(crate) struct Target {
    pub(crate) inode: u64,
    pub(crate) file: Arc<File>,
    pub(crate) sector: u64,
}

/// A change of a name. Paths are relative to the folder.
enum Name {
    Made(PathBuf),
    /// And where it is now.
    Deleted(PathBuf, PathBuf),
    Renamed(PathBuf, PathBuf),
}

impl Unflushed {
    pub(crate) fn new(below: &Path, attic: PathBuf) -> Self {
        let below = below.to_path_buf();
        Self { writes: HashMap::new(), names: Vec::new(), attic, deleted: 0, below }
    }

    /// Writes `data` to a file.
    pub(crate) fn write(&mut self, target: &Target, at: u64, data: &[u8]) -> io::Result<()> {
        let file = &target.file;
        let length = file.metadata()?.len();
        let end = at.saturating_add(data.len() as u64).min(length);
        self.remember(target, at..end, length, data.len())?;
        file.write_all_at(data, at)
    }

    /// Makes a file longer or shorter.
    pub(crate) fn resize(&mut self, target: &Target, to: u64) -> io::Result<()> {
        let length = target.file.metadata()?.len();
        self.remember(target, to..length, length, 0)?;
        target.file.set_len(to)
    }

    /// Remembers what stands in a range of a file of this length.
    fn remember(
        &mut self,
        target: &Target,
        range: Range<u64>,
        length_before: u64,
        bytes: usize,
    ) -> io::Result<()> {
        let length = range.end.saturating_sub(range.start);
        let mut before = vec![0; usize::try_from(length).unwrap_or(0)];
        target.file.read_exact_at(&mut before, range.start)?;
        let Target { inode, sector, .. } = *target;
        let file = Arc::clone(&target.file);
        let bytes = bytes as u64;
        let write = Write { file, at: range.start, before, length_before, bytes, sector };
        self.writes.entry(inode).or_default().push(write);
        Ok(())
    }

    /// A file or folder was made.
    pub(crate) fn made(&mut self, path: PathBuf) {
        self.names.push(Name::Made(path));
    }

    /// Deletes a file.
    pub(crate) fn delete(&mut self, path: &Path) -> io::Result<()> {
        self.deleted += 1;
        let kept = self.attic.join(self.deleted.to_string());
        fs::rename(self.below.join(path), &kept)?;
        self.names.push(Name::Deleted(path.to_path_buf(), kept));
        Ok(())
    }

    /// Gives a file another name; what had that name is deleted.
    pub(crate) fn rename(&mut self, from: &Path, to: &Path) -> io::Result<()> {
        let target = self.below.join(to);
        if target.is_dir() {
            // No database needs it.
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        if target.exists() {
            self.delete(to)?;
        }
        fs::rename(self.below.join(from), target)?;
        self.names.push(Name::Renamed(from.to_path_buf(), to.to_path_buf()));
        Ok(())
    }

    /// Makes a file and all names durable.
    pub(crate) fn flush(&mut self, inode: u64) -> io::Result<()> {
        self.writes.remove(&inode);
        self.flush_names()
    }

    /// Makes all names durable.
    pub(crate) fn flush_names(&mut self) -> io::Result<()> {
        for name in self.names.drain(..) {
            let Name::Deleted(_, kept) = name else { continue };
            match kept.is_dir() {
                true => fs::remove_dir_all(kept)?,
                false => fs::remove_file(kept)?,
            }
        }
        Ok(())
    }

    /// Undoes everything, or a part of it.
    pub(crate) fn undo(&mut self, survives: Survives) -> io::Result<Forgotten> {
        let mut forgotten = Forgotten::default();
        let mut random = match survives {
            Survives::Nothing => None,
            Survives::Some(seed) => Some(StdRng::seed_from_u64(seed)),
        };
        let mut writes: Vec<(u64, Vec<Write>)> = self.writes.drain().collect();
        writes.sort_unstable_by_key(|(inode, _)| *inode);
        for (_, writes) in writes {
            forgotten.steps += writes.len() as u64;
            forgotten.bytes += writes.iter().map(|write| write.bytes).sum::<u64>();
            undo_writes(&writes, random.as_mut())?;
        }
        // Names become durable in their order.
        let survive = random.map_or(0, |mut random| random.random_range(0..=self.names.len()));
        let names: Vec<Name> = self.names.drain(survive..).collect();
        forgotten.steps += names.len() as u64;
        for name in names.into_iter().rev() {
            self.undo_name(name)?;
        }
        self.flush_names()?;
        Ok(forgotten)
    }

    fn undo_name(&self, name: Name) -> io::Result<()> {
        let below = |path: &Path| self.below.join(path);
        match name {
            Name::Made(path) if below(&path).is_dir() => fs::remove_dir_all(below(&path)),
            Name::Made(path) => fs::remove_file(below(&path)),
            Name::Deleted(path, kept) => fs::rename(kept, below(&path)),
            Name::Renamed(from, to) => fs::rename(below(&to), below(&from)),
        }
    }
}

/// Undoes the writes of one file.
fn undo_writes(writes: &[Write], random: Option<&mut StdRng>) -> io::Result<()> {
    let Some(oldest) = writes.first() else { return Ok(()) };
    let newest = writes.last().unwrap_or(oldest);
    let length = newest.file.metadata()?.len();
    let lengths = writes.iter().map(|write| write.length_before);
    let was_cut =
        lengths.clone().zip(lengths.skip(1).chain([length])).any(|(one, next)| next < one);
    let random = random.filter(|_| !was_cut);
    let Some(random) = random else {
        for write in writes.iter().rev() {
            write.file.write_all_at(&write.before, write.at)?;
            write.file.set_len(write.length_before)?;
        }
        return Ok(());
    };
    // One answer for all writes of a sector.
    let mut lost = HashMap::new();
    for write in writes.iter().rev() {
        let mut at = write.at;
        let mut rest = write.before.as_slice();
        while !rest.is_empty() {
            let sector = at / write.sector;
            let end = (sector + 1) * write.sector;
            let in_sector = usize::try_from(end - at).unwrap_or(rest.len());
            let (piece, further) = rest.split_at(in_sector.min(rest.len()));
            if *lost.entry(sector).or_insert_with(|| random.random_bool(0.5)) {
                write.file.write_all_at(piece, at)?;
            }
            at += piece.len() as u64;
            rest = further;
        }
    }
    newest.file.set_len(random.random_range(oldest.length_before..=length))
}
