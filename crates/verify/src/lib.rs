//! Checks what a shop has published of a draw: its places must follow from its seed.
//!
//! It is written from the description in `docs/draw.md`, and shares no code with the service. `static/js/verify` is the
//! same in JavaScript; both find the same [`Fault`]s in `vectors.json`.
//!
//! A proof is a text of lines: first the draw as one JSON object, then each entry as a JSON object.

mod beacon;
mod rules;
mod tree;

use std::collections::HashSet;
use std::io::BufRead;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use time::format_description::well_known::Rfc3339;

use rules::Rules;

type Hash = [u8; 32];

/// The published facts of a draw. What is not known yet is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Draw {
    pub rules: String,
    pub commitment: String,
    /// When the list of entries was published, in RFC 3339.
    pub listed_at: Option<String>,
    pub entries: Option<u64>,
    pub root: Option<String>,
    pub seed: Option<String>,
    pub beacon_signature: Option<String>,
    pub beacon_value: Option<String>,
}

/// An entry with its place. Its party is its own id, if it is left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub entry: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub party: Option<String>,
    #[serde(default)]
    pub place: Option<u64>,
}

/// A draw with its entries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Proof {
    pub draw: Draw,
    pub entries: Vec<Entry>,
}

/// What the checker compares the proof with, beside the proof itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The draw as it was published earlier.
    pub announced: Option<&'a Draw>,
    /// The id of an entry that must be in the list.
    pub entry: Option<&'a str>,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// Something is missing or cannot be read.
    Unreadable,
    /// The seed is not the one that was announced.
    Seed,
    /// The value is not the beacon's for the announced round.
    Beacon,
    /// The list of entries was published after the round.
    Late,
    /// The list is not the one whose root was published.
    Entries,
    /// More entries are drawn as one than was announced.
    Parties,
    /// The places are not the published shuffle.
    Places,
    /// The draw differs from what was published earlier.
    Announcement,
    /// The buyer's entry is not in the list.
    MissingEntry,
}

/// Reads a proof.
///
/// # Errors
/// A sentence when a line cannot be read.
pub fn read(text: impl BufRead) -> Result<Proof, String> {
    let mut lines = text.lines();
    let first = lines.next().ok_or("the proof is empty")?.map_err(|error| error.to_string())?;
    let draw =
        serde_json::from_str(&first).map_err(|error| format!("line 1 is no draw: {error}"))?;
    let mut entries = Vec::new();
    for (number, line) in (2..).zip(lines) {
        let line = line.map_err(|error| error.to_string())?;
        let entry = serde_json::from_str(&line);
        entries.push(entry.map_err(|error| format!("line {number} is no entry: {error}"))?);
    }
    Ok(Proof { draw, entries })
}

/// Checks a proof, and returns every fault with a sentence about it. No fault: the places are right.
#[must_use]
pub fn check(proof: &Proof, known: Known<'_>) -> Vec<(Fault, String)> {
    let mut faults = Vec::new();
    let mut fault = |kind, text: &str| faults.push((kind, text.to_owned()));
    let draw = &proof.draw;
    if let Some(announced) = known.announced {
        let same = |one: &Option<String>, other: &Option<String>| one.is_none() || one == other;
        let is_kept = announced.rules == draw.rules
            && announced.commitment == draw.commitment
            && same(&announced.root, &draw.root)
            && (announced.entries.is_none() || announced.entries == draw.entries);
        if !is_kept {
            fault(Fault::Announcement, "the draw differs from what was published earlier");
        }
    }
    if let Some(wanted) = known.entry
        && !proof.entries.iter().any(|entry| entry.entry == wanted)
    {
        fault(Fault::MissingEntry, "the entry is not in the list");
    }
    let Some(read) = ReadDraw::of(draw) else {
        fault(Fault::Unreadable, "the draw is not over yet, or a part of it cannot be read");
        return faults;
    };
    if hash(&[b"seckill draw commitment 1\n", &read.seed, draw.rules.as_bytes()]) != read.commitment
    {
        fault(Fault::Seed, "seed and rules do not give the commitment");
    }
    let signed = read.rules.beacon_value(&read.signature);
    if signed != Some(read.value) {
        fault(Fault::Beacon, "the value is not the beacon's for the announced round");
    }
    if read.listed_at >= i128::from(read.rules.round_time()) * 1_000_000_000 {
        fault(Fault::Late, "the list was published after the round");
    }
    let Some(mut leaves) = proof.entries.iter().map(leaf).collect::<Option<Vec<_>>>() else {
        fault(Fault::Unreadable, "an entry has no id of 16 bytes, or no place");
        return faults;
    };
    leaves.sort_unstable();
    let is_set = leaves.iter().map(|leaf| leaf.id).collect::<HashSet<_>>().len() == leaves.len();
    let hashes: Vec<Hash> =
        leaves.iter().map(|leaf| hash(&[&[0], &leaf.id, &leaf.party])).collect();
    if !is_set || draw.entries != Some(leaves.len() as u64) || tree::root(&hashes) != read.root {
        fault(Fault::Entries, "the list is not the one whose root was published");
    }
    let draw_key = hash(&[b"seckill draw key 1\n", &read.seed, &read.value, &read.root]);
    leaves.sort_by_cached_key(|leaf| (hash(&[&draw_key, &leaf.party]), leaf.id));
    let mut parties = leaves.chunk_by(|one, next| one.party == next.party);
    if parties.any(|party| party.len() > read.rules.party_max) {
        fault(Fault::Parties, "more entries are drawn as one than was announced");
    }
    if !(1..).zip(&leaves).all(|(place, leaf)| leaf.place == place) {
        fault(Fault::Places, "the places are not the published shuffle");
    }
    faults
}

