//! The list of entries: its root, its order by chance, and the parties in it.

use super::form::{bytes, number};
use super::{Entry, Hash, hash, tree};

/// An entry as bytes.
pub(crate) struct Leaf {
    pub(crate) id: [u8; 16],
    party: [u8; 16],
    pub(crate) place: u64,
}

/// Reads the line of an entry.
pub(crate) fn entry(line: &str) -> Option<Entry> {
    let mut words = line.split(' ');
    let id = words.next().filter(|id| bytes::<16>(id).is_some())?;
    let party = words.next().filter(|party| bytes::<16>(party).is_some())?;
    let place = number(words.next()?)?;
    let is_over = words.next().is_none();
    is_over.then(|| Entry { id: id.to_owned(), party: party.to_owned(), place })
}

/// `None`: an entry was not read from a text, and its ids are none.
pub(crate) fn leaves(entries: &[Entry]) -> Option<Vec<Leaf>> {
    let leaf = |entry: &Entry| {
        let id = bytes(&entry.id)?;
        let party = bytes(&entry.party)?;
        Some(Leaf { id, party, place: entry.place })
    };
    entries.iter().map(leaf).collect()
}

pub(crate) fn root(leaves: &[Leaf]) -> Hash {
    let hashes: Vec<Hash> =
        leaves.iter().map(|leaf| hash(&[&[0], &leaf.id, &leaf.party])).collect();
    tree::root(&hashes)
}

/// Puts the leaves in the order of their places.
pub(crate) fn shuffle(leaves: &mut [Leaf], key: &Hash) {
    leaves.sort_by_cached_key(|leaf| (hash(&[key, &leaf.party]), leaf.id));
}

/// Whether no party of the shuffled leaves has too many entries, and none of several has the id of one of them.
pub(crate) fn parties_fit(leaves: &[Leaf], party_max: u64) -> bool {
    leaves.chunk_by(|one, next| one.party == next.party).all(|party| {
        let is_alone = party.len() == 1;
        let is_of_one = party.iter().any(|leaf| leaf.id == leaf.party);
        party.len() as u64 <= party_max && (is_alone || !is_of_one)
    })
}
