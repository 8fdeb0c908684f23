//! Mutexes of this process, for the strategies that show how far they reach.

use tokio::sync::{Mutex, MutexGuard};

use crate::domain::{Outcome, Unavailable};
use crate::strategy::Request;

/// Mutexes in all. Items are spread over them; two that share one wait for each other, which
/// costs time and nothing else.
const MUTEXES: usize = 64;

/// A mutex for each item.
pub struct ItemMutexes {
    mutexes: [Mutex<()>; MUTEXES],
}

impl Default for ItemMutexes {
    fn default() -> Self {
        Self { mutexes: std::array::from_fn(|_| Mutex::default()) }
    }
}

impl ItemMutexes {
    /// Waits for the mutex of the request's item, first come first served, until the deadline.
    ///
    /// # Errors
    /// The outcome when the time ran out.
    pub async fn lock(&self, request: &Request) -> Result<MutexGuard<'_, ()>, Outcome> {
        let item = request.purchase.item.id.get().unsigned_abs();
        let index = usize::try_from(item % MUTEXES as u64).expect("below the number of mutexes");
        let turn = tokio::time::timeout_at(request.deadline, self.mutexes[index].lock()).await;
        turn.map_err(|_| Outcome::Unavailable(Unavailable::Contended))
    }
}
