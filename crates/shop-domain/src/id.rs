//! Ids of users, items and orders, and the key of a request.

use std::fmt;
use std::sync::Arc;

use time::OffsetDateTime;
use uuid::Uuid;
use uuid::fmt::Hyphenated;

/// Declares a positive integer id for paths and tables. New ids are made here, and not by the database.
macro_rules! positive_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Takes a positive number; `None` for zero and below.
            pub fn new(id: i64) -> Option<Self> {
                (id > 0).then_some(Self(id))
            }

            /// Reads plain decimal digits, as in a path; `None` for anything else.
            pub fn parse(text: &str) -> Option<Self> {
                let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
                plain.then(|| text.parse().ok()).flatten().and_then(Self::new)
            }

            /// Makes a new id from this machine's clock and random bits. It does not come again, and JavaScript
            /// counts it exactly.
            pub fn generate() -> Self {
                Self(number_of_now())
            }

            /// Makes a new id like [`Self::generate`], and above another one: of ids that are made in one
            /// millisecond, the later is the higher.
            #[must_use]
            pub fn generate_after(self) -> Self {
                Self(number_of_now().max(self.0.saturating_add(1)))
            }

            /// The number.
            pub fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(formatter)
            }
        }
    };
}

/// The bits of a number that JavaScript counts exactly, less those of the time.
const RANDOM_BITS: u32 = 12;
/// 2025-01-01, in milliseconds since 1970: the times in ids count from here, and fit until 2094.
const FIRST_MS: i128 = 1_735_689_600_000;

/// Makes a number that does not come again, also after the database went back to an older copy: the time in
/// milliseconds, then 12 random bits. Later numbers are higher. Two numbers of one millisecond may be equal, so whoever
/// inserts one tries again after a duplicate.
fn number_of_now() -> i64 {
    let now_ms = OffsetDateTime::now_utc().unix_timestamp_nanos() / 1_000_000;
    let passed_ms = i64::try_from((now_ms - FIRST_MS).clamp(1, (1 << 41) - 1)).unwrap_or(1);
    (passed_ms << RANDOM_BITS) | rand::random_range(0..1 << RANDOM_BITS)
}

positive_id! {
    /// The id of a buyer or an operator. Orders name users without a foreign key: a valid token is
    /// enough to buy.
    UserId
}

/// The ids of guests begin here: above all generated ids, and so low that JavaScript still counts them exactly.
const GUESTS_FROM: i64 = 1 << 52;

impl UserId {
    /// Makes the id of a new guest of a shop: a random number that no account has. Two guests may get the same one with
    /// a chance of 1 in 2^52, so whoever inserts one lets a unique key decide.
    pub fn generate_guest() -> Self {
        Self(GUESTS_FROM + rand::random_range(0..GUESTS_FROM))
    }
}

positive_id! {
    /// The id of another shop, whose program orders for guests. It is no user.
    ShopId
}

positive_id! {
    /// The id of an item on sale.
    ItemId
}

positive_id! {
    /// The id of a group of items that share a limit.
    LimitGroupId
}

positive_id! {
    /// The id of a product.
    ProductId
}

positive_id! {
    /// The id of an endpoint that events are delivered to.
    EndpointId
}

/// An order's public id: a UUIDv7, so that ids need no coordination, cannot be guessed, and are
/// inserted in time order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OrderId(Uuid);

impl OrderId {
    /// The id of no order: a provider of payments has named another text.
    pub const NONE: Self = Self(Uuid::nil());

    /// Makes a new id from this machine's clock and random bits.
    pub fn generate() -> Self {
        Self(Uuid::now_v7())
    }

    /// The id of a line of the order with this id. Only the last byte differs, so that all lines are one
    /// range of the primary key. The order has the id of its line 0.
    #[must_use]
    pub fn line(self, number: u8) -> Self {
        let mut bytes = self.0.into_bytes();
        bytes[15] = number;
        Self(Uuid::from_bytes(bytes))
    }

