#![doc = include_str!("../README.md")]

mod error;
mod etcd;
pub mod faulty_link;
mod guardian;
mod home;
pub mod linearizability;
mod mysql;
mod ports;
mod program;
mod redis;
mod server;
mod small_disk;
mod temporary;
#[cfg(test)]
mod tests;
mod zookeeper;

use std::path::Path;

pub use self::error::StartError;
pub use self::etcd::{EtcdOptions, EtcdServer};
pub use self::mysql::set::{MysqlSet, Replicated};
pub use self::mysql::{DATABASE, MysqlOptions, MysqlServer};
pub use self::ports::free_port;
pub use self::redis::{
    AppendFsync, Certificates, PRIMARY, Part, RedisCluster, RedisClusterOptions, RedisOptions,
    RedisSentinels, RedisServer,
};
pub use self::server::Server;
pub use self::small_disk::SmallDisk;
pub use self::zookeeper::{ZookeeperEnsemble, ZookeeperOptions, ZookeeperServer};

/// A database server and a Redis server that belong together.
#[derive(Debug)]
pub struct Servers {
    /// The ledger's database server.
    pub mysql: MysqlServer,
    /// The gates' Redis server.
    pub redis: RedisServer,
}

impl Servers {
    /// Starts both servers at the same time, with their data in `data_dir/mysql` and
    /// `data_dir/redis`, and returns once both answer. A second start finds the data again.
    ///
    /// # Errors
    /// The sentence of the first server that did not start; the other one is stopped again.
    pub async fn start(data_dir: &Path) -> Result<Self, StartError> {
        Self::start_both(
            MysqlOptions::new(data_dir.join("mysql")),
            RedisOptions::new(data_dir.join("redis")),
        )
        .await
    }

    /// Starts both servers in throw-away directories, which are removed when the servers end,
    /// even after a `kill -9` of this process. Meant for tests.
    pub async fn start_temporary() -> Result<Self, StartError> {
        Self::start_both(MysqlOptions::temporary(), RedisOptions::temporary()).await
    }

    /// Stops both servers at the same time, and returns when both have ended.
    pub async fn stop(&self) {
        tokio::join!(self.mysql.stop(), self.redis.stop());
    }

    /// Waits until one of the two servers has ended, and tells which, with the end of its log.
    pub async fn ended(&self) -> StartError {
        tokio::select! {
            error = self.mysql.ended() => error,
            error = self.redis.ended() => error,
        }
    }

    async fn start_both(
        mysql_options: MysqlOptions,
        redis_options: RedisOptions,
    ) -> Result<Self, StartError> {
        let (mysql, redis) =
            tokio::try_join!(MysqlServer::start(mysql_options), RedisServer::start(redis_options))?;
        Ok(Self { mysql, redis })
    }
}
