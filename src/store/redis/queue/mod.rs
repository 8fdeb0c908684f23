//! The queue of an item: orders that a gate has accepted and the ledger has not decided yet.
//!
//! Everything of an item is in one slot. The *stream* holds the orders in the order in which they
//! came; a consumer group hands each to one consumer (`reader.rs`). Beside it stands what is
//! queued by order and by buyer, so that an order can be found until it is durable, and which
//! requests were queued, so that a retry is the same order. Units in the queue are taken from the
//! item's counter: ledger = counter + queue. Which items have a queue stands in the ledger
//! (`redis_queues`), since an emptied Redis could not tell.

mod dead_letters;
mod intention;
mod reader;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Duration;

use moka::future::Cache;
use redis::{ErrorKind, RedisError, Script};
use sqlx::MySqlPool;
use tokio::sync::mpsc;

use super::RedisClient;
use super::counters::{CounterError, Counters, READ_ATTEMPTS_MAX};
use crate::domain::{ItemId, Order, OrderId, Purchase, RequestKey, UserId};
use crate::store::mysql::answered;

pub use dead_letters::{DeadLetter, Resolution};
pub use intention::Intention;
pub use reader::{Entry, Reader};

/// Queues in one statement or one exchange with Redis; a longer list is worked through in parts.
const QUEUES_TOGETHER_MAX: usize = 1_000;
/// Items remembered as having a queue on the ledger's list.
const OPENED_MAX: u64 = 10_000;
/// How long it is remembered which requests were queued, after the last one. What is still queued then
/// is found beside its order, and the others in the ledger.
const REMEMBERED: Duration = Duration::from_secs(600);
/// A queue is used once it has been on the ledger's list for this time: no setting lets an instance
/// judge a purchase by an item that it read longer ago (`config/check.rs`).
const KNOWN_AFTER: Duration = Duration::from_secs(1);
/// How long an item's queue is taken to be on the ledger's list without looking.
const OPEN_REMEMBERED: Duration = Duration::from_secs(10);
/// Wake-ups that wait for the consumer; further ones are dropped, since it looks by itself too.
const WAKE_UPS_MAX: usize = 1_024;

static PUSH: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("push.lua")));

/// The queues of all items. Clones share them.
#[derive(Clone)]
pub struct Queue {
    redis: RedisClient,
    pool: MySqlPool,
    counters: Counters,
    strategy: &'static str,
    backlog_max: usize,
    opened: Cache<ItemId, ()>,
    items: Arc<Mutex<BTreeSet<ItemId>>>,
    wake: mpsc::Sender<ItemId>,
}

/// How queueing an order ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// It is in the queue, and its units were taken from the counter.
    Queued,
    /// An earlier try of this request was queued as this order, for this number of units.
    Known(OrderId, u32),
    /// Too few units are left.
    NothingLeft,
    /// The buyer would have more than the limit, with what is in the queue.
    LimitReached,
    /// Too many orders wait.
    Full,
}

impl Queue {
    /// Queues in `redis`, for orders of the strategy `strategy`, at most `backlog_max` of an item;
    /// and the other end of its wake-ups for the consumer.
    #[must_use]
    pub fn new(
        redis: RedisClient,
        pool: MySqlPool,
        counters: Counters,
        strategy: &'static str,
        backlog_max: usize,
    ) -> (Self, mpsc::Receiver<ItemId>) {
        let (wake, wake_ups) = mpsc::channel(WAKE_UPS_MAX);
        let opened = Cache::builder().max_capacity(OPENED_MAX).time_to_live(OPEN_REMEMBERED);
        let queue = Self {
            redis,
            pool,
            counters,
            strategy,
            backlog_max,
            opened: opened.build(),
            items: Arc::default(),
            wake,
        };
        (queue, wake_ups)
    }

