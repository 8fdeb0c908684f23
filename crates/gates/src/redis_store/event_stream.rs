//! Events as entries of a Redis stream.

use redis::{RedisResult, pipe};

use super::RedisClient;

/// The fields of an entry.
#[derive(Clone, Copy, Debug)]
pub struct StreamEntry<'a> {
    /// The id of the event, to drop doubles by.
    pub id: &'a str,
    /// Its position in the log.
    pub position: i64,
    /// Its type.
    pub kind: &'a str,
    /// The time of the change, RFC 3339.
    pub timestamp: &'a str,
    /// Its data, as JSON.
    pub data: &'a str,
}

/// Appends entries to the stream `name`, all or none, and cuts it to about `length_max`.
///
/// # Errors
/// Redis'; then they may have been appended.
pub async fn append(
    redis: &RedisClient,
    name: &str,
    entries: &[StreamEntry<'_>],
    length_max: u64,
) -> RedisResult<()> {
    let key = format!("{}events:{name}", redis.prefix());
    let mut pipe = pipe();
    pipe.atomic();
    for entry in entries {
        pipe.cmd("XADD").arg(&key).arg("MAXLEN").arg("~").arg(length_max).arg("*");
        pipe.arg("id").arg(entry.id).arg("position").arg(entry.position);
        pipe.arg("type").arg(entry.kind).arg("timestamp").arg(entry.timestamp);
        pipe.arg("data").arg(entry.data).ignore();
    }
    pipe.exec_async(&mut redis.shared()).await
}
