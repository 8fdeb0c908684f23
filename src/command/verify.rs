//! `seckill verify`: checks what a shop has published of a sale: the proof of a draw, the log of a sale, and receipts from it.
//! The crate `verify` shares no code with the service.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use http_body_util::Full;
use hyper::Request;
use hyper::body::Bytes;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use verify::log::{Head, KnownLog, Receipt, check_log, check_receipt};
use verify::{Draw, Known};

use super::{ExitResult, refuse};
use crate::event::{self, PrivateNetworks, Target, WebhookClient};
use crate::trace::Traces;

/// The largest proof that is read from an address: some two million entries.
const PROOF_BYTES_MAX: usize = 256 << 20;
/// How long it may take.
const FETCH_MAX: Duration = Duration::from_secs(120);

/// The arguments: what is checked, and what buyers know.
#[derive(clap::Args)]
pub struct Arguments {
    /// What is checked: a file, or an address of a shop. The proof of a draw (`/api/items/{id}/draw/entries`), the log of a
    /// sale (`/api/items/{id}/log/entries`), or the answer of `/api/orders/{id}/receipt`.
    #[arg(value_name = "FILE_OR_URL")]
    proof: String,
    /// Draws: the draw as it was published earlier: a file with an answer of `/api/items/{id}/draw`, or the file that the
    /// page of the item saves, which also has the entry. From before the sale it proves that the announcement was kept;
    /// from between close and round, that the list was.
    #[arg(long, value_name = "FILE")]
    announced: Option<PathBuf>,
    /// Draws: the id of an entry that must be in the list, as its buyer was answered.
    #[arg(long, value_name = "ID")]
    entry: Option<String>,
    /// Logs: receipts that must be in the log: files with an answer of `/api/orders/{id}/receipt`, or with a receipt a line.
    #[arg(long, value_name = "FILE")]
    receipt: Vec<PathBuf>,
    /// Logs: heads that the log must be a continuation of: files with an answer of `/api/items/{id}/log`.
    #[arg(long, value_name = "FILE")]
    earlier: Vec<PathBuf>,
    /// Logs and receipts: the keys of the shop: a file with an answer of `/api/receipt-keys`.
    #[arg(long, value_name = "FILE")]
    keys: Option<PathBuf>,
}

/// Checks what was published and prints what it found. Exit 1 when there is a fault, 2 when it cannot be read.
pub async fn run(arguments: &Arguments) -> ExitResult {
    let text = if arguments.proof.starts_with("http") {
        let body = fetch(&arguments.proof).await?;
        String::from_utf8(body.into()).map_err(|_| "the answer is no text".to_owned())?
    } else {
        let text = std::fs::read_to_string(&arguments.proof);
        text.map_err(|error| format!("{}: {error}", arguments.proof))?
    };
    let keys: Option<Keys> = arguments.keys.as_deref().map(read).transpose()?;
    let keys = keys.map(|keys| keys.keys.into_iter().map(|key| key.public_key).collect::<Vec<_>>());
    if text.starts_with("sale-log ") {
        return check_the_log(arguments, &text, keys.as_deref());
    }
    if let Ok(receipts) = receipts_of(&text) {
        let checks = receipts.iter().map(|receipt| check_receipt(receipt, keys.as_deref()));
        let faults: Vec<String> =
            checks.flat_map(std::collections::BTreeMap::into_values).collect();
        return end(&faults, || {
            format!("{} receipts lead to signed heads of their logs", receipts.len())
        });
    }
    let proof = verify::read(text.as_bytes())?;
    let saved: Option<Saved> = arguments.announced.as_deref().map(read).transpose()?;
    let of_file = saved.as_ref().and_then(|saved| saved.entry.as_deref());
    let announced = saved.as_ref().map(|saved| &saved.draw);
    let known = Known { announced, entry: arguments.entry.as_deref().or(of_file) };
    let faults: Vec<String> =
        verify::check(&proof, known).into_iter().map(|(_, sentence)| sentence).collect();
    end(&faults, || format!("{} places follow from seed, round and list", proof.entries.len()))
}

fn check_the_log(arguments: &Arguments, text: &str, keys: Option<&[String]>) -> ExitResult {
    let mut receipts = Vec::new();
    for file in &arguments.receipt {
        let read = receipts_of(&text_of(file)?);
        receipts.extend(read.map_err(|error| format!("{}: {error}", file.display()))?);
    }
    let earlier = arguments.earlier.iter().map(|file| read::<Summary>(file).map(|log| log.head));
    let earlier: Vec<Head> = earlier.collect::<Result<_, _>>()?;
    let report = check_log(text, KnownLog { keys, earlier: &earlier, receipts: &receipts });
    let faults: Vec<String> = report.faults.into_values().collect();
    end(&faults, || {
        let (entries, units, orders) = (report.entries, report.units, report.orders);
        let (refusals, receipts, heads) = (report.refusals, receipts.len(), earlier.len());
        format!(
            "{entries} entries, {orders} orders of {units} units, {refusals} refusals; {receipts} receipts are among them, \
             and {heads} earlier heads"
        )
    })
}

fn end(faults: &[String], proven: impl FnOnce() -> String) -> ExitResult {
    if faults.is_empty() {
        println!("{}", proven());
        return Ok(ExitCode::SUCCESS);
    }
    refuse(format!("NOT PROVEN: {}", faults.join("; ")))
}

/// What a buyer of a draw has saved.
#[derive(Deserialize)]
struct Saved {
    #[serde(flatten)]
    draw: Draw,
    entry: Option<String>,
}

/// The answer of `/api/items/{id}/log`.
#[derive(Deserialize)]
struct Summary {
    head: Head,
}

/// The answer of `/api/orders/{id}/receipt`.
#[derive(Deserialize)]
struct Receipts {
    receipts: Vec<Receipt>,
}

/// The answer of `/api/receipt-keys`.
#[derive(Deserialize)]
struct Keys {
    keys: Vec<Key>,
}

#[derive(Deserialize)]
struct Key {
    public_key: String,
}

/// Reads the answer for an order, or a receipt a line.
fn receipts_of(text: &str) -> Result<Vec<Receipt>, serde_json::Error> {
    if let Ok(Receipts { receipts }) = serde_json::from_str(text) {
        return Ok(receipts);
    }
    text.lines().map(serde_json::from_str).collect()
}

fn text_of(file: &Path) -> Result<String, String> {
    std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}

fn read<T: DeserializeOwned>(file: &Path) -> Result<T, String> {
    serde_json::from_str(&text_of(file)?).map_err(|error| format!("{}: {error}", file.display()))
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
