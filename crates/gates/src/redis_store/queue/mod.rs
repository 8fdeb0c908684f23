//! The queue of an item: orders that a gate has accepted and the ledger has not decided yet.
//!
//! All keys of an item are in one slot. The *stream* holds the orders in the order of arrival; a
//! consumer group hands each to one consumer (`reader.rs`). Beside it a hash indexes the queued
//! orders by id and by buyer, so that an order is found until it is durable, and another hash keeps
//! the requests that were queued, so that a retry gets the same order. Units in the queue are taken
//! from the item's counter: ledger = counter + queue. The list of items with a queue is in the
//! ledger (`redis_queues`), since an emptied Redis has lost it.

mod dead_letters;
mod intention;
mod per_item;
mod reader;
mod request;

use std::collections::{BTreeMap, BTreeSet};
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::StreamExt;
use mysql_connection::Database;
use redis::Cmd;
use redis_connection::ReplicatedWriter;
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::RedisClient;
use super::counters::{CounterError, Counters};
use ledger::cache::Cache;
use ledger::rows::{items, redis_lists};
use ledger::single_flight::SingleFlight;
use shop_domain::{Currency, ItemId, Order, OrderId, UserId};

pub use dead_letters::{DeadLetter, Resolution};
pub use intention::Intention;
pub use reader::{Entry, NO_ENTRY, Reader};
pub use request::{Push, QueuedRequest, is_unknown};

/// Queues in one statement or one exchange with Redis; a longer list is processed in parts.
const QUEUES_TOGETHER_MAX: usize = 1_000;
/// Items remembered as having a queue on the ledger's list.
const OPENED_MAX: usize = 10_000;
/// A queue is used once it has been on the ledger's list for this time: no setting lets an instance
/// use an item that it read longer ago (`config/check.rs`).
const KNOWN_AFTER: Duration = Duration::from_secs(1);
/// How long an item's queue is assumed to be on the ledger's list without reading it.
const OPEN_REMEMBERED: Duration = Duration::from_secs(10);
/// Wake-ups that wait for the consumer; further ones are dropped, since it polls too.
const WAKE_UPS_MAX: usize = 1_024;

/// An owner's queued orders.
#[derive(Debug)]
pub struct QueuedOrders {
    /// The orders that were found.
    pub orders: Vec<Order>,
    /// The error of a server that did not answer: the orders of its items may be missing.
    pub failed: Option<CounterError>,
}

/// The queues of all items. Clones share them.
#[derive(Clone)]
pub struct Queue {
    redis: RedisClient,
    pool: Database,
    counters: Counters,
    strategy: &'static str,
    backlog_max: usize,
    /// Waits until enough replicas have a queued order; `None` when no replica is required.
    replicated: Option<ReplicatedWriter>,
    /// When an item's queue was last found on the ledger's list.
    opened: Cache<ItemId, Instant>,
    openings: SingleFlight<ItemId, Result<(), CounterError>>,
    /// The currencies of items, which do not change once there are orders.
    currencies: Cache<ItemId, Currency>,
    items: Arc<Mutex<BTreeSet<ItemId>>>,
    wake: mpsc::Sender<ItemId>,
}

impl Queue {
    /// Makes queues in `redis` for orders of the strategy `strategy`, at most `backlog_max` of an
    /// item, and the receiver of their wake-ups for the consumer.
    pub fn new(
        redis: RedisClient,
        pool: Database,
        counters: Counters,
        strategy: &'static str,
        backlog_max: usize,
    ) -> (Self, mpsc::Receiver<ItemId>) {
        let (wake, wake_ups) = mpsc::channel(WAKE_UPS_MAX);
        let queue = Self {
            redis,
            pool,
            counters,
            strategy,
            backlog_max,
            replicated: None,
            opened: Cache::new(OPENED_MAX),
            openings: SingleFlight::default(),
            currencies: Cache::new(OPENED_MAX),
            items: Arc::default(),
            wake,
        };
        (queue, wake_ups)
    }

    /// Makes the queue confirm an order only when `replicas_min` replicas of its server have it; 0 requires none.
    /// `wait_max` is the longest wait for them.
    #[must_use]
    pub fn with_replicas(mut self, replicas_min: u32, wait_max: Duration) -> Self {
        let writer = || ReplicatedWriter::new(self.redis.shared(), replicas_min, wait_max);
        self.replicated = (replicas_min > 0).then(writer);
        self
    }

    /// Finds a queued order of an item, of any owner; `None` once the ledger has decided.
    pub async fn find_in(
        &self,
        item: ItemId,
        order: OrderId,
    ) -> Result<Option<Order>, CounterError> {
        let text: Option<String> = redis::cmd("HGET")
            .arg(self.key(item, "queued"))
            .arg(field_of(order))
            .query_async(&mut self.redis.shared())
            .await?;
        self.read(item, text.as_deref()).await
    }

