#![doc = include_str!("../README.md")]

mod error;
mod etcd;
mod guardian;
mod home;
mod mysql;
mod ports;
mod program;
mod redis;
mod server;
mod temporary;
#[cfg(test)]
mod tests;
mod zookeeper;

use std::sync::{Mutex, MutexGuard, PoisonError};

pub use self::error::StartError;
pub use self::etcd::{EtcdOptions, EtcdServer};
pub use self::mysql::set::{MysqlSet, Replication};
pub use self::mysql::vitess::VitessServer;
pub use self::mysql::vitess_cluster::{NewShard, ONLY_SHARD, OldServer, VitessCluster};
pub use self::mysql::{DATABASE, MysqlOptions, MysqlServer, OPERATOR};
pub use self::ports::free_port;
pub use self::program::{find as find_program, libfaketime};
pub use self::redis::{
    Certificates, PRIMARY, Part, RedisCluster, RedisClusterOptions, RedisOptions, RedisSentinels,
    RedisServer,
};
pub use self::server::{Recipe, Server};
pub use self::zookeeper::{ZookeeperEnsemble, ZookeeperOptions, ZookeeperServer};

/// Locks a value of which every panic leaves a usable one.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
