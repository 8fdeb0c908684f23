//! `seckill verify`: checks what a shop has published. The crate `verify` shares no code with the service.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Deserialize;
use verify::{Draw, Known};

use super::{ExitResult, refuse};

/// What is checked.
#[derive(clap::Subcommand)]
pub enum Action {
    /// The proof of a draw: exit 1 when it has a fault, 2 when it cannot be read.
    Draw(Arguments),
}

/// The arguments: the proof, and what its buyers know.
#[derive(clap::Args)]
pub struct Arguments {
    /// The proof: a file with the answer of `/api/items/{id}/draw/entries`.
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// The draw as it was published earlier: a file with an answer of `/api/items/{id}/draw`, or the file that the page
    /// of the item saves, which also has the entry. From before the sale it proves that the announcement was kept; from
    /// between close and round, that the list was.
    #[arg(long, value_name = "FILE")]
    announced: Option<PathBuf>,
    /// The id of an entry that must be in the list, as its buyer was answered.
    #[arg(long, value_name = "ID")]
    entry: Option<String>,
}

/// What a buyer has saved.
#[derive(Deserialize)]
struct SavedDraw {
    #[serde(flatten)]
    draw: Draw,
    entry: Option<String>,
}

/// Checks a proof file, and prints the faults found in it.
pub fn run(action: &Action) -> ExitResult {
    let Action::Draw(arguments) = action;
    let proof = verify::read(text_of(&arguments.proof)?.as_bytes())?;
    let saved = arguments.announced.as_deref().map(saved).transpose()?;
    let of_file = saved.as_ref().and_then(|saved| saved.entry.as_deref());
    let announced = saved.as_ref().map(|saved| &saved.draw);
    let known = Known { announced, entry: arguments.entry.as_deref().or(of_file) };
    let faults = verify::check(&proof, known);
    if faults.is_empty() {
        println!("{} places follow from seed, round and list", proof.entries.len());
        return Ok(ExitCode::SUCCESS);
    }
    let sentences: Vec<String> = faults.into_iter().map(|(_, sentence)| sentence).collect();
    refuse(format!("NOT PROVEN: {}", sentences.join("; ")))
}

fn saved(file: &Path) -> Result<SavedDraw, String> {
    serde_json::from_str(&text_of(file)?).map_err(|error| format!("{}: {error}", file.display()))
}

fn text_of(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}
