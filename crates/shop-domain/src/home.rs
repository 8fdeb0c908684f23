//! Where an item lives: in which ledger, and since which of its moves.

use std::fmt;

use super::ItemId;

/// The number of a ledger. 0 is the home ledger, which also has the accounts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShardId(u16);

impl ShardId {
    /// The home ledger.
    pub const HOME: Self = Self(0);
    /// The greatest number: an order's id has 12 bits for it.
    pub const MAX: u16 = 4_095;

    /// Takes a number up to [`ShardId::MAX`].
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (number <= Self::MAX).then_some(Self(number))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u16 {
        self.0
    }

    /// The place of the ledger in a list of all ledgers.
    #[must_use]
    pub fn index(self) -> usize {
        self.0.into()
    }
}

impl fmt::Display for ShardId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

/// The route to an item. Every write of its stock names the epoch, and changes nothing when the item
/// has moved since the route was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Home {
    /// The ledger.
    pub shard: ShardId,
    /// Raised by each move of the item.
    pub epoch: u64,
    /// Whether the service has no other ledger, so that no item ever moves.
    pub is_only: bool,
}

impl Home {
    /// The route to every item while there is one ledger.
    pub const ONLY: Self = Self { shard: ShardId::HOME, epoch: 1, is_only: true };
}

/// An item with the route to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ItemRoute {
    pub item: ItemId,
    /// The route.
    pub home: Home,
}

impl ItemRoute {
    /// An item of the only ledger.
    #[must_use]
    pub fn only(item: ItemId) -> Self {
        Self { item, home: Home::ONLY }
    }
}
