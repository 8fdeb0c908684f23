//! The Merkle tree of a log that grows: RFC 9162, section 2.1.

use crate::{Hash, hash};

/// What a hash of a leaf, and of a node, begins with.
const LEAF: &[u8] = &[0];
const NODE: &[u8] = &[1];

/// The hash of an entry's leaf.
#[must_use]
pub fn leaf(entry: &[u8]) -> Hash {
    hash(&[LEAF, entry])
}

fn node(left: &Hash, right: &Hash) -> Hash {
    hash(&[NODE, left, right])
}

/// The roots of the complete subtrees of a tree, largest first: all that is needed to append a leaf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    size: u64,
    nodes: Vec<Hash>,
}

impl Frontier {
    /// Reads the frontier of a tree of `size` leaves; `None` if these are not its nodes.
    #[must_use]
    pub fn of(size: u64, nodes: &str) -> Option<Self> {
        let bytes = hex::decode(nodes).ok()?;
        let (nodes, rest) = bytes.as_chunks::<32>();
        let fits = rest.is_empty() && nodes.len() == size.count_ones() as usize;
        fits.then(|| Self { size, nodes: nodes.to_vec() })
    }

    /// The number of leaves.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Its nodes in hexadecimal digits.
    #[must_use]
    pub fn nodes(&self) -> String {
        hex::encode(self.nodes.concat())
    }

    /// Appends a leaf.
    pub fn push(&mut self, leaf: Hash) {
        self.nodes.push(leaf);
        for _ in 0..self.size.trailing_ones() {
            if let (Some(right), Some(left)) = (self.nodes.pop(), self.nodes.pop()) {
                self.nodes.push(node(&left, &right));
            }
        }
        self.size += 1;
    }

    /// The root of the tree.
    #[must_use]
    pub fn root(&self) -> Hash {
        let nodes = self.nodes.iter().rev().copied();
        nodes.reduce(|right, left| node(&left, &right)).unwrap_or_else(|| hash(&[]))
    }

    /// The root of a complete subtree that begins at the leaf `from` and has `length` leaves, if it is one of the nodes.
    fn subtree(&self, from: u64, length: u64) -> Option<Hash> {
        let mut begins = 0;
        let bits = (0..64).rev().map(|bit| 1_u64 << bit).filter(|bit| self.size & bit != 0);
        for (has, node) in bits.zip(&self.nodes) {
            if (begins, has) == (from, length) {
                return Some(*node);
            }
            begins += has;
        }
        None
    }
}

/// The path from the leaf `index` of `leaves` to the root of the tree that has `before` in front of them: an inclusion
/// proof of RFC 9162, section 2.1.3.1. `None` if there is no such leaf.
#[must_use]
pub fn path(before: &Frontier, leaves: &[Hash], index: usize) -> Option<Vec<Hash>> {
    let size = before.size + leaves.len() as u64;
    let wanted = before.size + index as u64;
    let (mut from, mut to) = (0, size);
    if wanted >= size {
        return None;
    }
    let mut path = Vec::new();
    while to - from > 1 {
        let half = from + (to - from).next_power_of_two() / 2;
        let (kept, other) =
            if wanted < half { ((from, half), (half, to)) } else { ((half, to), (from, half)) };
        path.push(root_of(before, leaves, other)?);
        (from, to) = kept;
    }
    path.reverse();
    Some(path)
}

/// The root over the leaves `from..to` of the tree.
fn root_of(before: &Frontier, leaves: &[Hash], (from, to): (u64, u64)) -> Option<Hash> {
    if let Some(node) = before.subtree(from, to - from) {
        return Some(node);
    }
    if to - from == 1 {
        let index = usize::try_from(from.checked_sub(before.size)?).ok()?;
        return leaves.get(index).copied();
    }
    let half = from + (to - from).next_power_of_two() / 2;
    let left = root_of(before, leaves, (from, half))?;
    Some(node(&left, &root_of(before, leaves, (half, to))?))
}
