//! The private Redis of `seckill dev`, in the wanted shape.

use std::path::Path;

use crate::config::Config;
use clap::ValueEnum;
use dev_servers::{
    Certificates, RedisCluster, RedisClusterOptions, RedisOptions, RedisSentinels, RedisServer,
    StartError,
};
use settings::Secret;

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

/// The Redis that was started.
pub enum PrivateRedis {
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

impl PrivateRedis {
    /// Starts the servers of a shape, with their data below `dir`.
    ///
    /// # Errors
    /// The error of the server that did not start.
    pub async fn start(shape: RedisShape, dir: &Path) -> Result<Self, StartError> {
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

    /// What the program says about its version.
    pub fn version(&self) -> &str {
        match self {
            Self::Single(server) => server.version(),
            Self::Sentinel(group) => group.version(),
            Self::Cluster(cluster) => cluster.version(),
        }
    }

    /// Writes the address, and the files of the certificates, into `config`.
    pub fn configure(&self, config: &mut Config) {
        config.redis_url = Secret::new(self.url());
        if let Self::Single(server) = self
            && let Some([root, client, key]) = server.certificate_files()
        {
            config.redis.root_file = root;
            config.redis.client_file = client;
            config.redis.client_key_file = key;
        }
    }

    /// Stops all servers, and returns when they have ended.
    pub async fn stop(&self) {
        match self {
            Self::Single(server) => server.stop().await,
            Self::Sentinel(group) => group.stop().await,
            Self::Cluster(cluster) => cluster.stop().await,
        }
    }

    /// Waits until the service can no longer work with them. Sentinels and a cluster work without
    /// some of their servers.
    pub async fn ended(&self) -> StartError {
        match self {
            Self::Single(server) => server.ended().await,
            _ => std::future::pending().await,
        }
    }
}
