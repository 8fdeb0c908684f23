//! The disk, with files of our own on it.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::{ForgetfulDisk, Moment, Survives};

/// A disk in a new folder. `None` where there is no FUSE, which the test then says.
struct Bench {
    disk: ForgetfulDisk,
    folder: Folder,
}

/// Removed after the disk.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

impl Bench {
    fn new() -> Option<Self> {
        let name = format!("seckill-forgetful-{:016x}", rand::random::<u64>());
        let folder = Folder(std::env::temp_dir().join(name));
        fs::create_dir_all(folder.0.join("disk")).expect("a folder");
        match ForgetfulDisk::over(&folder.0.join("disk")) {
            Ok(disk) => Some(Self { disk, folder }),
            Err(error) => {
                println!("left out: no disk can be mounted here: {error}");
                None
            }
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.0.join("disk").join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| format!("{:?}", error.kind()))
    }

    fn restart(&self, survives: Survives) -> u64 {
        self.disk.cut();
        self.disk.power_on(survives).expect("power").steps
    }
}

fn flushed(path: PathBuf, text: &str) -> io::Result<File> {
    let mut file =
        OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    Ok(file)
}

/// Flushed bytes stay, later ones go: overwritten, appended, truncated, and of a file that is not there yet.
#[test]
fn unflushed_bytes_go() {
    let Some(bench) = Bench::new() else { return };
    let file = flushed(bench.path("kept"), "one two").expect("a file");
    file.write_all_at(b"TWO and three", 4).expect("a write");
    let cut = flushed(bench.path("cut"), "whole").expect("a file");
    cut.set_len(2).expect("a truncation");
    fs::write(bench.path("new"), "never flushed").expect("a write");
    assert_eq!(bench.text("kept"), "one TWO and three", "until then it is there");
    drop((file, cut));
    assert!(bench.restart(Survives::Nothing) >= 4);
    assert_eq!(bench.text("kept"), "one two");
    assert_eq!(bench.text("cut"), "whole");
    assert_eq!(bench.text("new"), "NotFound");
}

/// A deletion and a renaming are undone unless any file was flushed since.
#[test]
fn names_go_in_order() {
    let Some(bench) = Bench::new() else { return };
    drop(flushed(bench.path("a"), "a").expect("a file"));
    drop(flushed(bench.path("b"), "b").expect("a file"));
    fs::rename(bench.path("a"), bench.path("b")).expect("a renaming");
    bench.restart(Survives::Nothing);
    assert_eq!((bench.text("a"), bench.text("b")), ("a".to_owned(), "b".to_owned()));
    fs::rename(bench.path("a"), bench.path("b")).expect("a renaming");
    drop(flushed(bench.path("c"), "c").expect("a file"));
    fs::remove_file(bench.path("c")).expect("a deletion");
    bench.restart(Survives::Nothing);
    assert_eq!((bench.text("a"), bench.text("b")), ("NotFound".to_owned(), "a".to_owned()));
    assert_eq!(bench.text("c"), "c");
}

/// While the power is cut, nothing is answered; a flush that is cut before it is carried out has kept nothing.
#[test]
fn a_cut_at_a_flush() {
    let Some(bench) = Bench::new() else { return };
    for (moment, kept) in [(Moment::BeforeFlush, "old"), (Moment::AfterFlush, "new")] {
        let file = flushed(bench.path("file"), "old").expect("a file");
        file.write_all_at(b"new", 0).expect("a write");
        bench.disk.cut_at(moment, 0);
        assert!(file.sync_all().is_err(), "{moment:?}");
        assert!(bench.disk.is_cut());
        assert!(file.write_all_at(b"!", 0).is_err(), "nothing works: {moment:?}");
        drop(file);
        bench.restart(Survives::Nothing);
        assert_eq!(bench.text("file"), kept, "{moment:?}");
    }
}

/// A disk that lies forgets what it has answered a flush for.
#[test]
fn a_lie_is_a_loss() {
    let Some(bench) = Bench::new() else { return };
    drop(flushed(bench.path("file"), "old").expect("a file"));
    bench.disk.lie(true);
    drop(flushed(bench.path("file"), "new").expect("a file"));
    bench.restart(Survives::Nothing);
    assert_eq!(bench.text("file"), "old");
}

/// With a seed some sectors survive and some do not, and appended bytes survive from their front on.
#[test]
fn some_sectors_survive() {
    let Some(bench) = Bench::new() else { return };
    let file = flushed(bench.path("file"), &"a".repeat(64 * 512)).expect("a file");
    file.write_all_at(&[b'b'; 64 * 512], 0).expect("a write");
    let log = flushed(bench.path("log"), "").expect("a file");
    log.write_all_at(&[b'c'; 100_000], 0).expect("a write");
    drop((file, log));
    bench.restart(Survives::Some(7));
    let text = bench.text("file").into_bytes();
    let whole = |sector: &[u8]| sector.iter().all(|byte| *byte == sector[0]);
    assert!(text.chunks(512).all(whole), "a sector is old or new");
    let new = text.chunks(512).filter(|sector| sector[0] == b'b').count();
    assert!((1..64).contains(&new), "{new} of 64 sectors are new");
    let log = bench.text("log");
    assert!(log.len() < 100_000 && log.bytes().all(|byte| byte == b'c'), "{}", log.len());
}
