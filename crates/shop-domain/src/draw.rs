//! A sale that is drawn: its steps, and the entries of buyers.

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

word_enum! {
    /// What the published proof of a draw shows.
    DrawProof {
        /// The places follow from a public beacon.
        Public = "public",
        /// Nothing: the shop made the value.
        Local = "local",
        /// Nothing: the draw was made before proofs had this format.
        None = "none",
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

/// The most buyers who can be drawn as one.
pub const PARTY_MAX: u8 = 4;

/// What a new draw promises.
#[derive(Clone, Debug)]
pub struct NewDraw {
    pub closes_at: OffsetDateTime,
    pub beacon: DrawBeacon,
    /// The round of the beacon, which comes after the close.
    pub round: u64,
    /// The public key of the shop, in hexadecimal digits.
    pub shop_key: String,
    /// The most buyers who are drawn as one, at most [`PARTY_MAX`].
    pub party_max: u8,
}

/// With whom a buyer enters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartyChoice {
    /// As the entry is; alone, if it is new.
    Unchanged,
    /// With friends who will join by the key of the party.
    New,
    /// With the friends who have this key.
    Of(String),
}

/// An entry of a buyer in a draw.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DrawEntry {
    /// Its public id.
    pub entry: String,
    /// The friends who are drawn together with this entry; its own id for an entry that is alone.
    pub party: String,
    /// The entries of the party, with this one.
    pub members: u32,
    pub entered_at: OffsetDateTime,
    /// Its place from 1, once it is drawn.
    pub place: Option<u32>,
}

impl DrawEntry {
    /// Returns whether it is drawn with friends, or waits for them.
    #[must_use]
    pub fn is_in_party(&self) -> bool {
        self.party != self.entry
    }
}
