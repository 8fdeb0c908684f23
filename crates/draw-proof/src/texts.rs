//! The texts: rules, the head of the list, and the promise of an entry. They are hashed and signed byte by byte.

use crate::{Beacon, Hash, Micros, PublicKey, ShopKey};

/// The largest number of a text: what every language has exactly.
const NUMBER_MAX: u64 = 9_007_199_254_740_991;
/// The most entries of one party that rules can name.
const PARTY_MAX: u8 = 4;

/// What a draw promises before it opens.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub shop: PublicKey,
    pub item: u64,
    /// Units for sale when the draw is announced.
    pub units: u64,
    /// The most entries of one party.
    pub party_max: u8,
    /// The close of entries.
    pub closes: Micros,
    pub beacon: Beacon,
    pub round: u64,
}

impl Rules {
    /// The text; `None` for rules that no checker would take: a round that is not after the close, or a number that is
    /// out of range.
    pub fn text(&self) -> Option<String> {
        let Self { shop, item, units, party_max, closes, beacon, round } = *self;
        let round_time = beacon.time_of(round);
        let is_sound = round_time > closes
            && (1..=PARTY_MAX).contains(&party_max)
            && item > 0
            && round > 0
            && [item, units, round, round_time].iter().all(|number| *number <= NUMBER_MAX);
        let chain = beacon.chain();
        is_sound.then(|| {
            format!(
                "seckill draw rules 3\nshop {shop}\nitem {item}\nunits {units}\nparty {party_max}\ncloses {closes}\n\
                 chain {chain}\nround {round}\n"
            )
        })
    }
}

/// What is published of a list before the round.
#[derive(Clone, Copy, Debug)]
pub struct Head {
    /// The hash of the rules.
    pub rules: Hash,
    pub item: u64,
    /// The number of entries.
    pub entries: u64,
    pub root: Hash,
    /// When the list was made.
    pub listed: Micros,
}

impl Head {
    /// The text with the signature of the shop.
    pub fn signed(&self, key: &ShopKey) -> String {
        let Self { rules, item, entries, root, listed } = *self;
        let rules = hex::encode(rules);
        let root = hex::encode(root);
        key.signed(&format!(
            "seckill draw head 3\nrules {rules}\nitem {item}\nentries {entries}\nroot {root}\nlisted {listed}\n"
        ))
    }
}

/// The shop's signed promise to the buyer of an entry.
#[derive(Clone, Copy, Debug)]
pub struct Promise<'a> {
    /// The hash of the rules.
    pub rules: Hash,
    pub item: u64,
    /// The id of the entry, in hexadecimal digits.
    pub entry: &'a str,
    /// Its party, in hexadecimal digits.
    pub party: &'a str,
    pub entered: Micros,
}

impl Promise<'_> {
    /// The text with the signature of the shop.
    pub fn signed(&self, key: &ShopKey) -> String {
        let Self { rules, item, entry, party, entered } = *self;
        let rules = hex::encode(rules);
        key.signed(&format!(
            "seckill draw promise 3\nrules {rules}\nitem {item}\nentry {entry}\nparty {party}\nentered {entered}\n"
        ))
    }
}

/// The line of a proof with the signature of the round, which is in hexadecimal digits.
pub fn beacon_line(signature: &str) -> String {
    format!("beacon {signature}\n")
}

/// The line of a proof with an entry. Ids are in hexadecimal digits.
pub fn entry_line(entry: &str, party: &str, place: u32) -> String {
    format!("{entry} {party} {place}\n")
}
