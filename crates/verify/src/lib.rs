//! Checks what a shop has published of a draw: its places must follow from rules, list and a public value.
//!
//! It is written from the description in `docs/draw.md`, and shares no code with the service. `static/js/verify` is the
//! same in JavaScript; both find the same [`Fault`]s in `vectors.json`.

mod beacon;
mod form;
mod key;
mod list;
mod texts;
mod tree;

use std::fmt;
use std::io::BufRead;

use sha2::{Digest, Sha256};

use form::Lines;
use texts::{Head, Promise, Rules};

type Hash = [u8; 32];

/// All that a shop has published of a draw that is over.
#[derive(Clone, Debug)]
pub struct Proof {
    rules: Rules,
    head: Head,
    /// The signature of the round.
    beacon: Vec<u8>,
    pub entries: Vec<Entry>,
}

/// An entry with its place. Its ids are hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub id: String,
    pub party: String,
    pub place: u64,
}

/// What the checker compares the proof with, beside the proof itself: texts that were kept.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// The rules, and the head behind them if it was known.
    pub announced: Option<&'a str>,
    /// The promise of an entry.
    pub promise: Option<&'a str>,
}

/// The kind of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fault {
    /// A text is not of the one form that it can have.
    Unreadable,
    /// The round was over when entries were closed.
    Round,
    /// The head is not the shop's, or belongs to other rules.
    Head,
    /// The list is from before the close, or not from before the round.
    Late,
    /// The signature is not that of the round.
    Beacon,
    /// The list is not that of the head.
    Entries,
    /// More entries are drawn as one than the rules say.
    Parties,
    /// The places are not those of the shuffle.
    Places,
    /// The proof does not begin with the announcement.
    Announcement,
    /// The promise is not the shop's, or belongs to other rules.
    Promise,
    /// The entry that was promised is not in the list.
    MissingEntry,
    /// The entry that was promised has another party.
    Party,
    /// The entry was promised after the list was made.
    Entered,
}

impl Fault {
    /// Its name, as `docs/draw.md` has it.
    pub fn name(self) -> &'static str {
        self.words()[0]
    }

    /// Its name and a sentence for people.
    fn words(self) -> [&'static str; 2] {
        match self {
            Self::Unreadable => ["unreadable", "a text cannot be read"],
            Self::Round => ["round", "the round is not after the close"],
            Self::Head => {
                ["head", "the list is not signed with the key of the rules, or is of other rules"]
            }
            Self::Late => ["late", "the list was made before the close, or after the round"],
            Self::Beacon => ["beacon", "the value is not that of the round"],
            Self::Entries => ["entries", "the entries are not those of the signed list"],
            Self::Parties => ["parties", "more entries are drawn as one than the rules say"],
            Self::Places => ["places", "the places are not those of the shuffle"],
            Self::Announcement => {
                ["announcement", "the draw differs from what was announced earlier"]
            }
            Self::Promise => [
                "promise",
                "the promise is not signed with the key of the rules, or is of other rules",
            ],
            Self::MissingEntry => {
                ["missing_entry", "the entry that was promised is not in the list"]
            }
            Self::Party => ["party", "the entry that was promised is drawn with another party"],
            Self::Entered => ["entered", "the entry was promised after the time of the list"],
        }
    }
}

/// What a proof says of its draw, for people to compare.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    pub item: u64,
    pub units: u64,
    /// In microseconds since 1970.
    pub closes: u64,
    /// The hash of the rules.
    pub rules: String,
    pub entries: u64,
    pub root: String,
    /// In microseconds since 1970.
    pub listed: u64,
    pub round: u64,
    /// The key of the shop.
    pub shop: String,
    /// The entry of a promise.
    pub entry: Option<Entry>,
    /// The text that was announced has the head, too: it shows more than the rules alone.
    pub is_list_kept: bool,
}

impl Proof {
    /// Whether the value of the round is known to all. Otherwise the shop made it, and the rest proves nothing.
    pub fn is_public(&self) -> bool {
        self.rules.chain.is_public()
    }

    /// What the proof says. The entry is that of the promise in `known`, if the list has it.
    pub fn facts(&self, known: Known<'_>) -> Facts {
        let promise = known.promise.and_then(|text| texts::promise(text.as_bytes()).ok());
        let is_mine = |entry: &&Entry| {
            promise.as_ref().is_some_and(|promise| hex::encode(promise.entry) == entry.id)
        };
        let announced = known.announced.and_then(|text| texts::announcement(text.as_bytes()).ok());
        let rules = &self.rules;
        let head = &self.head;
        Facts {
            item: rules.item,
            units: rules.units,
            closes: rules.closes,
            rules: hex::encode(rules.hash()),
            entries: head.entries,
            root: hex::encode(head.root),
            listed: head.listed,
            round: rules.round,
            shop: hex::encode(rules.shop),
            entry: self.entries.iter().find(is_mine).cloned(),
            is_list_kept: announced.is_some_and(|announced| announced.1.is_some()),
        }
    }
}

