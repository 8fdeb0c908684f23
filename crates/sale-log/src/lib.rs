//! The public log of a sale: its entries, their Merkle tree, and its signed heads; no I/O.
//!
//! An entry is a line of text. It names orders and buyers by salted hashes alone. The tree over the entries is the one of
//! RFC 9162, section 2.1 (RFC 6962 has the same). A head says how large the log is, what its root is, and what the entries
//! add up to; its signature is Ed25519 (RFC 8032). `docs/receipts.md` describes all bytes, and the crate `verify` checks
//! them with code of its own.

mod entry;
mod head;
mod tree;

use sha2::{Digest, Sha256};

pub use entry::{Salt, Sums};
pub use head::{Head, PublishedKey, SigningKey, SigningKeys};
pub use tree::{Frontier, leaf, path};

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// The hash of several parts, one after the other.
fn hash(parts: &[&[u8]]) -> Hash {
    let mut hash = Sha256::new();
    parts.iter().for_each(|part| hash.update(part));
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;
