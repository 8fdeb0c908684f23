//! Live events: the stock of an item to everyone who watches it, and changes of an order to its
//! owner.
//!
//! Stock changes thousands of times a second, so watchers do not get every change: one reader per
//! instance looks at the watched items a few times a second, and each watcher sees the latest
//! figure (a slow one skips, nothing is buffered for it). Orders change rarely: each change goes
//! to the owner's streams here, and through a Redis channel to those of other instances. Both are
//! a convenience: a page that missed something asks again when it reconnects.

mod channel;
mod stream_limiter;
mod tally;
mod watch;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{broadcast, mpsc};

use crate::domain::{Order, UserId};
use crate::metrics::Metrics;

pub use channel::{receive, send};
use stream_limiter::{StreamLimiter, StreamPermit};
pub use stream_limiter::{StreamLimits, TooManyStreams, Watcher};
pub use tally::Tally;
pub use watch::Watch;

/// Order events that wait for one slow stream; older ones are dropped then.
const ORDER_EVENTS_MAX: usize = 64;
/// Order events that wait to be sent to other instances; further ones are dropped.
const OUTBOX_MAX: usize = 10_000;

/// A change of an order, as other instances are told: they read the order themselves if anybody
/// there wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderChanged {
    /// The order.
    pub order: crate::domain::OrderId,
    /// Its owner.
    pub owner: UserId,
}

/// Where events come in and streams are opened. Clones share everything.
#[derive(Clone)]
pub struct Hub {
    owners: Arc<Mutex<HashMap<UserId, broadcast::Sender<OrderChanged>>>>,
    outbox: mpsc::Sender<OrderChanged>,
    streams: StreamLimiter,
    metrics: Metrics,
}

/// One open stream; dropping it makes room for another.
pub struct Stream {
    metrics: Metrics,
    _permit: StreamPermit,
}

impl Hub {
    /// A hub for so many streams, and the other end of its outbox for [`send`].
    #[must_use]
    pub fn new(limits: StreamLimits, metrics: Metrics) -> (Self, mpsc::Receiver<OrderChanged>) {
        let (outbox, inbox) = mpsc::channel(OUTBOX_MAX);
        let streams = StreamLimiter::new(limits);
        (Self { owners: Arc::default(), outbox, streams, metrics }, inbox)
    }

    /// Makes room for a stream.
    ///
    /// # Errors
    /// When there are too many.
    pub fn open_stream(&self, watcher: Watcher) -> Result<Stream, TooManyStreams> {
        let permit = self.streams.take(watcher)?;
        self.metrics.streams.inc();
        Ok(Stream { metrics: self.metrics.clone(), _permit: permit })
    }

    /// An order changed on this instance.
    pub fn order_changed(&self, order: &Order) {
        let changed = OrderChanged { order: order.id, owner: order.user_id };
        self.tell_here(changed);
        // Full or closed: pages on other instances see it when they ask.
        let _ = self.outbox.try_send(changed);
    }

    /// The changes of an owner's orders from now on.
    #[must_use]
    pub fn watch_orders(&self, owner: UserId) -> broadcast::Receiver<OrderChanged> {
        let mut owners = self.owners();
        // Whoever watches anew clears away those that nobody watches any more.
        owners.retain(|_, sender| sender.receiver_count() > 0);
        owners.entry(owner).or_insert_with(|| broadcast::channel(ORDER_EVENTS_MAX).0).subscribe()
    }

    fn has_watchers(&self) -> bool {
        !self.owners().is_empty()
    }

    fn tell_here(&self, changed: OrderChanged) {
        if let Some(sender) = self.owners().get(&changed.owner) {
            let _ = sender.send(changed);
        }
    }

    fn owners(&self) -> MutexGuard<'_, HashMap<UserId, broadcast::Sender<OrderChanged>>> {
        self.owners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.metrics.streams.dec();
    }
}
