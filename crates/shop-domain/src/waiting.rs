//! A buyer's place in the waiting list of an item.

use time::OffsetDateTime;

use super::item::word_enum;
use super::{ItemId, OrderId, UserId};

word_enum! {
    /// The status of a place in a waiting list.
    WaitingStatus {
        /// In the line.
        Waiting = "waiting",
        /// A unit is held for the buyer, for a while.
        Offered = "offered",
        /// The buyer has bought the unit.
        Accepted = "accepted",
        /// The buyer did not buy it in time.
        Lapsed = "lapsed",
        /// The buyer has left the line, or did not want the unit.
        Left = "left",
        /// The sale was paused or is over.
        Ended = "ended",
    }
}

/// A place in a waiting list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its number: of two places in one list, the smaller one is served first.
    pub number: i64,
    pub item: ItemId,
    pub buyer: UserId,
    pub status: WaitingStatus,
    /// When the buyer joined. Times are by the database's clock.
    pub joined_at: OffsetDateTime,
    /// When a unit was offered.
    pub offered_at: Option<OffsetDateTime>,
    /// The end of the offer.
    pub offer_expires_at: Option<OffsetDateTime>,
    /// The order that the offer became.
    pub order: Option<OrderId>,
}
