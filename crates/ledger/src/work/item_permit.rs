//! The permits of items, which the locks of stock rows take as an argument.
//! [`ItemConcurrency`](super::item_concurrency::ItemConcurrency) gives them.

use tokio::sync::OwnedSemaphorePermit;

use shop_domain::ItemId;

/// The right of one transaction to wait for rows of an item. Dropping it gives it back.
#[derive(Debug)]
pub struct ItemPermit {
    item: ItemId,
    /// `None` for a background job.
    _permit: Option<OwnedSemaphorePermit>,
}

impl ItemPermit {
    /// The right that a permit of the item's semaphore gives.
    pub(super) fn new(item: ItemId, permit: OwnedSemaphorePermit) -> Self {
        Self { item, _permit: Some(permit) }
    }

    /// The right of a background job, which works on a few items at once, with one transaction for each. Behind the
    /// requests of a busy item it would wait for too long.
    pub fn of_job(item: ItemId) -> Self {
        Self { item, _permit: None }
    }

    /// The item whose rows may be locked.
    pub fn item(&self) -> ItemId {
        self.item
    }
}

/// The permits of the items of one transaction.
#[derive(Debug, Default)]
pub struct ItemPermits {
    /// Sorted by item.
    permits: Vec<ItemPermit>,
    /// The item that was waited for alone: its row is locked first.
    awaited: Option<ItemId>,
}

impl ItemPermits {
    /// The permits of a transaction that has the one of the item that it has waited for, if any.
    pub(super) fn after(awaited: Option<ItemPermit>) -> Self {
        let item = awaited.as_ref().map(ItemPermit::item);
        Self { permits: awaited.into_iter().collect(), awaited: item }
    }

    /// Adds the permit of one more item.
    pub(super) fn add(&mut self, permit: ItemPermit) {
        self.permits.push(permit);
        self.permits.sort_unstable_by_key(ItemPermit::item);
    }

    /// The permit of an item, if it is among them.
    pub(crate) fn of(&self, item: ItemId) -> Option<&ItemPermit> {
        self.permits.iter().find(|permit| permit.item == item)
    }

    /// The items, sorted.
    pub(crate) fn items(&self) -> impl ExactSizeIterator<Item = ItemId> {
        self.permits.iter().map(ItemPermit::item)
    }

    /// The right of a background job to change `item`, whose row it has waited for alone if `is_awaited`.
    pub(crate) fn of_job(item: ItemId, is_awaited: bool) -> Self {
        Self { permits: vec![ItemPermit::of_job(item)], awaited: is_awaited.then_some(item) }
    }

    /// Adds the right of a background job to change one more item.
    pub(crate) fn add_of_job(&mut self, item: ItemId) {
        if self.of(item).is_none() {
            self.add(ItemPermit::of_job(item));
        }
    }

    /// The permit of the item that was waited for alone.
    pub(crate) fn awaited(&self) -> Option<&ItemPermit> {
        self.of(self.awaited?)
    }
}