    /// Takes the purchase's units and queues it, if the buyer then has at most `limit` units in the
    /// queue (`None`: any number).
    ///
    /// # Errors
    /// See [`CounterError`]; after one of Redis' that [`is_unknown`] names it may be queued.
    pub async fn push(
        &self,
        purchase: &Purchase,
        limit: Option<i64>,
    ) -> Result<Push, CounterError> {
        let item = purchase.item.id;
        self.opened
            .try_get_with(item, self.open(item))
            .await
            .map_err(|error| CounterError::Mysql(Arc::clone(&error)))?;
        let request = request_of(purchase.buyer, &purchase.key);
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.counters.epoch(item).await?;
            let mut call = PUSH.key(self.counters.key(item));
            call.key(self.key(item, "queue")).key(self.key(item, "queued"));
            call.key(self.key(item, "requests"));
            call.arg(epoch).arg(purchase.quantity.units()).arg(purchase.order_id.to_string());
            call.arg(purchase.buyer.get()).arg(&request).arg(limit.unwrap_or(-1));
            call.arg(self.backlog_max).arg(u64::try_from(REMEMBERED.as_millis()).unwrap_or(0));
            call.arg(Intention::of(purchase).write());
            let (word, known): (String, String) =
                call.invoke_async(&mut self.redis.shared()).await?;
            match word.as_str() {
                "queued" => {
                    failpoint!("queued");
                    // Full: the consumer looks by itself too.
                    let _ = self.wake.try_send(item);
                    return Ok(Push::Queued);
                }
                "known" => return known_order(&known).ok_or(CounterError::Loading),
                "nothing_left" => return Ok(Push::NothingLeft),
                "limit" => return Ok(Push::LimitReached),
                "full" => return Ok(Push::Full),
                // Emptied, older, or loaded again by another instance: ask the ledger which.
                _ => self.counters.forget_epoch(item).await,
            }
        }
        Err(CounterError::Loading)
    }

    /// The order that a request was queued as, as long as it is queued or a dead letter.
    ///
    /// # Errors
    /// Redis'.
    pub async fn find_request(
        &self,
        item: ItemId,
        buyer: UserId,
        key: &RequestKey,
    ) -> Result<Option<Order>, RedisError> {
        let request = request_of(buyer, key);
        let known: (Option<String>, Option<String>) = redis::pipe()
            .hget(self.key(item, "queued"), format!("r:{request}"))
            .hget(self.key(item, "requests"), &request)
            .query_async(&mut self.redis.shared())
            .await?;
        match known.0.or(known.1).as_deref().and_then(known_order) {
            Some(Push::Known(order, _)) => self.find_in(item, order).await,
            _ => Ok(None),
        }
    }

    /// A queued order of an item, whoever owns it; `None` once the ledger has decided.
    ///
    /// # Errors
    /// Redis'.
    pub async fn find_in(&self, item: ItemId, order: OrderId) -> Result<Option<Order>, RedisError> {
        let text: Option<String> = redis::cmd("HGET")
            .arg(self.key(item, "queued"))
            .arg(field_of(order))
            .query_async(&mut self.redis.shared())
            .await?;
        Ok(text.and_then(|text| self.read(item, &text)))
    }

    /// An owner's queued order in any queue, also in those that another instance has opened.
    ///
    /// # Errors
    /// See [`CounterError`].
    pub async fn find(&self, order: OrderId, owner: UserId) -> Result<Option<Order>, CounterError> {
        let items: Vec<ItemId> = self.refresh().await?.into_iter().collect();
        Ok(self.find_among(&items, order, owner).await?)
    }

    /// An owner's queued order in the queues that this process knows of, for when the ledger cannot be
    /// asked.
    ///
    /// # Errors
    /// Redis'.
    pub async fn find_known(
        &self,
        order: OrderId,
        owner: UserId,
    ) -> Result<Option<Order>, RedisError> {
        let items: Vec<ItemId> = self.items().iter().copied().collect();
        self.find_among(&items, order, owner).await
    }

    async fn find_among(
        &self,
        items: &[ItemId],
        order: OrderId,
        owner: UserId,
    ) -> Result<Option<Order>, RedisError> {
        for items in items.chunks(QUEUES_TOGETHER_MAX) {
            let mut pipeline = redis::pipe();
            for &item in items {
                pipeline.hget(self.key(item, "queued"), field_of(order));
            }
            let texts: Vec<Option<String>> = pipeline.query_async(&mut self.redis.shared()).await?;
            let mut queued = items.iter().zip(texts);
            let found = queued.find_map(|(&item, text)| self.read(item, &text?));
            if found.is_some() {
                return Ok(found.filter(|order| order.user_id == owner));
            }
        }
        Ok(None)
    }

    /// An owner's queued orders, in no order.
    ///
    /// # Errors
    /// Redis'.
    pub async fn list(&self, owner: UserId) -> Result<Vec<Order>, RedisError> {
        let items: Vec<ItemId> = self.items().iter().copied().collect();
        let mut orders = Vec::new();
        for items in items.chunks(QUEUES_TOGETHER_MAX) {
            let mut pipeline = redis::pipe();
            for &item in items {
                pipeline.hget(self.key(item, "queued"), format!("b:{owner}"));
            }
            let ids: Vec<Option<String>> = pipeline.query_async(&mut self.redis.shared()).await?;
            for (&item, ids) in items.iter().zip(ids) {
                for id in ids.as_deref().unwrap_or_default().split(' ').filter_map(OrderId::parse) {
                    orders.extend(self.find_in(item, id).await?);
                }
            }
        }
        Ok(orders)
    }

    /// The items that have a queue, as far as this process knows.
    #[must_use]
    pub fn items(&self) -> BTreeSet<ItemId> {
        self.items.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the items that have a queue from the ledger; this process knows them from then on.
    ///
    /// # Errors
    /// The ledger's.
    pub async fn refresh(&self) -> sqlx::Result<BTreeSet<ItemId>> {
        let mut items = BTreeSet::new();
        loop {
            let last = items.last().map_or(0, |item: &ItemId| item.get());
            let page = sqlx::query_scalar(
                "SELECT item_id FROM redis_queues WHERE item_id > ? ORDER BY item_id LIMIT ?",
            )
            .bind(last)
            .bind(u64::try_from(QUEUES_TOGETHER_MAX).unwrap_or(u64::MAX))
            .fetch_all(&self.pool);
            let page: Vec<ItemId> = answered(page).await?;
            let is_last = page.len() < QUEUES_TOGETHER_MAX;
            items.extend(page);
            if is_last {
                break;
            }
        }
        *self.items.lock().unwrap_or_else(PoisonError::into_inner) = items.clone();
        Ok(items)
    }

    /// Puts the item's queue on the ledger's list, before anything is in it: an instance that dies
    /// leaves it to the others. It is open once every instance has read the list again, since an
    /// instance that does not know of the queue does not look for a key in it.
    async fn open(&self, item: ItemId) -> Result<(), sqlx::Error> {
        let listed = sqlx::query(
            "INSERT IGNORE INTO redis_queues (item_id, opened_at) VALUES (?, UTC_TIMESTAMP(6))",
        )
        .bind(item.get())
        .execute(&self.pool);
        answered(listed).await?;
        let age_us = sqlx::query_scalar(
            "SELECT TIMESTAMPDIFF(MICROSECOND, opened_at, UTC_TIMESTAMP(6)) FROM redis_queues \
             WHERE item_id = ?",
        )
        .bind(item.get())
        .fetch_one(&self.pool);
        let age_us: i64 = answered(age_us).await?;
        // A clock that was set back does not make it longer.
        let age = Duration::from_micros(u64::try_from(age_us).unwrap_or_default());
        tokio::time::sleep(KNOWN_AFTER.saturating_sub(age)).await;
        self.items.lock().unwrap_or_else(PoisonError::into_inner).insert(item);
        Ok(())
    }

    fn read(&self, item: ItemId, text: &str) -> Option<Order> {
        Intention::read(text).map(|intention| intention.order(item, self.strategy))
    }

    fn key(&self, item: ItemId, part: &str) -> String {
        format!("{}{{item:{item}}}:{part}", self.redis.prefix())
    }
}

/// Whether a command that failed so may have run: it was sent, and its answer was not seen, or only
/// a piece of it.
#[must_use]
pub fn is_unknown(error: &RedisError) -> bool {
    let is_cut = error.is_io_error() || error.is_connection_dropped();
    !error.is_connection_refusal() && (is_cut || error.kind() == ErrorKind::Parse)
}

/// What a request is called in Redis; empty when it cannot be sent again.
fn request_of(buyer: UserId, key: &RequestKey) -> String {
    match key.is_from_caller() {
        true => format!("{buyer}:{}", key.as_str()),
        false => String::new(),
    }
}

fn field_of(order: OrderId) -> String {
    format!("o:{order}")
}

fn known_order(text: &str) -> Option<Push> {
    let (order, units) = text.split_once(' ')?;
    Some(Push::Known(OrderId::parse(order)?, units.parse().ok()?))
}
