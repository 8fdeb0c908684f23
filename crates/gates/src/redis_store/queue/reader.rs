//! The consumers' side of the queues: read, take over, acknowledge, move to the dead letters.

use std::sync::LazyLock;
use std::time::Duration;

use futures::Stream;
use redis::streams::{StreamAutoClaimReply, StreamId, StreamReadReply};
use redis::{RedisError, RedisResult};
use redis_connection::Script;
use uuid::Uuid;

use super::request::request_of;
use super::{Intention, QUEUES_TOGETHER_MAX, Queue};
use ledger::rows::redis_lists;
use shop_domain::ItemId;

/// The consumer group, of which every instance is a member.
const GROUP: &str = "arbiter";
/// Dead letters per item; one more entry stays in the queue.
pub(super) const DEAD_LETTERS_MAX: usize = 1_000;
/// An id that no entry has, to acknowledge the order of a dead letter: the ids of Redis begin with the time.
pub const NO_ENTRY: &str = "0-1";
/// How long a sale must be over before its empty queue is removed from the list.
const SWEEP_AFTER_SECONDS: u32 = 60;

static ACK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("ack.lua")));
static MOVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("move_to_dead_letters.lua")));

/// One consumer of the group: one process.
#[derive(Clone)]
pub struct Reader {
    queue: Queue,
    name: String,
}

/// An entry of a queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its id in the stream.
    pub id: String,
    /// The order, or the text that cannot be read as one.
    pub order: Result<Intention, String>,
}

impl Reader {
    /// Makes a consumer with a unique name.
    pub fn new(queue: Queue) -> Self {
        Self { queue, name: Uuid::now_v7().to_string() }
    }

    /// The queues that it reads.
    pub fn queue(&self) -> &Queue {
        &self.queue
    }

    /// The next entries that no consumer has received, at most `count`.
    pub async fn read(&self, item: ItemId, count: usize) -> RedisResult<Vec<Entry>> {
        let mut command = redis::cmd("XREADGROUP");
        command.arg("GROUP").arg(GROUP).arg(&self.name).arg("COUNT").arg(count);
        command.arg("STREAMS").arg(self.queue.key(item, "queue")).arg(">");
        let mut connection = self.queue.redis.shared();
        let reply: Option<StreamReadReply> = match command.query_async(&mut connection).await {
            Err(error) if is_without_group(&error) => {
                self.make_group(item).await?;
                command.query_async(&mut connection).await?
            }
            reply => reply?,
        };
        let streams = reply.map(|reply| reply.keys).unwrap_or_default();
        Ok(streams.into_iter().flat_map(|stream| stream.ids).map(entry).collect())
    }