/// Reads a proof, in its one strict form.
///
/// # Errors
/// A sentence with the number of the line that is not as it must be.
pub fn read(text: impl BufRead) -> Result<Proof, String> {
    let mut lines = Lines::new(text);
    let rules = texts::rules(&mut lines)?;
    let head = texts::head(&mut lines)?;
    let beacon = lines.value("beacon")?;
    let beacon = rules.chain.signature(&beacon).ok_or_else(|| lines.fault("no signature"))?;
    let mut entries = Vec::new();
    while lines.advance()? {
        entries.push(list::entry(lines.line()).ok_or_else(|| lines.fault("no entry"))?);
    }
    Ok(Proof { rules, head, beacon, entries })
}

/// Splits the file of the item's page into the announcement, if there is one, and the promise.
pub fn saved(text: &str) -> Known<'_> {
    let start = text.find(texts::PROMISE_START).unwrap_or_default();
    let parts = text.split_at(start);
    Known { announced: Some(parts.0).filter(|text| !text.is_empty()), promise: Some(parts.1) }
}

/// Checks a proof, and returns every fault with a sentence about it. No fault: the places are right.
pub fn check(proof: &Proof, known: Known<'_>) -> Vec<(Fault, String)> {
    let announced = known.announced.map(|text| texts::announcement(text.as_bytes())).transpose();
    let promise = known.promise.map(|text| texts::promise(text.as_bytes())).transpose();
    let unreadable =
        |kind: &str, error: &str| vec![(Fault::Unreadable, format!("{kind}: {error}"))];
    let announced = match announced {
        Ok(announced) => announced,
        Err(error) => return unreadable("the announcement", &error),
    };
    let promise = match promise {
        Ok(promise) => promise,
        Err(error) => return unreadable("the promise", &error),
    };
    let Some(leaves) = list::leaves(&proof.entries) else {
        return unreadable("the list", "an entry has no id");
    };
    let mut faults = Faults::default();
    proof.check_signed(&mut faults);
    proof.check_list(leaves, &mut faults);
    if let Some((rules, head)) = announced {
        let is_other_head = head.is_some_and(|head| head != proof.head);
        faults.note(Fault::Announcement, rules != proof.rules || is_other_head);
    }
    if let Some(promise) = promise {
        proof.check_promise(&promise, &mut faults);
    }
    faults.0.into_iter().map(|fault| (fault, fault.words()[1].to_owned())).collect()
}

/// The faults that were found, in their order.
#[derive(Default)]
struct Faults(Vec<Fault>);

impl Faults {
    fn note(&mut self, fault: Fault, is_found: bool) {
        self.0.extend(is_found.then_some(fault));
    }
}

impl Proof {
    /// What follows from rules, head and value.
    fn check_signed(&self, faults: &mut Faults) {
        let rules = &self.rules;
        let head = &self.head;
        let known_at = rules.chain.time_of(rules.round);
        let listed_at = u128::from(head.listed);
        let is_of_rules = head.rules == rules.hash() && head.item == rules.item;
        faults.note(Fault::Round, known_at <= u128::from(rules.closes));
        faults.note(Fault::Head, !(is_of_rules && key::has_signed(&rules.shop, &head.signed)));
        faults.note(Fault::Late, head.listed < rules.closes || listed_at >= known_at);
        faults.note(Fault::Beacon, !rules.has_value(&self.beacon));
    }

    /// What follows from the list.
    fn check_list(&self, mut leaves: Vec<list::Leaf>, faults: &mut Faults) {
        let head = &self.head;
        let is_rising = leaves.is_sorted_by(|one, next| one.id < next.id);
        let is_whole = leaves.len() as u64 == head.entries && list::root(&leaves) == head.root;
        faults.note(Fault::Entries, !(is_rising && is_whole));
        let key = hash(&[b"seckill draw key 3\n", &self.beacon, &head.root, &self.rules.hash()]);
        list::shuffle(&mut leaves, &key);
        faults.note(Fault::Parties, !list::parties_fit(&leaves, self.rules.party_max));
        let is_placed = (1..).zip(&leaves).all(|(place, leaf)| leaf.place == place);
        faults.note(Fault::Places, !is_placed);
    }

    fn check_promise(&self, promise: &Promise, faults: &mut Faults) {
        let rules = &self.rules;
        let is_of_rules = promise.rules == rules.hash() && promise.item == rules.item;
        if !(is_of_rules && key::has_signed(&rules.shop, &promise.signed)) {
            return faults.note(Fault::Promise, true);
        }
        let id = hex::encode(promise.entry);
        let party = hex::encode(promise.party);
        let mut listed = self.entries.iter().filter(|entry| entry.id == id).peekable();
        faults.note(Fault::MissingEntry, listed.peek().is_none());
        faults.note(Fault::Party, listed.any(|entry| entry.party != party));
        faults.note(Fault::Entered, promise.entered > self.head.listed);
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

fn hash(parts: &[&[u8]]) -> Hash {
    #[cfg(test)]
    tests::count_bytes(parts.iter().map(|part| part.len()).sum());
    let hash = parts.iter().fold(Sha256::new(), |hash, part| hash.chain_update(part));
    hash.finalize().into()
}

#[cfg(test)]
mod tests;
