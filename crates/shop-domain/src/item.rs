//! An item on sale: the time window of its sale, its draw, its edits, and its states.

use time::OffsetDateTime;

use super::product::{NewVariant, Variant};
use super::{Cents, Currency, ItemId, LimitGroupId, Refusal};

/// An item as a buyer or a strategy sees it, without its stock (which lives in the ledger and
/// changes with every order).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Item {
    pub id: ItemId,
    pub name: String,
    /// A few sentences about it.
    pub description: String,
    /// The address of a picture, if there is one.
    pub image_url: Option<String>,
    /// The price of one unit.
    pub price: Cents,
    /// The currency of the price.
    pub currency: Currency,
    /// The start and the end of the sale.
    pub window: SaleWindow,
    /// The number of units that one buyer may hold or have bought.
    pub per_buyer_limit: u32,
    /// After how many holds that expired unpaid a buyer may not hold again; 0: no limit.
    pub unpaid_max: u32,
    /// How long an unpaid order keeps its stock, in seconds.
    pub hold_seconds: u32,
    /// The strategy that `default` stands for.
    pub strategy: String,
    /// Whether it belongs to the shop or to the lab.
    pub kind: ItemKind,
    /// Whether the arbiter is on.
    pub arbiter: ArbiterMode,
    /// Whether the operator has paused it.
    pub paused: bool,
    /// Whether buyers need a ticket of the waiting room.
    pub waiting_room: bool,
    /// For how many seconds an offer holds a unit for a buyer who waits; 0: there is no waiting list.
    pub offer_seconds: u32,
    /// By how many seconds at most a buyer may extend a hold, once; 0: not at all.
    pub extend_seconds: u32,
    /// For how many seconds after the payment a buyer may give an order back; 0: not at all.
    pub return_seconds: u32,
    /// The group of items that share a limit, if it is in one.
    pub limit_group: Option<LimitGroup>,
    /// What it is among the items of its product, if it has one.
    pub variant: Option<Variant>,
    /// Its draw, if it has one.
    pub draw: Option<ItemDraw>,
    /// Whether orders of it may wait in a queue, whatever its strategy is now.
    pub has_queue: bool,
    /// Counts the edits of this row: the item's entity tag.
    pub revision: u64,
}

/// A group of items of which one buyer may have a number of units together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LimitGroup {
    pub id: LimitGroupId,
    pub name: String,
    /// The number of units of all its items together.
    pub per_buyer_limit: u32,
}

impl Item {
    /// The longest offer to a buyer who waits: a day.
    pub const OFFER_SECONDS_MAX: u32 = 86_400;
    /// The most units that one buyer may be allowed.
    pub const PER_BUYER_LIMIT_MAX: u32 = 1_000_000;
    /// The largest `unpaid_max`.
    pub const UNPAID_MAX_MAX: u32 = 1_000;
    /// The default of `unpaid_max` for real sales. Lab items have none: their buyers do not pay.
    pub const UNPAID_MAX_DEFAULT: u32 = 2;
    /// The longest hold, and the longest extension of one: a day.
    pub const HOLD_SECONDS_MAX: u32 = 86_400;
    /// The longest time for giving a paid order back: a year.
    pub const RETURN_SECONDS_MAX: u32 = 31_536_000;
    /// The default of `extend_seconds`.
    pub const EXTEND_SECONDS_DEFAULT: u32 = 120;
    /// The largest stock of one item.
    pub const STOCK_MAX: i64 = 1_000_000_000;
    /// The longest name, in characters: that of a product of Shopify or Magento.
    pub const NAME_LENGTH_MAX: usize = 255;
    /// The longest description, in characters.
    pub const DESCRIPTION_LENGTH_MAX: usize = 4_000;

    /// Whether anything is sold at `now`.
    ///
    /// # Errors
    /// Why nothing is.
    pub fn check_open(&self, now: OffsetDateTime) -> Result<(), Refusal> {
        self.window.check_open(now, self.paused)
    }

