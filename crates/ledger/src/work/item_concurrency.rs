//! How many transactions of one item hold a connection of the common pool at once: its purchases, the steps of its
//! orders, and the changes of its waiting list, its draw and its stock.
//!
//! They wait for each other's row locks anyway, so a few are as fast as many. Without a bound the
//! buyers of one item with a locked row would take every connection, and the purchases and payments
//! of all other items would wait for them.
//!
//! A transaction may change the stock of several items. The rule then is: **who waits for something of one item holds
//! nothing of another**. So [`ItemConcurrency::acquire_all`] takes the permits of all items without waiting, or none of
//! them and waits for the missing one alone, and then for the row of its item. And
//! [`stock_lock::lock_all`](crate::work::stock_lock::lock_all) takes the stock rows of the other items without waiting. The
//! locks of stock rows take a permit as their argument, so nobody locks a row without one.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use super::cache::Cache;
use super::item_permit::{ItemPermit, ItemPermits};
use super::pause;
use super::stock_lock::wait_until_free;
use mysql_connection::{Database, Fault};
use shop_domain::ItemId;

/// One item has at most the pool's connections divided by this.
const SHARE: u32 = 4;
/// How long a step waits for the permits of its items: as long as a statement waits for a row by default, so
/// that a busy item is answered well before a client gives up.
const STEP_WAIT_MAX: Duration = Duration::from_secs(2);
/// Items whose limits are known at once.
const ITEMS_MAX: usize = 100_000;

/// The end of the wait of a step that begins now.
pub(crate) fn step_deadline() -> Instant {
    Instant::now() + STEP_WAIT_MAX
}

/// Called with the item that an order waits for alone, and with `None` when the order goes on.
pub type TellWait = Arc<dyn Fn(Option<ItemId>) + Send + Sync>;

/// The limit of each item. Clones share them.
#[derive(Clone)]
pub struct ItemConcurrency {
    items: Cache<ItemId, Arc<Semaphore>>,
    /// One permit for the operators of each item.
    edits: Cache<ItemId, Arc<Semaphore>>,
    of_each: usize,
    tell_wait: Option<TellWait>,
}

impl ItemConcurrency {
    /// A share of `connections` for each item.
    pub fn new(connections: u32) -> Self {
        let of_each = (connections / SHARE).max(1) as usize;
        let items = Cache::new(ITEMS_MAX);
        Self { items, edits: Cache::new(ITEMS_MAX), of_each, tell_wait: None }
    }

    /// Makes the limits for one order, whose waits for one of its items are told to `tell_wait`.
    pub(crate) fn telling(&self, tell_wait: Option<TellWait>) -> Self {
        Self { tell_wait, ..self.clone() }
    }

    /// Tells that the order waits for this item from now on, if for any.
    pub(crate) fn tell(&self, item: Option<ItemId>) -> ToldWait<'_> {
        let told = self.tell_wait.as_ref().filter(|_| item.is_some());
        if let Some(tell) = told {
            tell(item);
        }
        ToldWait(told)
    }

    /// Waits for a permit of the item, first come first served.
    pub(crate) async fn acquire(&self, item: ItemId) -> Option<ItemPermit> {
        // It is never closed.
        let permit = self.permits_of(item).acquire_owned().await.ok()?;
        Some(ItemPermit::new(item, permit))
    }

    /// Waits for the one permit of the item's operators, who do not wait behind its buyers: whoever pauses a sale does it
    /// while the sale is busy. `None` when another change of the item takes too long.
    pub(crate) async fn acquire_for_edit(&self, item: ItemId) -> Option<ItemPermit> {
        let permits = self.edits.get_or_insert_with(item, || Arc::new(Semaphore::new(1)));
        let permit = timeout_at(step_deadline(), permits.acquire_owned()).await.ok()?.ok()?;
        Some(ItemPermit::new(item, permit))
    }

    /// Takes the permits of several items. While one is missing, that one alone is waited for, and then the row of its
    /// item. `None` when either takes too long.
    pub(crate) async fn acquire_all(
        &self,
        items: &[ItemId],
        pool: &Database,
        deadline: Option<Instant>,
    ) -> Option<ItemPermits> {
        self.acquire_with(items, None, pool, deadline).await
    }

    /// Takes the permits of several items again, after the stock row of one of them was found locked, or the limit of
    /// the buyer for it, which others have while they wait for the row. Until that row is free it alone is waited for,
    /// with its permit and nothing of another item. `None` when that takes too long, or when the deadline is over: a
    /// permit that is free is had even then, and whoever finds the row locked each time would never end.
    pub(crate) async fn acquire_after(
        &self,
        permits: ItemPermits,
        items: &[ItemId],
        locked: ItemId,
        (pool, deadline): (&Database, Option<Instant>),
    ) -> Option<ItemPermits> {
        drop(permits);
        let wait = self.tell(Some(locked));
        // Whoever has a limit of the buyer may have it a moment longer than the row.
        pause(1).await;
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return None;
        }
        let permit = self.acquire_free(locked, pool, deadline).await?;
        drop(wait);
        self.acquire_with(items, Some(permit), pool, deadline).await
    }

    /// Waits for a permit of the item, and then until its row is free. `None` when either takes too long.
    async fn acquire_free(
        &self,
        item: ItemId,
        pool: &Database,
        deadline: Option<Instant>,
    ) -> Option<ItemPermit> {
        let permit = in_time(deadline, self.acquire(item)).await??;
        match wait_until_free(pool, &permit).await {
            Err(error) if Fault::of(&error) == Fault::Transient => None,
            // The next try meets any other error itself.
            _ => Some(permit),
        }
    }

    /// Adds the permit of one more item without waiting for it; the item, when others have all of its permits.
    fn try_add(&self, permits: &mut ItemPermits, item: ItemId) -> Result<(), ItemId> {
        if permits.of(item).is_none() {
            let permit = self.permits_of(item).try_acquire_owned().map_err(|_| item)?;
            permits.add(ItemPermit::new(item, permit));
        }
        Ok(())
    }

    /// Takes the permits of all items, beside the permit of the one whose row was waited for.
    async fn acquire_with(
        &self,
        items: &[ItemId],
        mut awaited: Option<ItemPermit>,
        pool: &Database,
        deadline: Option<Instant>,
    ) -> Option<ItemPermits> {
        loop {
            match self.try_all(items, awaited.take()) {
                Ok(permits) => return Some(permits),
                // Otherwise the transaction would wait for the row, with the permits of the other items.
                Err(missing) if items.len() > 1 => {
                    let _wait = self.tell(Some(missing));
                    awaited = Some(self.acquire_free(missing, pool, deadline).await?);
                }
                Err(only) => awaited = in_time(deadline, self.acquire(only)).await?,
            }
        }
    }

    /// Takes the permits of all items with the one in hand, or gives all back and names the first that is missing.
    fn try_all(
        &self,
        items: &[ItemId],
        in_hand: Option<ItemPermit>,
    ) -> Result<ItemPermits, ItemId> {
        let mut permits = ItemPermits::after(in_hand);
        for item in items {
            self.try_add(&mut permits, *item)?;
        }
        Ok(permits)
    }

    fn permits_of(&self, item: ItemId) -> Arc<Semaphore> {
        self.items.get_or_insert_with(item, || Arc::new(Semaphore::new(self.of_each)))
    }
}