    /// Finds an owner's queued order in any queue, also one opened by another instance.
    pub async fn find(&self, order: OrderId, owner: UserId) -> Result<Option<Order>, CounterError> {
        let items: Vec<ItemId> = self.refresh().await?.into_iter().collect();
        let question = |item| vec![self.field(item, &field_of(order))];
        let mut answers = pin!(self.ask_per_item::<(Option<String>,)>(&items, question));
        let mut failed = None;
        while let Some(part) = answers.next().await {
            for (item, answer) in part {
                match answer {
                    Ok((text,)) => {
                        let found = self.read(item, text.as_deref()).await?;
                        if found.is_some() {
                            return Ok(found.filter(|order| order.user_id == owner));
                        }
                    }
                    Err(error) => failed = Some(error),
                }
            }
        }
        failed.map_or(Ok(None), |error| Err(error.into()))
    }

    /// Lists an owner's queued orders, in no order.
    pub async fn list(&self, owner: UserId) -> QueuedOrders {
        let items: Vec<ItemId> = self.items().iter().copied().collect();
        let mut queued = QueuedOrders { orders: Vec::new(), failed: None };
        let of_owner = |item| vec![self.field(item, &format!("b:{owner}"))];
        let mut ids: BTreeMap<ItemId, Vec<OrderId>> = BTreeMap::new();
        for (item, answer) in self.ask_all::<(Option<String>,)>(&items, of_owner).await {
            match answer {
                Ok((Some(text),)) => {
                    ids.insert(item, text.split(' ').filter_map(OrderId::parse).collect());
                }
                Ok((None,)) => {}
                Err(error) => queued.failed = Some(error.into()),
            }
        }
        let items: Vec<ItemId> = ids.keys().copied().collect();
        let orders = |item| {
            let ids = ids.get(&item).into_iter().flatten();
            ids.map(|id| self.field(item, &field_of(*id))).collect()
        };
        for (item, answer) in self.ask_all::<Vec<Option<String>>>(&items, orders).await {
            match answer {
                Ok(texts) => {
                    for text in texts {
                        match self.read(item, text.as_deref()).await {
                            Ok(read) => queued.orders.extend(read),
                            Err(error) => queued.failed = Some(error),
                        }
                    }
                }
                Err(error) => queued.failed = Some(error.into()),
            }
        }
        queued
    }

    /// The items with a queue that this process knows.
    pub fn items(&self) -> BTreeSet<ItemId> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the items with a queue from the ledger, and remembers them.
    pub async fn refresh(&self) -> ledger::Result<BTreeSet<ItemId>> {
        let mut items = BTreeSet::new();
        loop {
            let last = items.last().map_or(0, |item: &ItemId| item.get());
            let page = redis_lists::queues(&self.pool, last, QUEUES_TOGETHER_MAX).await?;
            let is_last = page.len() < QUEUES_TOGETHER_MAX;
            items.extend(page);
            if is_last {
                break;
            }
        }
        *self.items.lock().unwrap_or_else(PoisonError::into_inner) = items.clone();
        Ok(items)
    }

    /// Puts the item's queue on the ledger's list, unless it was found there lately.
    async fn ensure_open(&self, item: ItemId) -> Result<(), CounterError> {
        if self.opened.get(item).is_some_and(|at| at.elapsed() < OPEN_REMEMBERED) {
            return Ok(());
        }
        let queue = self.clone();
        let open = async move {
            queue.open(item).await?;
            queue.opened.insert(item, Instant::now());
            Ok(())
        };
        self.openings.run(item, || open).await
    }

    /// Puts the item's queue on the ledger's list before its first entry, so that other instances
    /// serve it if this one dies. The queue is open once every instance has read the list again,
    /// since an instance that does not know the queue does not search it for a key.
    async fn open(&self, item: ItemId) -> Result<(), CounterError> {
        let age = redis_lists::open_queue(&self.pool, item).await?;
        tokio::time::sleep(KNOWN_AFTER.saturating_sub(age)).await;
        self.items.lock().unwrap_or_else(PoisonError::into_inner).insert(item);
        Ok(())
    }

    async fn read(&self, item: ItemId, text: Option<&str>) -> Result<Option<Order>, CounterError> {
        let read = text.and_then(Intention::read);
        let Some(intention) = read else { return Ok(None) };
        let currency = match self.currencies.get(item) {
            Some(currency) => currency,
            None => {
                let currency = items::currency(&self.pool, item).await?;
                self.currencies.insert(item, currency);
                currency
            }
        };
        Ok(Some(intention.order((item, currency), self.strategy)))
    }

    fn key(&self, item: ItemId, part: &str) -> String {
        self.redis.item_key(item, part)
    }

    /// The command that reads a field of the hash of queued orders of an item.
    fn field(&self, item: ItemId, field: &str) -> Cmd {
        let mut command = redis::cmd("HGET");
        command.arg(self.key(item, "queued")).arg(field);
        command
    }
}

fn field_of(order: OrderId) -> String {
    format!("o:{order}")
}
