//! The Merkle tree hash, as RFC 6962 defines it: by the largest power of two below the number of leaves.

use super::{Hash, hash};

/// The root over the hashes of leaves.
pub(crate) fn root(leaves: &[Hash]) -> Hash {
    match leaves {
        [] => hash(&[]),
        [leaf] => *leaf,
        _ => {
            let (left, right) = leaves.split_at(leaves.len().next_power_of_two() / 2);
            hash(&[&[1], &root(left), &root(right)])
        }
    }
}
