//! A sale that is drawn: its steps, and the entries of buyers.

use std::fmt;

use time::OffsetDateTime;

use super::SaleWindow;
use super::item::word_enum;

word_enum! {
    /// The source of the public value that a draw depends on.
    DrawBeacon {
        /// The network `quicknet` of drand.
        Drand = "drand-quicknet",
        /// A key of the shop.
        Local = "local",
    }
}

word_enum! {
    /// The state of a draw for a buyer.
    DrawState {
        /// Nobody can enter yet.
        Upcoming = "upcoming",
        /// Buyers can enter.
        Open = "open",
        /// Nobody can enter any more, and the places are not known yet.
        Closed = "closed",
        /// Each entry has its place.
        Drawn = "drawn",
    }
}

/// The draw of an item, as a purchase sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemDraw {
    /// The end of the time in which buyers can enter.
    pub closes_at: OffsetDateTime,
    /// Whether each entry has its place. Then units without an entry are sold as in any sale.
    pub is_drawn: bool,
}

impl ItemDraw {
    /// Returns whether the close lies within the sale, so that buyers can enter before it and buy after it.
    #[must_use]
    pub fn fits(&self, window: SaleWindow) -> bool {
        window.starts_at() < self.closes_at && self.closes_at < window.ends_at()
    }
}

/// What a new draw promises.
#[derive(Clone)]
pub struct NewDraw {
    pub closes_at: OffsetDateTime,
    pub beacon: DrawBeacon,
    /// The round of the beacon, which comes after the close.
    pub round: u64,
    /// The secret.
    pub seed: [u8; 32],
}

impl fmt::Debug for NewDraw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { closes_at, beacon, round, .. } = self;
        write!(formatter, "NewDraw({closes_at}, {beacon:?}, round {round})")
    }
}

/// An entry of a buyer in a draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawEntry {
    /// Its public id.
    pub entry: String,
    pub entered_at: OffsetDateTime,
    /// Its place from 1, once it is drawn.
    pub place: Option<u32>,
}
