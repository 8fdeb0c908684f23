//! The entries that were put aside, as an operator looks at them.

use std::sync::LazyLock;

use redis::streams::StreamRangeReply;
use redis::{RedisResult, Script};

use super::reader::PARKED_MAX;
use super::{Intention, Queue};
use crate::domain::ItemId;

static UNPARK: LazyLock<Script> = LazyLock::new(|| Script::new(include_str!("unpark.lua")));

/// What becomes of an entry that was put aside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unpark {
    /// It goes back into the queue, behind those that wait.
    Retry,
    /// It is gone.
    Forget,
}

/// An entry that could not be decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parked {
    /// Its id among those that were put aside.
    pub id: String,
    /// The order, or the text that is none.
    pub order: Result<Intention, String>,
    /// Why it was put aside.
    pub why: String,
}

impl Queue {
    /// An item's entries that were put aside, oldest first.
    ///
    /// # Errors
    /// Redis'.
    pub async fn parked(&self, item: ItemId) -> RedisResult<Vec<Parked>> {
        let mut command = redis::cmd("XRANGE");
        command.arg(self.key(item, "parked")).arg("-").arg("+").arg("COUNT").arg(PARKED_MAX);
        let found: StreamRangeReply = command.query_async(&mut self.redis.shared()).await?;
        let parked = found.ids.into_iter().map(|entry| {
            let text: String = entry.get("order").unwrap_or_default();
            let why = entry.get("why").unwrap_or_default();
            Parked { order: Intention::read(&text).ok_or(text), why, id: entry.id }
        });
        Ok(parked.collect())
    }

    /// Takes an entry out of those that were put aside; whether it was there. It is still queued
    /// until it is decided: see [`Reader::settle_parked`](super::Reader::settle_parked).
    ///
    /// # Errors
    /// Redis'; doing it again is fine.
    pub async fn unpark(&self, item: ItemId, entry: &str, how: Unpark) -> RedisResult<bool> {
        let mut call = UNPARK.key(self.key(item, "queue"));
        call.key(self.key(item, "parked")).arg(entry).arg(u8::from(how == Unpark::Retry));
        let was_there: u8 = call.invoke_async(&mut self.redis.shared()).await?;
        Ok(was_there == 1)
    }
}
