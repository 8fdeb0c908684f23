//! The strategies, their counters in Redis and in memory, and the queue of `redis-stream`.

pub mod counters;
pub mod dead_letters;
pub mod late;
pub mod loads;
pub mod reconcile;
pub mod redis_costs;
pub mod redis_lua;
pub mod replay;
pub mod strategies;
pub mod stream;
pub mod unit_rows;
