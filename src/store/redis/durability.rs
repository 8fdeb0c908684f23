//! The durability of Redis by its own settings, which decides how safe a queued order is.

use redis::{InfoDict, RedisResult};

use super::RedisClient;

/// The durability of writes to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// In memory only, or in snapshots now and then.
    Memory,
    /// In the append-only file, whenever the system writes it to disk.
    Log,
    /// In the append-only file, on disk once a second.
    LogEverySecond,
    /// In the append-only file, on disk before the answer.
    LogAlways,
    /// The server did not answer the question.
    Unknown,
}

impl Durability {
    /// Reads the server's settings. A managed server may refuse `CONFIG`; then the answer is
    /// `Unknown`.
    ///
    /// # Errors
    /// When Redis does not answer.
    pub async fn ask(redis: &RedisClient) -> RedisResult<Self> {
        let mut connection = redis.shared();
        let info: InfoDict =
            redis::cmd("INFO").arg("persistence").query_async(&mut connection).await?;
        match info.get::<u8>("aof_enabled") {
            Some(1) => {}
            Some(_) => return Ok(Self::Memory),
            None => return Ok(Self::Unknown),
        }
        let asked: RedisResult<(String, String)> =
            redis::cmd("CONFIG").arg("GET").arg("appendfsync").query_async(&mut connection).await;
        Ok(match asked.as_ref().map(|(_, value)| value.as_str()) {
            Ok("always") => Self::LogAlways,
            Ok("everysec") => Self::LogEverySecond,
            Ok("no") => Self::Log,
            _ => Self::Unknown,
        })
    }

    /// The promise of the answer 202 with this durability, in a sentence.
    #[must_use]
    pub fn promise(self) -> &'static str {
        match self {
            Self::Memory => {
                "Queued in Redis' memory only (no append-only file): a crash of Redis loses every queued order."
            }
            Self::Log => {
                "Queued in Redis' log (appendfsync no): it outlives Redis, and a crash of its machine loses what the system had not written, usually half a minute."
            }
            Self::LogEverySecond => {
                "Queued in Redis' log (appendfsync everysec): a crash of its machine, or of Redis while the disk is slow, loses up to about two seconds."
            }
            Self::LogAlways => {
                "Queued on Redis' disk (appendfsync always): it outlives a crash of Redis and of its machine, but not a failover to a replica."
            }
            Self::Unknown => {
                "Queued in Redis, which does not tell how it writes to disk: a crash may lose queued orders."
            }
        }
    }
}
