//! A sale that is drawn.

use time::OffsetDateTime;

use super::item::word_enum;
use super::{ItemId, SaleWindow};

word_enum! {
    /// The source of the public value that a draw depends on.
    DrawBeacon {
        /// The network `quicknet` of drand.
        Drand = "drand-quicknet",
        /// A key of the shop.
        Local = "local",
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
#[derive(Clone, Debug)]
pub struct NewDraw {
    pub closes_at: OffsetDateTime,
    pub beacon: DrawBeacon,
    /// The round of the beacon, which comes after the close.
    pub round: u64,
    /// The public key of the shop, in hexadecimal digits.
    pub shop_key: String,
    /// The most buyers who are drawn as one.
    pub party_max: u8,
    /// Writes the rules as they are published, for this item and these units for sale; `None` for rules that no checker
    /// would take.
    pub rules: fn(&Self, ItemId, i64) -> Option<String>,
}
