//! The Merkle tree hash of RFC 6962, section 2.1.

use crate::{Entry, Hash, hash};

/// What a hash of a leaf, and of a node, begins with.
const LEAF: &[u8] = &[0];
const NODE: &[u8] = &[1];

/// The root over entries that are sorted by their ids.
pub fn root(entries: &[Entry]) -> Hash {
    let leaves = entries.iter().map(|entry| hash(&[LEAF, &entry.id, &entry.party]));
    of_hashes(leaves.collect())
}

/// Joins neighbours until one hash is left. A last hash without a neighbour goes up as it is, which gives the same tree
/// as the RFC's split at the largest power of two.
fn of_hashes(mut level: Vec<Hash>) -> Hash {
    while level.len() > 1 {
        let pairs = level.chunks(2).map(|pair| match pair {
            [left, right] => hash(&[NODE, left, right]),
            alone => alone[0],
        });
        level = pairs.collect();
    }
    level.pop().unwrap_or_else(|| hash(&[]))
}
