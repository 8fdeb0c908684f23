//! The durability of Redis according to its settings, which decides how safe a queued order is.

use redis::RedisResult;

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
    /// Reads the servers' settings; the weakest of all primaries counts. A managed server may refuse
    /// `CONFIG`; then the answer is `Unknown`.
    ///
    /// # Errors
    /// When a server does not answer.
    pub async fn ask(redis: &RedisClient) -> RedisResult<Self> {
        let infos = redis.info_of_each().await?;
        let enabled: Option<Vec<u8>> = infos.iter().map(|info| info.get("aof_enabled")).collect();
        match enabled {
            None => return Ok(Self::Unknown),
            Some(enabled) if enabled.contains(&0) => return Ok(Self::Memory),
            Some(_) => {}
        }
        let settings = redis.setting_of_each("appendfsync").await?;
        let of_one = |setting: Option<String>| match setting.as_deref() {
            Some("always") => Self::LogAlways,
            Some("everysec") => Self::LogEverySecond,
            Some("no") => Self::Log,
            _ => Self::Unknown,
        };
        let all: Vec<Self> = settings.into_iter().map(of_one).collect();
        let weakest = [Self::Unknown, Self::Log, Self::LogEverySecond];
        Ok(weakest.into_iter().find(|one| all.contains(one)).unwrap_or(Self::LogAlways))
    }

    /// The promise of the answer 202 with this durability, in a sentence or two. `replicas_min`
    /// replicas have the order by then.
    pub fn promise(self, replicas_min: u32) -> String {
        let disk = self.on_disk();
        match replicas_min {
            0 => disk.to_owned(),
            1 => format!("{disk} One replica has it in memory before the answer."),
            many => format!("{disk} {many} replicas have it in memory before the answer."),
        }
    }

    fn on_disk(self) -> &'static str {
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
                "Queued on Redis' disk (appendfsync always): it outlives a crash of Redis and of its machine, but not a failover to a replica that lacks it."
            }
            Self::Unknown => {
                "Queued in Redis, which does not tell how it writes to disk: a crash may lose queued orders."
            }
        }
    }
}
