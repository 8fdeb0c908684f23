//! The private servers of `seckill dev`: a database, and a Redis of the wanted shape.

use std::path::Path;

use clap::ValueEnum;
use dev_servers::{
    Certificates, MysqlOptions, MysqlServer, RedisCluster, RedisClusterOptions, RedisOptions,
    RedisSentinels, RedisServer, StartError,
};
use seckill::config::{Config, Secret};

/// What stands behind REDIS_URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum RedisShape {
    /// One server.
    #[default]
    Single,
    /// One server with TLS.
    Tls,
    /// A primary, two replicas, and three Sentinels.
    Sentinel,
    /// Three primaries with a replica each.
    Cluster,
}

/// The servers that were started.
pub struct Servers {
    mysql: MysqlServer,
    redis: Redis,
}

enum Redis {
    Single(Box<RedisServer>),
    Sentinel(RedisSentinels),
    Cluster(RedisCluster),
}

impl RedisShape {
    /// The shape that a word of `SECKILL_WITH` names.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::from_str(word.strip_prefix("redis-")?, false).ok()
    }
}

impl Servers {
    /// Starts the servers with their data below `dir`, and writes their addresses into `config`.
    ///
    /// # Errors
    /// The error of the first server that did not start; the others are stopped again.
    pub async fn start(
        shape: RedisShape,
        config: &mut Config,
        dir: &Path,
    ) -> Result<Self, StartError> {
        let mysql = MysqlServer::start(MysqlOptions::new(dir.join("mysql")));
        let (mysql, redis) = tokio::try_join!(mysql, Redis::start(shape, dir))?;
        config.database_url = Secret::new(mysql.url());
        config.redis_url = Secret::new(redis.url());
        if let Redis::Single(server) = &redis
            && let Some([root, client, key]) = server.certificate_files()
        {
            (config.redis.root_file, config.redis.client_file) = (root, client);
            config.redis.client_key_file = key;
        }
        Ok(Self { mysql, redis })
    }

    /// What the programs say about their versions.
    pub fn versions(&self) -> [&str; 2] {
        [self.mysql.version(), self.redis.version()]
    }

    /// Stops all servers, and returns when they have ended.
    pub async fn stop(&self) {
        tokio::join!(self.mysql.stop(), async {
            match &self.redis {
                Redis::Single(server) => server.stop().await,
                Redis::Sentinel(group) => group.stop().await,
                Redis::Cluster(cluster) => cluster.stop().await,
            }
        });
    }

    /// Waits until the service can no longer work with them. Sentinels and a cluster work without
    /// some of their servers.
    pub async fn ended(&self) -> StartError {
        let redis = async {
            match &self.redis {
                Redis::Single(server) => server.ended().await,
                _ => std::future::pending().await,
            }
        };
        tokio::select! {
            error = self.mysql.ended() => error,
            error = redis => error,
        }
    }
}

impl Redis {
    async fn start(shape: RedisShape, dir: &Path) -> Result<Self, StartError> {
        Ok(match shape {
            RedisShape::Single => {
                let options = RedisOptions::new(dir.join("redis"));
                Self::Single(Box::new(RedisServer::start(options).await?))
            }
            RedisShape::Tls => {
                let mut options = RedisOptions::new(dir.join("redis-tls"));
                options.certificates = Some(Certificates::make(true)?);
                Self::Single(Box::new(RedisServer::start(options).await?))
            }
            RedisShape::Sentinel => {
                Self::Sentinel(RedisSentinels::start(Some(dir.join("redis-sentinel"))).await?)
            }
            RedisShape::Cluster => {
                let data_dir = Some(dir.join("redis-cluster"));
                let options = RedisClusterOptions { data_dir, ..RedisClusterOptions::default() };
                Self::Cluster(RedisCluster::start(options).await?)
            }
        })
    }

    fn url(&self) -> String {
        match self {
            // A unix socket needs no TLS.
            Self::Single(server) if server.certificate_files().is_some() => server.tcp_url(),
            Self::Single(server) => server.url(),
            Self::Sentinel(group) => group.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    fn version(&self) -> &str {
        match self {
            Self::Single(server) => server.version(),
            Self::Sentinel(group) => group.version(),
            Self::Cluster(cluster) => cluster.version(),
        }
    }
}