    /// The number of the line with this id, if it is a line of an order with several.
    pub fn line_number(self) -> u8 {
        self.0.as_bytes()[15]
    }

    /// Reads the hyphenated form; `None` for anything else.
    pub fn parse(text: &str) -> Option<Self> {
        (text.len() == 36).then(|| Uuid::try_parse(text).ok()).flatten().map(Self)
    }
}

impl fmt::Display for OrderId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(formatter)
    }
}

/// A shop's reference of a guest: opaque, and compared byte by byte.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BuyerReference(String);

impl BuyerReference {
    /// The longest reference, in characters: that of a subject of OpenID Connect.
    pub const LENGTH_MAX: usize = 255;

    /// Takes 1 to 255 printable ASCII characters without spaces.
    pub fn parse(text: &str) -> Option<Self> {
        is_plain(text, Self::LENGTH_MAX).then(|| Self(text.to_owned()))
    }

    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Returns whether a text has 1 to `most` characters, all of them printable ASCII without spaces.
pub(super) fn is_plain(text: &str, most: usize) -> bool {
    (1..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// The idempotency key of a request, by which a retry is recognized: the caller's
/// `Idempotency-Key`, or one made here when the caller sent none (then a retry is a new request).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RequestKey {
    text: Arc<str>,
    from_caller: bool,
}

impl RequestKey {
    /// The longest key that is accepted, in characters.
    pub const LENGTH_MAX: usize = 64;

    /// Takes a caller's key: 1 to 64 printable ASCII characters without spaces.
    pub fn parse(text: &str) -> Option<Self> {
        is_plain(text, Self::LENGTH_MAX).then(|| Self { text: text.into(), from_caller: true })
    }

    /// The key of a request that came without one: the id of the order it may become.
    pub fn of_order(order: OrderId) -> Self {
        let mut text = [0; Hyphenated::LENGTH];
        let text = &*order.0.as_hyphenated().encode_lower(&mut text);
        Self { text: text.into(), from_caller: false }
    }

    /// The key as it is stored.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether the caller can send this key again.
    pub fn is_from_caller(&self) -> bool {
        self.from_caller
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_id_is_of_now_and_exact_in_javascript() {
        let first = ItemId::generate();
        std::thread::sleep(std::time::Duration::from_millis(2));
        assert!(first < ItemId::generate());
        let mut last = first;
        for _ in 0..100 {
            let next = last.generate_after();
            assert!(last < next);
            last = next;
        }
        assert!(first.get() > 1 << 45 && first.get() < 1 << 52, "{first}");
    }

    /// No account has the id of a guest, and no guest that of an account.
    #[test]
    fn a_guest_is_above_all_accounts() {
        for _ in 0..1_000 {
            let guest = UserId::generate_guest().get();
            assert!((1 << 52..1 << 53).contains(&guest), "{guest}");
        }
    }

    #[test]
    fn ids_are_positive_plain_decimals() {
        for bad in ["", "0", "-1", "+1", "abc", "1:2", "1 ", "9223372036854775808", "１"] {
            assert_eq!(ItemId::parse(bad), None, "{bad:?}");
        }
        assert_eq!(ItemId::parse("42").map(ItemId::get), Some(42));
    }

    #[test]
    fn keys_are_short_and_printable() {
        for bad in ["", "a b", "a\r\nb", "schlüssel", &"x".repeat(256)] {
            assert_eq!(RequestKey::parse(bad), None, "{bad:?}");
            assert_eq!(BuyerReference::parse(bad), None, "{bad:?}");
        }
        assert_eq!(RequestKey::parse(&"x".repeat(65)), None);
        assert!(RequestKey::parse("3f2a-1").is_some_and(|key| key.is_from_caller()));
    }

    #[test]
    fn order_ids_are_hyphenated_uuids() {
        let id = OrderId::generate();
        assert_eq!(OrderId::parse(&id.to_string()), Some(id));
        assert_eq!(OrderId::parse("not-an-order"), None);
    }
}
