//! Live events: the stock of an item to everyone who watches it, and changes of an order to its
//! owner.
//!
//! Stock changes thousands of times a second, so watchers do not get every change: one reader per
//! instance reads the watched items a few times a second, and each watcher gets the latest figure
//! (nothing is buffered for a slow one). Orders change rarely: each change goes to the owner's
//! streams here, and through a Redis channel to those of other instances. Events may be lost: a
//! page reads the present state when it reconnects.

mod channel;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, mpsc};

use shop_domain::{ItemId, Order, OrderId, UserId};

pub use channel::{receive, send};
pub use watch::Watch;

/// Order events that wait for one slow stream; older ones are dropped then.
const ORDER_EVENTS_MAX: usize = 64;
/// Order events that wait to be sent to other instances; further ones are dropped.
const OUTBOX_MAX: usize = 10_000;

/// The message that something of a buyer changed. An instance with a stream of the buyer reads it
/// itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BuyerChange {
    /// What changed.
    pub what: What,
    /// The buyer.
    pub owner: UserId,
}

/// What changed of a buyer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// An order.
    Order(OrderId),
    /// The place in the waiting list of an item.
    Place(ItemId),
}

/// The event hub of one instance: takes events, and gives them to streams. Clones share everything.
#[derive(Clone)]
pub struct Hub {
    owners: Arc<Mutex<HashMap<UserId, broadcast::Sender<BuyerChange>>>>,
    outbox: mpsc::Sender<BuyerChange>,
}

impl Hub {
    /// Makes a hub, and the receiving end of its outbox for [`send`].
    pub fn new() -> (Self, mpsc::Receiver<BuyerChange>) {
        let (outbox, inbox) = mpsc::channel(OUTBOX_MAX);
        (Self { owners: Arc::default(), outbox }, inbox)
    }

    /// Publishes a change of an order to this instance and to the others.
    pub fn order_changed(&self, order: &Order) {
        self.changed(BuyerChange { what: What::Order(order.id), owner: order.user_id });
    }

    /// Publishes a change of a buyer's place in a waiting list.
    pub fn waiting_changed(&self, item: ItemId, owner: UserId) {
        self.changed(BuyerChange { what: What::Place(item), owner });
    }

    fn changed(&self, changed: BuyerChange) {
        self.publish_here(changed);
        // Full or closed: pages on other instances see the change when they read the order.
        let _ = self.outbox.try_send(changed);
    }

    /// Subscribes to the changes of an owner's orders and places in waiting lists.
    pub fn watch_orders(&self, owner: UserId) -> broadcast::Receiver<BuyerChange> {
        let mut owners = self.owners();
        // Each new watcher removes the owners without watchers, so that the map does not grow.
        owners.retain(|_, sender| sender.receiver_count() > 0);
        owners.entry(owner).or_insert_with(|| broadcast::channel(ORDER_EVENTS_MAX).0).subscribe()
    }

    fn has_watchers(&self) -> bool {
        !self.owners().is_empty()
    }

    fn publish_here(&self, changed: BuyerChange) {
        if let Some(sender) = self.owners().get(&changed.owner) {
            let _ = sender.send(changed);
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<UserId, broadcast::Sender<BuyerChange>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