    /// Whether its units are drawn, and the places are not known yet.
    pub fn awaits_draw(&self) -> bool {
        self.draw.is_some_and(|draw| !draw.is_drawn)
    }

    /// The state at `now` when `available` units are left.
    pub fn state(&self, available: i64, now: OffsetDateTime) -> ItemState {
        match self.window.phase(now) {
            Phase::Upcoming => ItemState::Upcoming,
            Phase::Ended => ItemState::Ended,
            Phase::Open if available > 0 => ItemState::Open,
            Phase::Open => ItemState::SoldOut,
        }
    }
}

/// A half-open interval of time: open from `starts_at` until just before `ends_at`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SaleWindow {
    starts_at: OffsetDateTime,
    ends_at: OffsetDateTime,
}

/// The phase of a sale at an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Before the start.
    Upcoming,
    /// Within the window.
    Open,
    /// At the end or after it.
    Ended,
}

impl SaleWindow {
    /// The last year that a schedule may name: what MySQL's DATETIME and RFC 3339 both hold.
    pub const YEAR_MAX: i32 = 9999;

    /// Takes a start and an end; `None` unless the start is before the end and both lie between
    /// the years 1970 and [`SaleWindow::YEAR_MAX`].
    pub fn new(starts_at: OffsetDateTime, ends_at: OffsetDateTime) -> Option<Self> {
        let years = 1970..=Self::YEAR_MAX;
        let in_range = years.contains(&starts_at.year()) && years.contains(&ends_at.year());
        (in_range && starts_at < ends_at).then_some(Self { starts_at, ends_at })
    }

    /// The phase of the sale at `now`.
    pub fn phase(&self, now: OffsetDateTime) -> Phase {
        if now < self.starts_at {
            Phase::Upcoming
        } else if now < self.ends_at {
            Phase::Open
        } else {
            Phase::Ended
        }
    }

    /// Whether a sale that is paused, or not, is open at `now`.
    ///
    /// # Errors
    /// Why it is not.
    pub fn check_open(&self, now: OffsetDateTime, is_paused: bool) -> Result<(), Refusal> {
        match self.phase(now) {
            Phase::Upcoming => Err(Refusal::SaleNotStarted { starts_at: self.starts_at }),
            Phase::Ended => Err(Refusal::SaleEnded),
            Phase::Open if is_paused => Err(Refusal::SalePaused),
            Phase::Open => Ok(()),
        }
    }

    /// The first instant at which it is open.
    pub fn starts_at(&self) -> OffsetDateTime {
        self.starts_at
    }

