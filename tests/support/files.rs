//! The project's own files, for tests that read them, and folders for the files of a test.

use std::fs;
use std::ops::Deref;
use std::path::{Path, PathBuf};

/// The variable that names another folder than the project's own: a copy in which a test plants faults.
pub const PROJECT: &str = "HOUSE_PROJECT";

/// The folder of the project.
pub fn project() -> PathBuf {
    let copy = std::env::var_os(PROJECT).map(PathBuf::from);
    copy.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).to_owned())
}

/// The path of every file of a kind (`rs`) below a folder of the project.
pub fn files_below(folder: &str, kind: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![project().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the project").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == kind) {
                found.push(path);
            }
        }
    }
    assert!(!found.is_empty(), "no {kind} below {folder}");
    found
}

/// A new folder for the files of a test, which goes with this value.
pub struct TestFolder(PathBuf);

impl TestFolder {
    pub fn new(word: &str) -> Self {
        let folder = std::env::temp_dir().join(super::unique(word));
        fs::create_dir(&folder).expect("a folder");
        Self(folder)
    }
}

impl Deref for TestFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.0
    }
}

impl Drop for TestFolder {
    fn drop(&mut self) {
        // A program may write into it once more.
        let _ = fs::remove_dir_all(&self.0);
    }
}
