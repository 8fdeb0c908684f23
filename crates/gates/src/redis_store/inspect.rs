//! Reads counters without loading them, and repairs them: for the audit and the reconciliation.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use redis_connection::Script;

use super::counters::{Counter, CounterAndQueue, CounterError, Counters};
use shop_domain::ItemId;

/// Script that reads counter and queue at one moment. Not MULTI: redis-rs panics when a server
/// refuses one.
static BOTH: LazyLock<Script> = LazyLock::new(|| {
    Script::new(
        "local seen = redis.call('HMGET', KEYS[1], 'epoch', 'available') \
         return {seen[1], seen[2], redis.call('HGET', KEYS[2], 'units')}",
    )
});
static REPAIR: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_repair.lua")));
static FORGET: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("counter_forget.lua")));

impl Counters {
    /// The servers that have the parts of an item's counter. One that is not known now has an empty name.
    pub fn servers(&self, item: ItemId) -> BTreeSet<String> {
        let redis = self.redis.shared();
        let tag = |part: usize| match self.layout.parts {
            1 => format!("item:{item}"),
            _ => format!("item:{item}:{part}"),
        };
        let servers = (0..self.layout.parts).map(|part| redis.server_of_tag(&tag(part)));
        servers
            .map(|server| server.map_or_else(String::new, |node| node.name().to_owned()))
            .collect()
    }

    /// Reads a counter, loaded or not, of any epoch. Of several parts it answers the sum and the
    /// oldest epoch; `None` if one is missing.
    pub async fn peek(&self, item: ItemId) -> Result<Option<Counter>, CounterError> {
        self.peek_on(&mut self.redis.shared(), item).await
    }

    /// Reads a counter like [`Counters::peek`], together with the units in the item's queue.
    pub async fn peek_with_queue(
        &self,
        item: ItemId,
    ) -> Result<Option<CounterAndQueue>, CounterError> {
        let mut both = BOTH.key(self.key(item));
        both.key(self.redis.item_key(item, "queued"));
        let (epoch, available, queued): (Option<u64>, Option<i64>, Option<i64>) =
            both.invoke_async(&mut self.redis.shared()).await?;
        Ok(epoch.zip(available).map(|(epoch, available)| CounterAndQueue {
            counter: Counter { available, epoch },
            queued: queued.unwrap_or(0),
        }))
    }

    pub(super) async fn peek_on<C>(
        &self,
        connection: &mut C,
        item: ItemId,
    ) -> Result<Option<Counter>, CounterError>
    where
        C: redis::aio::ConnectionLike + Send,
    {
        let parts = self.peek_parts_on(connection, item).await?;
        Ok(parts.and_then(|parts| {
            parts.into_iter().reduce(|sum, part| Counter {
                available: sum.available + part.available,
                epoch: sum.epoch.min(part.epoch),
            })
        }))
    }

    /// Reads every part by itself; `None` if one is missing.
    pub(super) async fn peek_parts_on<C>(
        &self,
        connection: &mut C,
        item: ItemId,
    ) -> Result<Option<Vec<Counter>>, CounterError>
    where
        C: redis::aio::ConnectionLike + Send,
    {
        let mut parts = Vec::with_capacity(self.layout.parts);
        for part in 0..self.layout.parts {
            let (epoch, available): (Option<u64>, Option<i64>) = redis::cmd("HMGET")
                .arg(self.key_of(item, part))
                .arg(&["epoch", "available"])
                .query_async(connection)
                .await?;
            let (Some(epoch), Some(available)) = (epoch, available) else { return Ok(None) };
            parts.push(Counter { available, epoch });
        }
        Ok(Some(parts))
    }

    /// Removes the counter with the units of its buyers, and the item's queue and dead letters if they are empty. Each is
    /// made again when it is used again.
    ///
    /// # Errors
    /// Redis'; doing it again is fine.
    pub async fn forget(&self, item: ItemId) -> Result<(), CounterError> {
        for part in 0..self.layout.parts {
            let mut call = FORGET.key(self.key_of(item, part));
            if self.layout.parts == 1 {
                call.key(self.redis.item_key(item, "queue"));
                call.key(self.redis.item_key(item, "parked"));
            }
            call.invoke_async::<()>(&mut self.redis.shared()).await?;
        }
        Ok(())
    }

    /// Sets the counter to the ledger's figure at `version` of the stock, minus the queued units,
    /// if counter and queue are still as they were read; answers whether it was set.
    pub async fn repair(
        &self,
        item: ItemId,
        seen: CounterAndQueue,
        available: i64,
        version: u64,
    ) -> Result<bool, CounterError> {
        self.set_part(item, 0, seen, available, Some(version)).await
    }

    /// Sets one part of a counter, if it is still as it was read. A split counter has no queue and no `version`.
    pub(super) async fn set_part(
        &self,
        item: ItemId,
        part: usize,
        seen: CounterAndQueue,
        available: i64,
        version: Option<u64>,
    ) -> Result<bool, CounterError> {
        assert!(part < self.layout.parts, "a repair is of a part that the counter has");
        let mut call = REPAIR.key(self.key_of(item, part));
        if self.layout.parts == 1 {
            call.key(self.redis.item_key(item, "queued"));
        }
        call.arg(seen.counter.epoch).arg(seen.counter.available).arg(seen.queued).arg(available);
        if let Some(version) = version {
            call.arg(version);
        }
        let set: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(set == 1)
    }
}
