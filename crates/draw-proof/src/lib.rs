//! The published shuffle of a draw, the commitment to its secret seed, and the beacons; no I/O.
//!
//! # The draw, exactly
//! `H` is SHA-256, `||` joins bytes, and each label ends with one line feed.
//!
//! 1. Before the sale opens, the shop chooses a secret *seed* of 32 random bytes, and publishes its *rules* (a text
//!    that names the item, the close, the beacon with its key, a future round, and how many friends may be together)
//!    and the *commitment*
//!    `H("seckill draw commitment 1\n" || seed || rules)`.
//! 2. Each entry has an *id* of 16 random bytes, and a *party* of 16 bytes: the id itself, or, for friends who want to
//!    be drawn together, an id that they share. At the close the shop publishes the number of entries and the *root*:
//!    the Merkle tree hash of RFC 6962, section 2.1, over the entries in the order of their ids, where an entry's leaf
//!    is `id || party`.
//! 3. The round of the beacon comes after the close. Its *value* is `H(signature)`, as drand defines it.
//! 4. The *draw key* is `H("seckill draw key 1\n" || seed || value || root)`. An entry's *sort key* is
//!    `H(draw key || party)`. Places from 1 are given by sort key, then by id, both compared byte by byte.
//!
//! # Why
//! The shop cannot choose the order: it is bound to the seed before it knows the round's value. The beacon and the
//! buyers cannot choose it, because they do not know the seed. The root binds the list, so an entry that is left out or
//! added moves every place. Sorting by a key of each entry, instead of exchanging places one by one
//! (Fisher and Yates), needs no rejected random numbers, can be checked for one entry alone, and gives friends
//! neighbouring places without a further rule.

mod beacon;
mod tree;

use ring::digest::{Context, SHA256};

pub use beacon::{Beacon, LocalBeacon};
pub use tree::root;

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// An entry of a draw, as the published list has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    pub id: [u8; 16],
    /// Its own id, or that of the friends who are drawn together.
    pub party: [u8; 16],
}

/// What a draw promises before it opens. [`Rules::text`] is published and hashed.
#[derive(Clone, Copy, Debug)]
pub struct Rules<'a> {
    pub item: i64,
    /// The close of entries in RFC 3339.
    pub closes_at: &'a str,
    pub beacon: &'a Beacon,
    pub round: u64,
    /// The most entries of one party.
    pub party_max: u8,
}

impl Rules<'_> {
    /// The text, byte by byte as it is hashed.
    #[must_use]
    pub fn text(&self) -> String {
        let Self { item, closes_at, beacon, round, party_max } = self;
        let name = beacon.name();
        let key = beacon.public_key();
        let rest = format!("item {item}\ncloses {closes_at}\nbeacon {name} {key}\nround {round}\n");
        match party_max {
            0 | 1 => format!("draw-rules 1\n{rest}"),
            friends => format!("draw-rules 2\n{rest}party {friends}\n"),
        }
    }
}

/// The commitment to a seed and its rules.
#[must_use]
pub fn commitment(seed: &Hash, rules: &str) -> Hash {
    hash(&[b"seckill draw commitment 1\n", seed, rules.as_bytes()])
}

/// Returns the entries in the order of their places.
#[must_use]
pub fn shuffle(seed: &Hash, value: &Hash, root: &Hash, entries: &[Entry]) -> Vec<Entry> {
    let draw_key = hash(&[b"seckill draw key 1\n", seed, value, root]);
    let keyed = entries.iter().map(|entry| (hash(&[&draw_key, &entry.party]), *entry));
    let mut keyed: Vec<(Hash, Entry)> = keyed.collect();
    keyed.sort_unstable_by(|(left, one), (right, other)| (left, one.id).cmp(&(right, other.id)));
    keyed.into_iter().map(|(_, entry)| entry).collect()
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