    /// The first instant at which it is over.
    pub fn ends_at(&self) -> OffsetDateTime {
        self.ends_at
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
    pub fn fits(&self, window: SaleWindow) -> bool {
        window.starts_at() < self.closes_at && self.closes_at < window.ends_at()
    }
}

/// The fields of an item that is created; the ledger adds the id and the revision.
#[derive(Clone, Debug)]
pub struct NewItem {
    pub name: String,
    pub description: String,
    pub image_url: Option<String>,
    pub price: Cents,
    pub currency: Currency,
    /// Units at the start.
    pub stock: i64,
    pub window: SaleWindow,
    pub per_buyer_limit: u32,
    pub unpaid_max: u32,
    pub hold_seconds: u32,
    pub strategy: String,
    pub kind: ItemKind,
    pub arbiter: ArbiterMode,
    pub waiting_room: bool,
    pub offer_seconds: u32,
    pub extend_seconds: u32,
    pub return_seconds: u32,
    /// The group that it belongs to from the start.
    pub limit_group: Option<LimitGroupId>,
    /// What it is among the items of a product.
    pub variant: Option<NewVariant>,
    /// Its draw, if it has one.
    pub draw: Option<NewDraw>,
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

/// The changes of an item by an operator; `None` leaves a field as it is.
#[derive(Clone, Debug, Default)]
pub struct ItemEdit {
    /// New start.
    pub starts_at: Option<OffsetDateTime>,
    /// New end.
    pub ends_at: Option<OffsetDateTime>,
    /// Another currency, while there are no orders.
    pub currency: Option<Currency>,
    /// Pause the sale, or let it go on.
    pub paused: Option<bool>,
    /// Open or close the waiting room.
    pub waiting_room: Option<bool>,
    /// New number of holds that may expire unpaid.
    pub unpaid_max: Option<u32>,
    /// New length of offers; 0 ends the waiting list.
    pub offer_seconds: Option<u32>,
    /// New longest extension of holds.
    pub extend_seconds: Option<u32>,
    /// New time for giving paid orders back.
    pub return_seconds: Option<u32>,
    /// Another group (`Some(Some)`), or none (`Some(None)`).
    pub limit_group: Option<Option<LimitGroupId>>,
    /// Another product or other options (`Some(Some)`), or no product (`Some(None)`).
    pub variant: Option<Option<NewVariant>>,
    /// New meaning of `default`.
    pub strategy: Option<String>,
    /// Units to add to the sale; below zero, units to take out of it.
    pub stock_delta: Option<i64>,
    /// The revision that the operator saw; the edit is refused when the item has another one now.
    pub revision_seen: Option<u64>,
}

/// An enum that is stored and sent as a lower-case word.
#[macro_export]
macro_rules! word_enum {
    ($(#[$doc:meta])* $name:ident { $($(#[$variant_doc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$variant_doc])* $variant),+ }

        impl $name {
            /// Every value, in the order of its declaration.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The words of all values.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// The word in tables and in JSON.
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Reads the word; `None` for any other.
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}
pub use word_enum;

word_enum! {
    /// The state of a sale for a buyer.
    ItemState {
        /// The sale has not started.
        Upcoming = "upcoming",
        /// The sale has started, and units are left.
        Open = "open",
        /// The sale runs and nothing is left.
        SoldOut = "sold_out",
        /// The sale is over.
        Ended = "ended",
    }
}

word_enum! {
    /// Whether an item belongs to the shop or to the lab.
    ItemKind {
        /// A real sale: safe strategies only, arbiter always on, shown in the shop.
        Shop = "shop",
        /// A throw-away item of the lab or a load test.
        Lab = "lab",
    }
}

word_enum! {
    /// Whether the arbiter's conditional transaction follows the gate.
    ArbiterMode {
        /// The ledger decides on every order: never oversold, whatever the gate does.
        On = "on",
        /// The gate alone decides, with the textbook write, so that a broken gate shows (lab items
        /// only).
        Off = "off",
    }
}

word_enum! {
    /// The source of the public value that a draw depends on.
    DrawBeacon {
        /// The network `quicknet` of drand.
        Drand = "drand-quicknet",
        /// A key of the shop.
        Local = "local",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use time::Duration;
    use time::macros::datetime;

    #[test]
    fn the_start_is_inside_and_the_end_is_outside() {
        let window =
            SaleWindow::new(datetime!(2026-11-11 00:00 UTC), datetime!(2026-11-12 00:00 UTC))
                .expect("start before end");
        assert_eq!(window.phase(datetime!(2026-11-10 23:59:59.999 UTC)), Phase::Upcoming);
        assert_eq!(window.phase(datetime!(2026-11-11 00:00 UTC)), Phase::Open);
        assert_eq!(window.phase(datetime!(2026-11-12 00:00 UTC)), Phase::Ended);
    }

    #[test]
    fn an_empty_or_reversed_window_is_refused() {
        let instant = datetime!(2026-11-11 00:00 UTC);
        assert_eq!(SaleWindow::new(instant, instant), None);
        assert_eq!(SaleWindow::new(instant, instant - Duration::SECOND), None);
    }
}
