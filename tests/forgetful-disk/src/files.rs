//! The file system: a folder below, seen through a [`Power`].

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    FileExt, FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt, symlink,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use crate::unflushed::{Target, sector_of};
use crate::{Moment, Power, lock};

/// The kernel asks each time: names change below it when the power comes back.
const NOT_KEPT: Duration = Duration::ZERO;
/// The flags that a file is opened with again.
const APPEND: i32 = 0o2000;
const TRUNCATE: i32 = 0o1000;
/// No such file.
const ENOENT: i32 = 2;
/// Not supported.
const EOPNOTSUPP: i32 = 95;

pub(crate) struct Files {
    below: PathBuf,
    power: Arc<Mutex<Power>>,
    known: Mutex<Known>,
}

/// What the kernel has numbers for.
#[derive(Default)]
struct Known {
    /// The names, relative to the folder.
    paths: HashMap<u64, PathBuf>,
    open: HashMap<u64, Target>,
    /// Open files so far.
    opened: u64,
}

impl Files {
    pub(crate) fn new(below: PathBuf, power: Arc<Mutex<Power>>) -> Self {
        let known = Known { paths: HashMap::from([(1, PathBuf::new())]), ..Known::default() };
        Self { below, power, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power, if it is on.
    fn on(&self) -> io::Result<MutexGuard<'_, Power>> {
        let power = lock(&self.power);
        power.works().map(|()| power)
    }

    /// The path of an inode, relative to the folder.
    fn path(&self, inode: INodeNo) -> io::Result<PathBuf> {
        let path = self.known().paths.get(&inode.0).cloned();
        path.ok_or(io::Error::from_raw_os_error(ENOENT))
    }

    fn child(&self, parent: INodeNo, name: &OsStr) -> io::Result<PathBuf> {
        Ok(self.path(parent)?.join(name))
    }

    /// The attributes of a file or folder, whose number the kernel hears now.
    fn entry(&self, path: PathBuf) -> io::Result<FileAttr> {
        let attributes = attributes(&fs::symlink_metadata(self.below.join(&path))?);
        self.known().paths.insert(attributes.ino.0, path);
        Ok(attributes)
    }

    fn attributes(&self, inode: INodeNo, handle: Option<FileHandle>) -> io::Result<FileAttr> {
        let file = handle.map(|handle| self.file(handle)).transpose()?;
        let metadata = match file {
            Some(open) => open.file.metadata()?,
            None => match self.path(inode) {
                Ok(path) => fs::symlink_metadata(self.below.join(path))?,
                Err(_) => self.open_file(inode)?.file.metadata()?,
            },
        };
        let mut found = attributes(&metadata);
        found.ino = inode;
        Ok(found)
    }

    fn file(&self, handle: FileHandle) -> io::Result<Target> {
        let open = self.known().open.get(&handle.0).cloned();
        open.ok_or(io::Error::from_raw_os_error(crate::EIO))
    }

    /// A file that is open, perhaps without a name.
    fn open_file(&self, inode: INodeNo) -> io::Result<Target> {
        let known = self.known();
        let open = known.open.values().find(|open| open.inode == inode.0);
        open.cloned().ok_or(io::Error::from_raw_os_error(ENOENT))
    }

    fn hold(&self, file: File, path: &Path) -> io::Result<FileHandle> {
        let inode = file.metadata()?.ino();
        let mut known = self.known();
        known.opened += 1;
        let handle = known.opened;
        known.open.insert(handle, Target { inode, file: Arc::new(file), sector: sector_of(path) });
        Ok(FileHandle(handle))
    }

    fn opened(&self, inode: INodeNo, flags: OpenFlags) -> io::Result<FileHandle> {
        let mut power = self.on()?;
        let path = self.below.join(self.path(inode)?);
        // Reads, too, because what stood there is remembered.
        let opened = OpenOptions::new().read(true).write(true).open(&path);
        let handle = self.hold(opened.or_else(|_| File::open(&path))?, &path)?;
        if flags.0 & TRUNCATE != 0 {
            power.unflushed.resize(&self.file(handle)?, 0)?;
        }
        Ok(handle)
    }

    fn made(
        &self,
        path: PathBuf,
        make: impl FnOnce(&Path) -> io::Result<()>,
    ) -> io::Result<FileAttr> {
        let mut power = self.on()?;
        make(&self.below.join(&path))?;
        power.unflushed.made(path.clone());
        self.entry(path)
    }

    fn created(&self, path: PathBuf, mode: u32) -> io::Result<(FileAttr, FileHandle)> {
        let mut file = None;
        let name = path.clone();
        let found = self.made(path, |path| {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create_new(true).mode(mode);
            file = Some(options.open(path)?);
            Ok(())
        })?;
        let file = file.ok_or(io::Error::from_raw_os_error(crate::EIO))?;
        Ok((found, self.hold(file, &name)?))
    }

    fn deleted(&self, path: &Path) -> io::Result<()> {
        self.on()?.unflushed.delete(path)?;
        self.known().paths.retain(|_, known| known != path);
        Ok(())
    }

    fn renamed(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.on()?.unflushed.rename(from, to)?;
        let mut known = self.known();
        known.paths.retain(|_, path| path != to);
        for path in known.paths.values_mut() {
            if let Ok(rest) = path.strip_prefix(from) {
                *path = if rest.as_os_str().is_empty() { to.to_path_buf() } else { to.join(rest) };
            }
        }
        Ok(())
    }

    fn wrote(&self, handle: FileHandle, at: u64, data: &[u8], flags: OpenFlags) -> io::Result<()> {
        let mut power = self.on()?;
        let open = self.file(handle)?;
        let at = if flags.0 & APPEND == 0 { at } else { open.file.metadata()?.len() };
        power.unflushed.write(&open, at, data)?;
        power.reached(Moment::Write);
        power.works()
    }

    fn read_some(&self, handle: FileHandle, at: u64, size: u32) -> io::Result<Vec<u8>> {
        let _power = self.on()?;
        let file = self.file(handle)?.file;
        let mut data = vec![0; size as usize];
        let mut length = 0;
        while length < data.len() {
            match file.read_at(&mut data[length..], at + length as u64)? {
                0 => break,
                count => length += count,
            }
        }
        data.truncate(length);
        Ok(data)
    }

    fn changed(&self, inode: INodeNo, mode: Option<u32>, size: Option<u64>) -> io::Result<()> {
        let mut power = self.on()?;
        if let Some(mode) = mode {
            let path = self.below.join(self.path(inode)?);
            fs::set_permissions(path, Permissions::from_mode(mode & 0o7777))?;
        }
        if let Some(size) = size {
            let open = match self.open_file(inode) {
                Ok(open) => open,
                Err(_) => {
                    let path = self.below.join(self.path(inode)?);
                    let file = OpenOptions::new().read(true).write(true).open(&path)?;
                    Target { inode: inode.0, file: Arc::new(file), sector: sector_of(&path) }
                }
            };
            power.unflushed.resize(&open, size)?;
        }
        Ok(())
    }

    fn grown(&self, handle: FileHandle, end: u64, mode: i32) -> io::Result<()> {
        if mode != 0 {
            return Err(io::Error::from_raw_os_error(EOPNOTSUPP));
        }
        let mut power = self.on()?;
        let open = self.file(handle)?;
        match open.file.metadata()?.len() < end {
            true => power.unflushed.resize(&open, end),
            false => Ok(()),
        }
    }

    fn listed(&self, inode: INodeNo) -> io::Result<Vec<(u64, FileType, std::ffi::OsString)>> {
        let _power = self.on()?;
        let mut found = Vec::new();
        for entry in fs::read_dir(self.below.join(self.path(inode)?))? {
            let entry = entry?;
            let metadata = entry.metadata()?;
            found.push((metadata.ino(), kind(&metadata), entry.file_name()));
        }
        Ok(found)
    }
}

fn kind(metadata: &Metadata) -> FileType {
    let kind = metadata.file_type();
    if kind.is_dir() {
        FileType::Directory
    } else if kind.is_symlink() {
        FileType::Symlink
    } else if kind.is_socket() {
        FileType::Socket
    } else {
        FileType::RegularFile
    }
}

fn attributes(metadata: &Metadata) -> FileAttr {
    let time = |seconds: i64, nanoseconds: i64| -> SystemTime {
        let seconds = Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
        UNIX_EPOCH + seconds + Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(0))
    };
    let changed = time(metadata.mtime(), metadata.mtime_nsec());
    FileAttr {
        ino: INodeNo(metadata.ino()),
        size: metadata.len(),
        blocks: metadata.blocks(),
        atime: changed,
        mtime: changed,
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: UNIX_EPOCH,
        kind: kind(metadata),
        perm: u16::try_from(metadata.mode() & 0o7777).unwrap_or(0o600),
        nlink: u32::try_from(metadata.nlink()).unwrap_or(1),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Answers a request of the kernel: with the result of the operation, or with its error.
macro_rules! answer {
    ($reply:ident, $done:expr, $result:pat => $answer:expr) => {
        match $done {
            Ok($result) => $answer,
            Err(error) => $reply.error(Errno::from(error)),
        }
    };
}

impl Filesystem for Files {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let found = self.on().and_then(|_on| self.entry(self.child(parent, name)?));
        answer!(reply, found, found => reply.entry(&NOT_KEPT, &found, Generation(0)));
    }

    fn getattr(&self, _: &Request, inode: INodeNo, handle: Option<FileHandle>, reply: ReplyAttr) {
        let found = self.on().and_then(|_on| self.attributes(inode, handle));
        answer!(reply, found, found => reply.attr(&NOT_KEPT, &found));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        mode: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        handle: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let changed = self.changed(inode, mode, size);
        let changed = changed.and_then(|()| self.attributes(inode, handle));
        answer!(reply, changed, found => reply.attr(&NOT_KEPT, &found));
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        let target = self.path(inode).and_then(|path| fs::read_link(self.below.join(path)));
        answer!(reply, target, target => reply.data(target.as_os_str().as_encoded_bytes()));
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let made =
            self.child(parent, name).and_then(|path| self.made(path, |path| fs::create_dir(path)));
        answer!(reply, made, found => reply.entry(&NOT_KEPT, &found, Generation(0)));
    }

    fn symlink(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        target: &Path,
        reply: ReplyEntry,
    ) {
        let made = self.child(parent, name);
        let made = made.and_then(|path| self.made(path, |path| symlink(target, path)));
        answer!(reply, made, found => reply.entry(&NOT_KEPT, &found, Generation(0)));
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let deleted = self.child(parent, name).and_then(|path| self.deleted(&path));
        answer!(reply, deleted, () => reply.ok());
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let deleted = self.child(parent, name).and_then(|path| {
            match fs::read_dir(self.below.join(&path))?.next() {
                None => self.deleted(&path),
                Some(_) => Err(io::ErrorKind::DirectoryNotEmpty.into()),
            }
        });
        answer!(reply, deleted, () => reply.ok());
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        _: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let paths =
            self.child(parent, name).and_then(|from| Ok((from, self.child(new_parent, new_name)?)));
        let renamed = paths.and_then(|(from, to)| self.renamed(&from, &to));
        answer!(reply, renamed, () => reply.ok());
    }

    fn open(&self, _: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        let opened = self.opened(inode, flags);
        answer!(reply, opened, handle => reply.opened(handle, FopenFlags::empty()));
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        let created = self.child(parent, name).and_then(|path| self.created(path, mode));
        let none = FopenFlags::empty();
        answer!(reply, created, (found, handle) => {
            reply.created(&NOT_KEPT, &found, Generation(0), handle, none);
        });
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        answer!(reply, self.read_some(handle, at, size), data => reply.data(&data));
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let size = u32::try_from(data.len()).unwrap_or(u32::MAX);
        answer!(reply, self.wrote(handle, at, data, flags), () => reply.written(size));
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // It is a close, not a flush of the disk.
        reply.ok();
    }

    fn release(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        _: OpenFlags,
        _: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        self.known().open.remove(&handle.0);
        reply.ok();
    }

    fn fsync(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, lock(&self.power).flush(inode.0), () => reply.ok());
    }

    fn fsyncdir(&self, _: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer!(reply, lock(&self.power).flush(inode.0), () => reply.ok());
    }

    fn readdir(
        &self,
        _: &Request,
        inode: INodeNo,
        _: FileHandle,
        from: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.listed(inode) {
            Ok(found) => {
                let from = usize::try_from(from).unwrap_or(usize::MAX);
                for (index, (number, kind, name)) in found.into_iter().enumerate().skip(from) {
                    if reply.add(INodeNo(number), index as u64 + 1, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(Errno::from(error)),
        }
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        // Room enough for whoever asks.
        let blocks = 1 << 24;
        reply.statfs(blocks, blocks, blocks, blocks, blocks, 4096, 255, 4096);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        handle: FileHandle,
        at: u64,
        length: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        answer!(reply, self.grown(handle, at.saturating_add(length), mode), () => reply.ok());
    }
}
