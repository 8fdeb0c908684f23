//! The texts of a draw that are published, their signatures, the shuffle, and the beacons; no I/O.
//!
//! docs/draw.md says what each text looks like, byte by byte. This crate writes them; the checkers (`crates/verify`,
//! `static/js/verify`) read them, and share no code with it.
//!
//! # Why
//! The shop fixes its rules, and with them a future round of a public beacon, before anybody enters. It signs the head
//! of the list before the round. So nobody can choose the order: while rules and list can change, the value is known to
//! nobody. Each buyer has a signed promise, so an entry that is left out shows. Sorting by a key of each entry, instead
//! of exchanging places one by one (Fisher and Yates), needs no rejected random numbers, can be checked for one entry
//! alone, and gives friends neighbouring places without a further rule.

mod beacon;
mod key;
mod texts;
mod tree;

use ring::digest::{Context, SHA256};

pub use beacon::Beacon;
pub use key::{PublicKey, ShopKey, ShopKeys};
pub use texts::{Head, Promise, Rules, beacon_line, entry_line};
pub use tree::root;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// A time in microseconds since 1970.
pub type Micros = u64;

/// An entry of a draw, as the published list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub id: [u8; 16],
    /// Its own id, or that of the friends who are drawn together.
    pub party: [u8; 16],
}

/// Returns the entries in the order of their places, by the signature of the round, the root, and the hash of the rules.
pub fn shuffle(signature: &[u8], root: &Hash, rules: &Hash, entries: &[Entry]) -> Vec<Entry> {
    let draw_key = hash(&[b"seckill draw key 3\n", signature, root, rules]);
    let keyed = entries.iter().map(|entry| (hash(&[&draw_key, &entry.party]), *entry));
    let mut keyed: Vec<(Hash, Entry)> = keyed.collect();
    keyed.sort_unstable_by(|(left, one), (right, other)| (left, one.id).cmp(&(right, other.id)));
    keyed.into_iter().map(|(_, entry)| entry).collect()
}

/// The hash of the rules' text.
pub fn rules_hash(text: &str) -> Hash {
    hash(&[text.as_bytes()])
}

/// The hash of several parts, one after the other.
fn hash(parts: &[&[u8]]) -> Hash {
    let mut context = Context::new(&SHA256);
    for part in parts {
        context.update(part);
    }
    let mut hash = Hash::default();
    hash.copy_from_slice(context.finish().as_ref());
    hash
}

#[cfg(test)]
mod tests;
