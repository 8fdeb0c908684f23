//! The file of an archived item: a line of JSON for each row, compressed by gzip.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use ledger::archive::Sums;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;

/// Files that are not complete end with this.
const PART: &str = ".part";
/// The size of a piece that is read for the digest, in bytes.
const PIECE_BYTES: usize = 64 << 10;

/// The parts of a line that are added up; each column is a text.
#[derive(Deserialize)]
struct Line {
    table: String,
    row: Columns,
}

#[derive(Deserialize)]
struct Columns {
    status: Option<String>,
    quantity: Option<String>,
    amount_cents: Option<String>,
    reason: Option<String>,
    delta: Option<String>,
}

/// Writes lines into a new file, which nobody else can read, until there are no more; the file is on the disk
/// then. It has another name until it is [`publish`]ed.
pub(super) fn write(dir: &Path, name: &str, lines: &mut mpsc::Receiver<String>) -> io::Result<()> {
    let path = dir.join(format!("{name}{PART}"));
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    let mut packed = GzEncoder::new(BufWriter::new(file), Compression::default());
    while let Some(line) = lines.blocking_recv() {
        packed.write_all(line.as_bytes())?;
        packed.write_all(b"\n")?;
    }
    packed.finish()?.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
}

/// Reads a file that is not published yet back, and returns its digest and its sums.
pub(super) fn read_back(dir: &Path, name: &str) -> io::Result<(String, Sums)> {
    let path = dir.join(format!("{name}{PART}"));
    Ok((digest_of(&path)?, sums_of(&path)?))
}

/// Gives a complete file its name, for good.
pub(super) fn publish(dir: &Path, name: &str) -> io::Result<()> {
    fs::rename(dir.join(format!("{name}{PART}")), dir.join(name))?;
    File::open(dir)?.sync_all()
}

/// Deletes what broken-off archivers of an item have left, whose names begin with `prefix`.
pub(super) fn remove_parts(dir: &Path, prefix: &str) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for entry in fs::read_dir(dir)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with(prefix) && name.ends_with(PART) {
            fs::remove_file(dir.join(&*name))?;
        }
    }
    Ok(())
}

/// Reads the SHA-256 of a published file.
pub(super) fn digest(dir: &Path, name: &str) -> io::Result<String> {
    digest_of(&dir.join(name))
}

fn digest_of(path: &Path) -> io::Result<String> {
    let mut file = BufReader::with_capacity(PIECE_BYTES, File::open(path)?);
    let mut digest = Sha256::new();
    loop {
        let piece = file.fill_buf()?;
        if piece.is_empty() {
            let bytes = digest.finalize();
            return Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect());
        }
        digest.update(piece);
        let length = piece.len();
        file.consume(length);
    }
}

fn sums_of(path: &Path) -> io::Result<Sums> {
    let mut sums = Sums::default();
    for line in BufReader::new(GzDecoder::new(File::open(path)?)).lines() {
        let Line { table, row } = serde_json::from_str(&line?)?;
        match (table.as_str(), row.status, row.reason) {
            ("orders", Some(status), _) => {
                let sum = [1, number(row.quantity)?, number(row.amount_cents)?];
                sums.add_order(&status, sum);
            }
            ("stock_movements", _, Some(reason)) => {
                sums.add_movement(&reason, [1, number(row.delta)?]);
            }
            _ => {}
        }
    }
    Ok(sums)
}

fn number(text: Option<String>) -> io::Result<i64> {
    let number = text.and_then(|text| text.parse().ok());
    number.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "a number is missing"))
}