/// The wait of an order for one item. It ends when it is dropped.
pub(crate) struct ToldWait<'a>(Option<&'a TellWait>);

impl Drop for ToldWait<'_> {
    fn drop(&mut self) {
        if let Some(tell) = self.0 {
            tell(None);
        }
    }
}

/// Waits until the deadline; `None` when it comes first.
pub(crate) async fn in_time<T>(
    deadline: Option<Instant>,
    wait: impl Future<Output = T>,
) -> Option<T> {
    match deadline {
        Some(deadline) => timeout_at(deadline, wait).await.ok(),
        None => Some(wait.await),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use futures::FutureExt;
    use sqlx::mysql::MySqlPoolOptions;

    use super::*;

    #[test]
    fn one_item_cannot_take_all_connections() {
        let item = |id| ItemId::new(id).expect("positive");
        for (connections, of_each) in [(32, 8), (16, 4), (2, 1)] {
            let limits = ItemConcurrency::new(connections);
            let taken: Vec<_> =
                (0..of_each).map(|_| limits.acquire(item(1)).now_or_never()).collect();
            assert!(taken.iter().all(Option::is_some), "{connections} connections");
            assert!(limits.acquire(item(1)).now_or_never().is_none(), "one more has to wait");
            assert!(limits.acquire(item(2)).now_or_never().is_some(), "another item");
            drop(taken);
            assert!(limits.acquire(item(1)).now_or_never().is_some());
        }
    }

    /// The operator of a busy item waits for its other operators alone.
    #[tokio::test]
    async fn an_edit_waits_for_no_buyer() {
        let item = ItemId::new(1).expect("positive");
        let limits = ItemConcurrency::new(4);
        let _buyer = limits.acquire(item).await;
        assert!(limits.acquire(item).now_or_never().is_none(), "the buyers have all permits");
        let edit = limits.acquire_for_edit(item).now_or_never().flatten();
        assert!(edit.is_some(), "an edit goes on");
        assert!(limits.acquire_for_edit(item).now_or_never().is_none(), "a second one waits");
    }

    /// Two orders of the same items in opposite sequence take turns, and none keeps a permit while it waits.
    #[tokio::test]
    async fn who_waits_for_one_item_holds_no_permit_of_another() {
        let item = |id| ItemId::new(id).expect("positive");
        let limits = ItemConcurrency::new(4);
        // The transaction itself would find that there is no server.
        let nowhere = MySqlPoolOptions::new()
            .acquire_timeout(Duration::from_millis(10))
            .connect_lazy("mysql://nobody@127.0.0.1:1/none");
        let pool = Database::from(nowhere.expect("a URL"));
        let taken = limits.acquire(item(2)).await;
        let both = [item(1), item(2), item(3)];
        let told: Arc<Mutex<Vec<Option<ItemId>>>> = Arc::default();
        let list = Arc::clone(&told);
        let tell_wait: TellWait = Arc::new(move |item| list.lock().expect("no panic").push(item));
        let telling = limits.telling(Some(tell_wait));
        let mut waiting = Box::pin(telling.acquire_all(&both, &pool, None));
        assert!((&mut waiting).now_or_never().is_none(), "item 2 is missing");
        assert_eq!(*told.lock().expect("no panic"), [Some(item(2))], "it says what it waits for");
        for free in [1, 3] {
            let permit = limits.acquire(item(free)).now_or_never();
            assert!(permit.is_some(), "a permit of item {free} is held by a waiter for item 2");
        }
        drop(taken);
        let permits = waiting.await.expect("no deadline");
        assert_eq!(permits.items().collect::<Vec<_>>(), both);
        assert_eq!(permits.awaited().map(ItemPermit::item), Some(item(2)));
        assert_eq!(*told.lock().expect("no panic"), [Some(item(2)), None], "it goes on");
        let late = Some(Instant::now() + Duration::from_millis(10));
        assert!(limits.acquire_all(&both, &pool, late).await.is_none(), "the deadline comes first");
    }
}
