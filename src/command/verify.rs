//! `seckill verify`: checks the published proof of a draw. The crate `verify` shares no code with the service.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde::Deserialize;
use verify::{Draw, Known};

use super::{ExitResult, refuse};
use crate::event::{self, PrivateNetworks, Target, WebhookClient};
use crate::trace::Traces;

/// The largest proof that is read from an address: some two million entries.
const PROOF_BYTES_MAX: usize = 256 << 20;
/// How long it may take.
const FETCH_MAX: Duration = Duration::from_secs(120);

/// The arguments: the proof, and what its buyers know.
#[derive(clap::Args)]
pub struct Arguments {
    /// The proof: a file, or the address of `/api/items/{id}/draw/entries` of a shop.
    #[arg(value_name = "FILE_OR_URL")]
    proof: String,
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
struct Saved {
    #[serde(flatten)]
    draw: Draw,
    entry: Option<String>,
}

/// Checks a proof and prints what it found. Exit 1 when the proof has a fault, 2 when it cannot be read.
pub async fn run(arguments: &Arguments) -> ExitResult {
    let proof = if arguments.proof.starts_with("http") {
        verify::read(&*fetch(&arguments.proof).await?)?
    } else {
        verify::read(text_of(Path::new(&arguments.proof))?.as_bytes())?
    };
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

fn saved(file: &Path) -> Result<Saved, String> {
    serde_json::from_str(&text_of(file)?).map_err(|error| format!("{}: {error}", file.display()))
}

fn text_of(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

async fn fetch(url: &str) -> Result<Bytes, String> {
    let target = Target::parse(url)?;
    let client = WebhookClient {
        // Whoever calls the command may reach any address.
        networks: PrivateNetworks::parse("0.0.0.0/0,::/0")?,
        tls: event::tls(Path::new(""))?.into(),
        timeout: FETCH_MAX,
        traces: Traces::default(),
    };
    let request = Request::new(Full::new(Bytes::new()));
    let (status, body) = client.fetch(&target, request, PROOF_BYTES_MAX).await?;
    if status.is_success() { Ok(body) } else { Err(format!("{url} answered {status}")) }
}
