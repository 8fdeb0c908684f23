//! The highest number of each room that this instance knows of.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shop_domain::ItemId;

/// Rooms that are remembered. With one more, all are forgotten: each poll tells its room's number again.
const ROOMS_MAX: usize = 1_000;

/// Remembers the highest numbers, so that a room that Redis has an older copy of gives none of them
/// again. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Highest {
    numbers: Arc<Mutex<HashMap<ItemId, i64>>>,
}

impl Highest {
    /// The highest number that is known to be given, or 0.
    pub fn of(&self, item: ItemId) -> i64 {
        self.numbers().get(&item).copied().unwrap_or_default()
    }

    /// Takes what the room of an item has answered.
    pub fn heard(&self, item: ItemId, number: i64) {
        let mut numbers = self.numbers();
        if numbers.len() >= ROOMS_MAX && !numbers.contains_key(&item) {
            numbers.clear();
        }
        let highest = numbers.entry(item).or_default();
        *highest = number.max(*highest);
    }

    fn numbers(&self) -> MutexGuard<'_, HashMap<ItemId, i64>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
