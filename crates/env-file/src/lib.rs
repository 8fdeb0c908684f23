//! The file `.data/env`, in which `seckill dev` leaves addresses and secrets for a second terminal.
//!
//! Who writes this file chooses the database that is changed and the secret that signs tokens. It is looked for in
//! parent folders, too, and anybody may make one in a shared folder such as `/tmp`. So it is read only if it belongs
//! to the user of this process and nobody else may write it.

use std::env;
use std::fs::File;
use std::io::{ErrorKind, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The bits of a file's mode that let its group and others write it.
const OTHERS_MAY_WRITE: u32 = 0o022;
/// The longest file that is read, in bytes: `seckill dev` writes a few hundred.
const BYTES_MAX: u64 = 64 * 1024;

/// A file that was found and is not read.
#[derive(Debug, thiserror::Error)]
#[error("{} is not read: {why}; remove it, or let SECKILL_DATA_DIR name a folder of yours", path.display())]
pub struct Refused {
    path: PathBuf,
    why: String,
}

/// Reads the variables of `$SECKILL_DATA_DIR/env`; without this variable, those of the nearest `.data/env` from
/// the current folder upwards. Without a file there are none.
///
/// # Errors
/// The file belongs to another user, others may write it, or it cannot be read.
pub fn read() -> Result<Vec<(String, String)>, Refused> {
    match find() {
        Some(path) => read_at(&path),
        None => Ok(Vec::new()),
    }
}

fn find() -> Option<PathBuf> {
    if let Some(folder) = env::var_os("SECKILL_DATA_DIR") {
        return Some(Path::new(&folder).join("env")).filter(|path| path.is_file());
    }
    let here = env::current_dir().ok()?;
    here.ancestors().map(|folder| folder.join(".data/env")).find(|path| path.is_file())
}

/// Reads the variables of one file.
///
/// # Errors
/// As those of [`read`].
pub fn read_at(path: &Path) -> Result<Vec<(String, String)>, Refused> {
    let refused = |why: String| Refused { path: path.to_owned(), why };
    let file = match File::open(path) {
        Ok(file) => file,
        // It ended with its service.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(refused(error.to_string())),
    };
    // Of the open file: the name may lead to another one a moment later.
    let about = file.metadata().map_err(|error| refused(error.to_string()))?;
    if about.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user".to_owned()));
    }
    if about.mode() & OTHERS_MAY_WRITE != 0 {
        return Err(refused("others may write it".to_owned()));
    }
    let mut text = String::new();
    let read = file.take(BYTES_MAX).read_to_string(&mut text);
    read.map_err(|error| refused(error.to_string()))?;
    Ok(parse(&text))
}

fn parse(text: &str) -> Vec<(String, String)> {
    let lines = text.lines().map(str::trim).filter(|line| !line.starts_with('#'));
    let pairs = lines.filter_map(|line| line.split_once('='));
    pairs.map(|(name, value)| (name.trim().to_owned(), unquote(value.trim()).to_owned())).collect()
}

fn unquote(value: &str) -> &str {
    for quote in ['"', '\''] {
        if let Some(inner) = value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote)) {
            return inner;
        }
    }
    value
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn lines_are_read_and_noise_is_skipped() {
        let read =
            parse("# made by a run\nSECKILL_URL=http://127.0.0.1:8080\n\nA = 'b=c'\nnoise\n");
        let expected = [("SECKILL_URL", "http://127.0.0.1:8080"), ("A", "b=c")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
    }

    #[test]
    fn a_file_that_others_may_write_or_own_is_not_read() {
        let folder = env::temp_dir().join(format!("env-file-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        let path = folder.join("env");
        fs::write(&path, "SECKILL_SECRET=chosen by others").expect("written");
        let mode =
            |mode| fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("set");
        for good in [0o600, 0o644, 0o400] {
            mode(good);
            assert_eq!(read_at(&path).expect("it is ours").len(), 1, "{good:o}");
        }
        for open in [0o666, 0o620, 0o602] {
            mode(open);
            let refused = read_at(&path).expect_err("others may write it").to_string();
            assert!(refused.contains("others may write it"), "{open:o}: {refused}");
            assert!(refused.contains("SECKILL_DATA_DIR"), "{refused}");
        }
        mode(0o600);
        // Only root may give a file away.
        if std::os::unix::fs::chown(&path, Some(65_534), None).is_ok() {
            let refused = read_at(&path).expect_err("it is another's").to_string();
            assert!(refused.contains("another user"), "{refused}");
        }
        fs::remove_dir_all(&folder).expect("removed");
        assert_eq!(read_at(&path).expect("none is fine").len(), 0);
    }
}