    /// Takes over at most `count` entries that a consumer, which may be dead, has had for longer
    /// than `idle`.
    pub async fn reclaim(
        &self,
        item: ItemId,
        idle: Duration,
        count: usize,
    ) -> RedisResult<Vec<Entry>> {
        let mut command = redis::cmd("XAUTOCLAIM");
        command.arg(self.queue.key(item, "queue")).arg(GROUP).arg(&self.name);
        command.arg(u64::try_from(idle.as_millis()).unwrap_or(u64::MAX)).arg("0-0");
        command.arg("COUNT").arg(count);
        let reply: RedisResult<StreamAutoClaimReply> =
            command.query_async(&mut self.queue.redis.shared()).await;
        match reply {
            Ok(reply) => Ok(reply.claimed.into_iter().map(entry).collect()),
            // No consumer has read yet, so there is no entry to take over.
            Err(error) if is_without_group(&error) => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// The number of times that an entry was delivered to a consumer.
    pub async fn deliveries(&self, item: ItemId, entry: &str) -> RedisResult<u64> {
        let rows: Vec<(String, String, u64, u64)> = redis::cmd("XPENDING")
            .arg(self.queue.key(item, "queue"))
            .arg(GROUP)
            .arg(entry)
            .arg(entry)
            .arg(1)
            .query_async(&mut self.queue.redis.shared())
            .await?;
        Ok(rows.first().map_or(0, |row| row.3))
    }

    /// Acknowledges an order that the ledger has decided: removes it from the queue, and gives its
    /// units back to the counter if `refused`. Answers whether it was in the queue.
    ///
    /// # Errors
    /// Redis'; the entry then comes again.
    pub async fn ack(
        &self,
        item: ItemId,
        entry: &str,
        order: &Intention,
        refused: bool,
    ) -> RedisResult<bool> {
        let mut call = ACK.key(self.queue.counters.key(item));
        call.key(self.queue.key(item, "queue")).key(self.queue.key(item, "queued"));
        call.arg(GROUP).arg(entry).arg(order.order.to_string()).arg(order.buyer.get());
        call.arg(order.quantity.units()).arg(u8::from(refused));
        call.arg(request_of(order.buyer, &order.key));
        let settled: u8 = call.invoke_async(&mut self.queue.redis.shared()).await?;
        if settled == 2 {
            let given_back = &self.queue.counters.metrics.counters_given_back;
            given_back.inc_by(order.quantity.units().into());
        }
        Ok(settled > 0)
    }

    /// Moves an entry to the dead letters; `false` when the item has [`DEAD_LETTERS_MAX`] already, or when another
    /// consumer has taken the entry out of the queue.
    pub async fn move_to_dead_letters(
        &self,
        item: ItemId,
        entry: &Entry,
        why: &str,
    ) -> RedisResult<bool> {
        let text = match &entry.order {
            Ok(order) => order.write(),
            Err(text) => text.clone(),
        };
        let mut call = MOVE.key(self.queue.key(item, "queue"));
        call.key(self.queue.key(item, "parked"));
        call.arg(GROUP).arg(&entry.id).arg(DEAD_LETTERS_MAX).arg(text).arg(why);
        let moved: u8 = call.invoke_async(&mut self.queue.redis.shared()).await?;
        Ok(moved == 1)
    }

    /// For each queue, the number of its entries, delivered or not, and the number of fields of the
    /// hash beside it: 0 when no order is queued, dead letters included. The queues of one server
    /// come together, as soon as it has answered.
    pub fn lengths<'a>(
        &'a self,
        items: &[ItemId],
    ) -> impl Stream<Item = Vec<(ItemId, RedisResult<(u64, u64)>)>> + 'a {
        self.queue.ask_per_item(items, |item| {
            let length = |command: &str, part: &str| {
                let mut command = redis::cmd(command);
                command.arg(self.queue.key(item, part));
                command
            };
            vec![length("XLEN", "queue"), length("HLEN", "queued")]
        })
    }

    /// Removes queues from the list that are empty and whose sale is over.
    pub async fn sweep(&self, empty: &[ItemId]) -> ledger::Result<()> {
        for items in empty.chunks(QUEUES_TOGETHER_MAX) {
            redis_lists::remove_queues(&self.queue.pool, items, SWEEP_AFTER_SECONDS).await?;
        }
        Ok(())
    }

    async fn make_group(&self, item: ItemId) -> RedisResult<()> {
        let made: RedisResult<()> = redis::cmd("XGROUP")
            .arg("CREATE")
            .arg(self.queue.key(item, "queue"))
            .arg(GROUP)
            .arg("0")
            .arg("MKSTREAM")
            .query_async(&mut self.queue.redis.shared())
            .await;
        match made {
            // Another instance has made the group.
            Err(error) if error.code() == Some("BUSYGROUP") => Ok(()),
            made => made,
        }
    }
}

fn is_without_group(error: &RedisError) -> bool {
    error.code() == Some("NOGROUP")
}

fn entry(read: StreamId) -> Entry {
    let text: String = read.get("order").unwrap_or_default();
    Entry { id: read.id, order: Intention::read(&text).ok_or(text) }
}
