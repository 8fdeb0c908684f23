//! The shop's Redis, read and changed behind the service's back.

use gates::redis_store::{Counters, RedisClient, SharedConnection};
use redis::FromRedisValue;
use shop_metrics::Metrics;

use super::Shop;

/// A connection to the shop's Redis, whatever its shape.
pub fn redis_of(shop: &Shop) -> SharedConnection {
    shop.redis_client().shared()
}

impl Shop {
    /// A client of the shop's Redis, whatever its shape.
    pub fn redis_client(&self) -> RedisClient {
        RedisClient::new(&self.config).expect("the URL is fine")
    }

    /// The counters in the shop's Redis, as an instance has them.
    pub fn counters(&self) -> Counters {
        Counters::new(self.redis_client(), self.pool.clone(), Metrics::new())
    }

    /// Sends a command to the shop's Redis.
    pub async fn redis<T: FromRedisValue>(&self, words: &[&str]) -> T {
        let answer = redis::cmd(words[0]).arg(&words[1..]).query_async(&mut redis_of(self)).await;
        answer.expect("Redis answers")
    }
}
