//! Questions about many items at once, with an answer for each item.
//!
//! The items of one server are asked in one pipeline, and the servers at the same time: in a cluster
//! a server that is away leaves only its own items without an answer.

use std::collections::BTreeMap;
use std::time::Duration;

use futures::stream::{FuturesUnordered, Stream, StreamExt};
use redis::aio::ConnectionLike;
use redis::{Cmd, FromRedisValue, Pipeline, RedisResult, Value, from_redis_value};
use tokio::time::timeout;

use super::{QUEUES_TOGETHER_MAX, Queue};
use shop_domain::ItemId;

/// How long one server may take to answer for its items, in milliseconds: more than a busy server
/// needs, and less than the sender of an HTTP request waits. A server that is away would be waited
/// for until `redis.retry_ms_max`.
const ANSWER_MS_MAX: u64 = 800;

/// The answer for one item.
pub(super) type Answer<T> = (ItemId, RedisResult<T>);

impl Queue {
    /// Sends the `commands` of each item, and returns the answers of each part as soon as its server
    /// has sent them. `T` is read from the list of an item's answers.
    pub(super) fn ask_per_item<'a, T: FromRedisValue + 'a>(
        &'a self,
        items: &[ItemId],
        commands: impl Fn(ItemId) -> Vec<Cmd> + Copy + 'a,
    ) -> impl Stream<Item = Vec<Answer<T>>> + 'a {
        let mut servers: BTreeMap<String, Vec<ItemId>> = BTreeMap::new();
        for &item in items {
            let server = self.redis.shared().server_of_tag(&format!("item:{item}"));
            let name = server.map(|server| server.name().to_owned()).unwrap_or_default();
            servers.entry(name).or_default().push(item);
        }
        let parts: FuturesUnordered<_> = servers
            .into_values()
            .flat_map(|items| {
                let parts = items.chunks(QUEUES_TOGETHER_MAX).map(<[ItemId]>::to_vec);
                parts.collect::<Vec<_>>()
            })
            .map(|items| async move { self.ask_part(items, commands).await })
            .collect();
        parts
    }

    /// Asks every item, and returns the answers in no order.
    pub(super) async fn ask_all<T: FromRedisValue>(
        &self,
        items: &[ItemId],
        commands: impl Fn(ItemId) -> Vec<Cmd> + Copy,
    ) -> Vec<Answer<T>> {
        self.ask_per_item(items, commands).concat().await
    }

    async fn ask_part<T: FromRedisValue>(
        &self,
        items: Vec<ItemId>,
        commands: impl Fn(ItemId) -> Vec<Cmd>,
    ) -> Vec<Answer<T>> {
        let mut pipeline = Pipeline::new();
        let mut counts = Vec::with_capacity(items.len());
        for &item in &items {
            let commands = commands(item);
            counts.push(commands.len());
            for command in commands {
                pipeline.add_command(command);
            }
        }
        let mut redis = self.redis.shared();
        let asked = redis.req_packed_commands(&pipeline, 0, counts.iter().sum());
        let in_time = timeout(Duration::from_millis(ANSWER_MS_MAX), asked).await;
        let too_late = |_| std::io::Error::from(std::io::ErrorKind::TimedOut).into();
        let mut values = match in_time.map_err(too_late).flatten() {
            Ok(values) => values.into_iter(),
            Err(error) => {
                return items.into_iter().map(|item| (item, Err(error.clone()))).collect();
            }
        };
        let mut read = |count| {
            let values: Vec<Value> = values.by_ref().take(count).collect();
            Ok(from_redis_value(Value::Array(values).extract_error()?)?)
        };
        items.into_iter().zip(counts).map(|(item, count)| (item, read(count))).collect()
    }
}
