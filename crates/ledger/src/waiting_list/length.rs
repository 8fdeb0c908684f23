//! The number of buyers in the line of an item.
//!
//! Each join asks for it. A short line is counted each time. A long line is counted once in a while, and the
//! buyers who have joined since are added: a join reads a bounded number of rows, whatever the line's length.

use std::time::{Duration, Instant};

use sqlx::MySqlConnection;

use crate::rows::waiting_list;
use crate::work::cache::Cache;
use shop_domain::ItemId;

/// Lines of at most this many buyers are counted at each join.
const SHORT_MAX: u64 = 1_000;
/// A longer line is counted again after this. A place that becomes free in a full line may stay unused until then.
const COUNT_AGE_MAX: Duration = Duration::from_secs(1);
/// Items whose counts are known at once.
const ITEMS_MAX: usize = 10_000;

/// The number of buyers who wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Length {
    /// Of a short line.
    Exact(u64),
    /// Of a long line: buyers who left within the last second may be counted.
    AtMost(u64),
}

impl Length {
    /// The number that it may not exceed.
    pub(super) fn most(self) -> u64 {
        let (Self::Exact(buyers) | Self::AtMost(buyers)) = self;
        buyers
    }
}

/// A count of a long line.
#[derive(Clone, Copy)]
struct Count {
    at: Instant,
    buyers: u64,
    /// The last place that is counted.
    last: i64,
}

/// The counts of long lines.
pub(super) struct Lengths(Cache<ItemId, Count>);

impl Lengths {
    pub(super) fn new() -> Self {
        Self(Cache::new(ITEMS_MAX))
    }

    /// The length of an item's line.
    pub(super) async fn read(
        &self,
        transaction: &mut MySqlConnection,
        item: ItemId,
    ) -> sqlx::Result<Length> {
        let short = waiting_list::length_up_to(&mut *transaction, item, SHORT_MAX + 1).await?;
        if short <= SHORT_MAX {
            return Ok(Length::Exact(short));
        }
        let count = match self.0.get(item) {
            Some(count) if count.at.elapsed() < COUNT_AGE_MAX => count,
            known => {
                let at = Instant::now();
                if let Some(older) = known {
                    // One counts; meanwhile the others go on with the older count.
                    self.0.insert(item, Count { at, ..older });
                }
                let (buyers, last) = waiting_list::length(&mut *transaction, item).await?;
                let count = Count { at, buyers, last };
                self.0.insert(item, count);
                count
            }
        };
        let joined = waiting_list::joined_after(transaction, item, count.last).await?;
        Ok(Length::AtMost(count.buyers + joined))
    }
}
