//! Requests that are queued: how they get into a queue, and how they are found there again.

use std::sync::LazyLock;
use std::time::Duration;

use redis::{ErrorKind, FromRedisValue, RedisError};
use redis_connection::{Call, ReplicatedWrite, Script, is_not_sent, is_too_few_replicas};
use tokio::time::Instant;

use super::{Intention, Queue, field_of};
use crate::redis_store::REMEMBERED_MS;
use crate::redis_store::counters::{CounterError, READ_ATTEMPTS_MAX};
use crate::redis_store::loads::in_time;
use shop_domain::{ItemId, Order, OrderId, Purchase, RequestKey, UserId};

/// How long the look for a queued request waits for its turn among the writes to replicas.
const TURN_MAX: Duration = Duration::from_secs(1);

static PUSH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(concat!(include_str!("../remember.lua"), include_str!("push.lua")))
});
static CONFIRM: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("confirm.lua")));

/// The result of queueing an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Push {
    /// The order is in the queue, and its units were taken from the counter.
    Queued {
        /// Whether as many replicas as were asked for have it.
        is_replicated: bool,
    },
    /// An earlier try of this request was queued as this order, for this number of units.
    Known {
        order: OrderId,
        units: u32,
        /// Whether as many replicas as were asked for have it.
        is_replicated: bool,
    },
    /// Too few units are left.
    NothingLeft,
    /// The buyer's units, with those in the queue, would exceed the limit.
    LimitReached,
    /// Too many orders wait.
    Full,
}

/// A request that was queued as an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueuedRequest {
    pub order: Order,
    /// Whether as many replicas as were asked for have it.
    pub is_replicated: bool,
}

impl Queue {
    /// Takes the purchase's units and queues it, if the buyer then has at most `limit` units in the
    /// queue (`None`: any number). A push that still waits for the ledger or for its turn at `until` is not sent.
    ///
    /// # Errors
    /// See [`CounterError`]; after an error of Redis for which [`is_unknown`] is true it may be
    /// queued.
    pub async fn push(
        &self,
        purchase: &Purchase,
        limit: Option<i64>,
        until: Instant,
    ) -> Result<Push, CounterError> {
        let item = purchase.item.id;
        in_time(until, self.ensure_open(item)).await?;
        let request = request_of(purchase.buyer, &purchase.key);
        for _ in 0..READ_ATTEMPTS_MAX {
            let epoch = self.counters.epoch(item, until).await?;
            // With replicas the writer knows whether it is late.
            if self.replicated.is_none() && until <= Instant::now() {
                break;
            }
            let mut call = PUSH.key(self.counters.key(item));
            call.key(self.key(item, "queue")).key(self.key(item, "queued"));
            call.key(self.key(item, "requests")).key(self.key(item, "requests-before"));
            call.arg(epoch).arg(purchase.quantity.units()).arg(purchase.order_id.to_string());
            call.arg(purchase.buyer.get()).arg(&request).arg(limit.unwrap_or(-1));
            call.arg(self.backlog_max).arg(REMEMBERED_MS);
            call.arg(Intention::of(purchase).write()).arg(u8::from(self.replicated.is_some()));
            let ReplicatedWrite { answer, is_replicated } =
                self.run::<(String, String)>(&call, until).await?;
            match answer.0.as_str() {
                "queued" => {
                    failpoint!("queued");
                    // Full: the consumer polls too.
                    let _ = self.wake.try_send(item);
                    return Ok(Push::Queued { is_replicated });
                }
                "known" => {
                    let (order, units) = known_order(&answer.1).ok_or(CounterError::Loading)?;
                    return Ok(Push::Known { order, units, is_replicated });
                }
                "nothing_left" => return Ok(Push::NothingLeft),
                "limit" => return Ok(Push::LimitReached),
                "full" => return Ok(Push::Full),
                // Emptied, older, or loaded again by another instance: read the ledger's epoch.
                _ => self.counters.forget_epoch(item),
            }
        }
        Err(CounterError::Loading)
    }

    /// Finds the order of a queued request, while it is queued or a dead letter.
    pub async fn find_request(
        &self,
        item: ItemId,
        buyer: UserId,
        key: &RequestKey,
    ) -> Result<Option<QueuedRequest>, CounterError> {
        let request = request_of(buyer, key);
        let known: Vec<Option<String>> = redis::pipe()
            .hget(self.key(item, "queued"), format!("r:{request}"))
            .hget(self.key(item, "requests"), &request)
            .hget(self.key(item, "requests-before"), &request)
            .query_async(&mut self.redis.shared())
            .await?;
        let Some(known) = known.into_iter().flatten().next() else { return Ok(None) };
        let Some((order, _)) = known_order(&known) else { return Ok(None) };
        let Some(order) = self.find_in(item, order).await? else { return Ok(None) };
        let mut call = CONFIRM.key(self.key(item, "requests"));
        call.key(self.key(item, "queued")).arg(&request).arg(known).arg(2 * REMEMBERED_MS);
        call.arg(field_of(order.id));
        let is_replicated = match &self.replicated {
            None => true,
            Some(_) => match self.run::<u8>(&call, Instant::now() + TURN_MAX).await {
                // A new primary has lost it, or the ledger has decided.
                Ok(ReplicatedWrite { answer: 0, .. }) => return Ok(None),
                Ok(written) => written.is_replicated,
                Err(error) if is_too_few_replicas(&error) || is_not_sent(&error) => false,
                Err(error) => return Err(error.into()),
            },
        };
        Ok(Some(QueuedRequest { order, is_replicated }))
    }

    /// Runs a script, and waits for replicas where they are asked for.
    async fn run<T: FromRedisValue>(
        &self,
        call: &Call<'_>,
        until: Instant,
    ) -> Result<ReplicatedWrite<T>, RedisError> {
        let Some(writer) = &self.replicated else {
            let answer = call.invoke_async(&mut self.redis.shared()).await?;
            return Ok(ReplicatedWrite { answer, is_replicated: true });
        };
        call.invoke_replicated(writer, until.into_std()).await
    }
}

/// Whether a command that failed with this error may have run: it was sent, and its answer did not
/// arrive as a whole.
pub fn is_unknown(error: &RedisError) -> bool {
    let is_cut = error.is_io_error() || error.is_connection_dropped();
    !error.is_connection_refusal() && (is_cut || error.kind() == ErrorKind::Parse)
}

/// The name of a request in Redis; empty when it cannot be sent again.
pub(super) fn request_of(buyer: UserId, key: &RequestKey) -> String {
    match key.is_from_caller() {
        true => format!("{buyer}:{}", key.as_str()),
        false => String::new(),
    }
}

/// The order and its units.
fn known_order(text: &str) -> Option<(OrderId, u32)> {
    let (order, units) = text.split_once(' ')?;
    Some((OrderId::parse(order)?, units.parse().ok()?))
}