/// An entry as bytes.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Leaf {
    id: [u8; 16],
    party: [u8; 16],
    place: u64,
}

fn leaf(entry: &Entry) -> Option<Leaf> {
    let id = bytes(&entry.entry)?;
    let party = entry.party.as_deref().map_or(Some(id), bytes)?;
    Some(Leaf { id, party, place: entry.place? })
}

/// A finished draw as bytes.
struct ReadDraw {
    rules: Rules,
    commitment: Hash,
    root: Hash,
    seed: Hash,
    signature: Vec<u8>,
    value: Hash,
    /// In nanoseconds since 1970.
    listed_at: i128,
}

impl ReadDraw {
    fn of(draw: &Draw) -> Option<Self> {
        let listed_at = OffsetDateTime::parse(draw.listed_at.as_deref()?, &Rfc3339).ok()?;
        Some(Self {
            rules: Rules::parse(&draw.rules)?,
            commitment: bytes(&draw.commitment)?,
            root: bytes(draw.root.as_deref()?)?,
            seed: bytes(draw.seed.as_deref()?)?,
            signature: hex::decode(draw.beacon_signature.as_deref()?).ok()?,
            value: bytes(draw.beacon_value.as_deref()?)?,
            listed_at: listed_at.unix_timestamp_nanos(),
        })
    }
}

fn bytes<const LENGTH: usize>(text: &str) -> Option<[u8; LENGTH]> {
    hex::decode(text).ok()?.try_into().ok()
}

fn hash(parts: &[&[u8]]) -> Hash {
    let hash = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part));
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct Case {
        name: String,
        draw: Draw,
        entries: Vec<Entry>,
        announced: Option<Draw>,
        entry: Option<String>,
        faults: Vec<Fault>,
    }

    #[test]
    fn every_fraud_is_found() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../vectors.json")).expect("cases");
        assert!(cases.len() > 10);
        for case in cases {
            let proof = Proof { draw: case.draw, entries: case.entries };
            let known = Known { announced: case.announced.as_ref(), entry: case.entry.as_deref() };
            let mut found: Vec<Fault> =
                check(&proof, known).into_iter().map(|(fault, _)| fault).collect();
            found.sort_unstable();
            let mut expected = case.faults;
            expected.sort_unstable();
            assert_eq!(found, expected, "{}", case.name);
        }
    }

    /// Only a checker with pairings can find this one.
    #[test]
    fn a_signature_that_drand_never_made_is_found() {
        let cases: Vec<Case> =
            serde_json::from_str(include_str!("../vectors.json")).expect("cases");
        let honest = cases.into_iter().find(|case| case.name == "honest, with drand");
        let mut honest = honest.expect("a case");
        let signature = "a".repeat(96);
        honest.draw.beacon_value =
            Some(hex::encode(hash(&[&hex::decode(&signature).expect("hex")])));
        honest.draw.beacon_signature = Some(signature);
        let proof = Proof { draw: honest.draw, entries: honest.entries };
        let found = check(&proof, Known::default());
        assert_eq!(
            found.iter().map(|(fault, _)| *fault).collect::<Vec<_>>(),
            [Fault::Beacon, Fault::Places]
        );
    }

    /// `cargo test --release -p verify a_million -- --ignored --nocapture`
    #[test]
    #[ignore = "a measurement"]
    fn a_million_entries() {
        let mut draw = Draw {
            rules: format!(
                "draw-rules 1\nitem 1\ncloses 2026-01-01T00:00:00Z\nbeacon local {}\nround 1\n",
                "00".repeat(32)
            ),
            commitment: "00".repeat(32),
            listed_at: Some("2026-01-01T00:00:00Z".to_owned()),
            entries: Some(1_000_000),
            ..Draw::default()
        };
        for known in [&mut draw.root, &mut draw.seed, &mut draw.beacon_value] {
            *known = Some("00".repeat(32));
        }
        draw.beacon_signature = Some("00".repeat(64));
        let entry =
            |n: u128| Entry { entry: hex::encode(n.to_be_bytes()), party: None, place: Some(1) };
        let proof = Proof { draw, entries: (0..1_000_000).map(entry).collect() };
        let started = std::time::Instant::now();
        let found = check(&proof, Known::default());
        println!("{:?}, {} faults", started.elapsed(), found.len());
    }
}
