//! The rules of a draw: the text that was published before it opened.

use crate::beacon::Beacon;
use crate::{Hash, hash};

/// What the rules say of the round.
pub(crate) struct Rules {
    beacon: Beacon,
    round: u64,
    /// The most entries of one party.
    pub(crate) party_max: usize,
}

impl Rules {
    /// Reads the lines of the rules; `None` for any other text. The first version has no parties.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let lines: Vec<&str> = text.strip_suffix('\n')?.split('\n').collect();
        let (item, closes, beacon, round, party_max) = match lines[..] {
            ["draw-rules 1", item, closes, beacon, round] => (item, closes, beacon, round, 1),
            ["draw-rules 2", item, closes, beacon, round, party] => {
                (item, closes, beacon, round, party.strip_prefix("party ")?.parse().ok()?)
            }
            _ => return None,
        };
        item.strip_prefix("item ")?.parse::<u64>().ok()?;
        closes.strip_prefix("closes ")?;
        let (name, key) = beacon.strip_prefix("beacon ")?.split_once(' ')?;
        let round = round.strip_prefix("round ")?.parse().ok()?;
        Some(Self { beacon: Beacon::parse(name, key)?, round, party_max })
    }

    /// The value of the round, if this is its signature.
    pub(crate) fn beacon_value(&self, signature: &[u8]) -> Option<Hash> {
        self.beacon.has_signed(self.round, signature).then(|| hash(&[signature]))
    }

    /// The time of the round, in seconds since 1970.
    pub(crate) fn round_time(&self) -> u64 {
        self.beacon.time_of(self.round)
    }
}
