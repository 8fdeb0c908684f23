//! Mutexes of this process, for the strategies that show that such a mutex protects one process only.

use tokio::sync::{Mutex, MutexGuard};
use tokio::time::Instant;

use shop_domain::{Outcome, Purchase, Unavailable};

/// The number of mutexes. Items are spread over them. Two items that share a mutex wait for each other, which only
/// costs time.
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

/// Waits for the item's mutex like [`ItemMutexes::lock`], if there are mutexes.
///
/// # Errors
/// The outcome when the time ran out.
pub async fn lock_if_any<'a>(
    mutexes: Option<&'a ItemMutexes>,
    purchase: &Purchase,
    deadline: Instant,
) -> Result<Option<MutexGuard<'a, ()>>, Outcome> {
    match mutexes {
        Some(mutexes) => mutexes.lock(purchase, deadline).await.map(Some),
        None => Ok(None),
    }
}

impl ItemMutexes {
    /// Waits for the item's mutex, first come first served, until the deadline.
    ///
    /// # Errors
    /// The outcome when the time ran out.
    pub async fn lock(
        &self,
        purchase: &Purchase,
        deadline: Instant,
    ) -> Result<MutexGuard<'_, ()>, Outcome> {
        let _span = purchase.trace.span("lock wait");
        let number = purchase.item.id.get().unsigned_abs() % MUTEXES as u64;
        let index = usize::try_from(number).expect("below the number of mutexes");
        let locked = tokio::time::timeout_at(deadline, self.mutexes[index].lock()).await;
        locked.map_err(|_| Outcome::Unavailable(Unavailable::Contended))
    }
}
