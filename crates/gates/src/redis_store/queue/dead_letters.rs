//! Dead letters: entries of a queue that could not be decided, kept for an operator.

use std::sync::LazyLock;

use redis::RedisResult;
use redis::streams::StreamRangeReply;
use redis_connection::Script;

use super::reader::DEAD_LETTERS_MAX;
use super::{Intention, Queue};
use shop_domain::ItemId;

static RESOLVE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("resolve_dead_letter.lua")));

/// The resolution of a dead letter by an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// Put the entry back into the queue, behind the entries that wait.
    Retry,
    /// Delete the entry.
    Delete,
}

/// An entry that could not be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadLetter {
    /// Its id among the dead letters of its item.
    pub id: String,
    /// The order, or the text that cannot be read as one.
    pub order: Result<Intention, String>,
    /// The reason why it could not be decided.
    pub why: String,
}

impl Queue {
    /// Lists the dead letters of an item, oldest first.
    pub async fn dead_letters(&self, item: ItemId) -> RedisResult<Vec<DeadLetter>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(self.key(item, "parked")).arg("-").arg("+").arg("COUNT").arg(DEAD_LETTERS_MAX);
        let found: StreamRangeReply = command.query_async(&mut self.redis.shared()).await?;
        let letters = found.ids.into_iter().map(|entry| {
            let text: String = entry.get("order").unwrap_or_default();
            let why = entry.get("why").unwrap_or_default();
            DeadLetter { order: Intention::read(&text).ok_or(text), why, id: entry.id }
        });
        Ok(letters.collect())
    }

    /// Returns whether an order is queued with this text: it holds its units, also where this program cannot read it.
    ///
    /// # Errors
    /// Redis'.
    pub async fn is_queued(&self, item: ItemId, text: &str) -> RedisResult<bool> {
        let mut command = redis::cmd("HVALS");
        command.arg(self.key(item, "queued"));
        let queued: Vec<String> = command.query_async(&mut self.redis.shared()).await?;
        Ok(queued.iter().any(|queued| queued == text))
    }

    /// Removes an entry from the dead letters; answers whether it was there. Its order is still
    /// queued until it is acknowledged: see [`NO_ENTRY`](super::NO_ENTRY).
    ///
    /// # Errors
    /// Redis'; doing it again is fine.
    pub async fn resolve_dead_letter(
        &self,
        item: ItemId,
        entry: &str,
        resolution: Resolution,
    ) -> RedisResult<bool> {
        let mut call = RESOLVE.key(self.key(item, "queue"));
        let retry = u8::from(resolution == Resolution::Retry);
        call.key(self.key(item, "parked")).arg(entry).arg(retry);
        let was_there: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(was_there == 1)
    }
}
