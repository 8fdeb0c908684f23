//! `seckill verify`: checks what a shop has published. The crate `verify` shares no code with the service.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use time::OffsetDateTime;
use verify::{Facts, Fault, Known};

use super::output::print_line;
use super::{ExitResult, refuse};

/// What a buyer has saved is shorter.
const SAVED_BYTES_MAX: u64 = 64 * 1024;
/// The exit code of a draw whose value the shop has made.
const NO_PROOF: u8 = 3;

/// What is checked.
#[derive(clap::Subcommand)]
pub enum Action {
    /// The proof of a draw: exit 1 when it has a fault, 2 when a file cannot be read, 3 when all fits but the shop made
    /// the value, so that it is not a proof.
    Draw(Arguments),
}

/// The arguments: the proof, and what its buyers know.
#[derive(clap::Args)]
pub struct Arguments {
    /// The proof: a file with the answer of `/api/items/{id}/draw/entries`.
    #[arg(value_name = "FILE")]
    proof: PathBuf,
    /// What was published earlier: a file with an answer of `/api/items/{id}/draw/announcement`. From before the sale it
    /// proves that the rules were kept; from between close and round, that the list was.
    #[arg(long, value_name = "FILE")]
    announced: Option<PathBuf>,
    /// The file that the page of the item saves of an entry: the promise, and what was announced in front of it. The
    /// promise alone will do.
    #[arg(long, value_name = "FILE")]
    entry: Option<PathBuf>,
}

/// Checks a proof file, and prints the faults found in it.
pub fn run(settings: Option<&Path>, action: &Action) -> ExitResult {
    let Action::Draw(arguments) = action;
    if settings.is_some() {
        return Err("--config is not used here: a check reads its files alone".to_owned());
    }
    let announced = arguments.announced.as_deref().map(saved).transpose()?;
    let entry = arguments.entry.as_deref().map(saved).transpose()?;
    let mut known = entry.as_deref().map(verify::saved).unwrap_or_default();
    if announced.is_some() && known.announced.is_some() {
        return Err("the file of --entry has an announcement: leave --announced out".to_owned());
    }
    known.announced = announced.as_deref().or(known.announced);
    let file = &arguments.proof;
    let proof = File::open(file).map_err(|error| about(file, error))?;
    let proof = verify::read(BufReader::new(proof)).map_err(|error| about(file, error))?;
    let faults = verify::check(&proof, known);
    if let Some((_, sentence)) = faults.iter().find(|(fault, _)| *fault == Fault::Unreadable) {
        return Err(sentence.clone());
    }
    if !faults.is_empty() {
        let sentences: Vec<String> = faults.into_iter().map(|(_, sentence)| sentence).collect();
        return refuse(format!("NOT PROVEN: {}", sentences.join("; ")));
    }
    print_line(told(&proof.facts(known), known).trim_end());
    if proof.is_public() {
        return Ok(ExitCode::SUCCESS);
    }
    eprintln!("seckill: NOT A PROOF: the shop made the value");
    Ok(ExitCode::from(NO_PROOF))
}

/// What a check has found, for people to compare with what they know.
fn told(facts: &Facts, known: Known<'_>) -> String {
    let Facts { item, units, rules, entries, root, round, shop, .. } = facts;
    let closes = instant(facts.closes);
    let listed = instant(facts.listed);
    let mut told = format!(
        "item {item}: the places of {entries} entries follow from rules, list and value\n\
         rules {rules}: units {units}, entries until {closes}, round {round}\n\
         head {root}: {entries} entries, listed at {listed}\n\
         key {shop}: is it the one that the shop names?\n"
    );
    if let Some(entry) = &facts.entry {
        told += &format!("entry {}: place {} of {entries}\n", entry.id, entry.place);
    }
    told += match known.announced {
        None => "",
        Some(_) if facts.is_list_kept => {
            "announcement: rules and head are as saved; of the head it counts if it was saved before the round\n"
        }
        Some(_) => "announcement: the rules are as saved; no head was compared\n",
    };
    told
}

fn instant(micros: u64) -> String {
    let instant = OffsetDateTime::from_unix_timestamp_nanos(i128::from(micros) * 1_000);
    instant.map_or_else(|_| micros.to_string(), web::problem::rfc3339)
}

fn saved(file: &Path) -> Result<String, String> {
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| about(file, error))?;
    opened.take(SAVED_BYTES_MAX).read_to_string(&mut text).map_err(|error| about(file, error))?;
    Ok(text)
}

fn about(file: &Path, error: impl std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}
