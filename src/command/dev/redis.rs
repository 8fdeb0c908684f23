//! The private Redis of `seckill dev`, in the wanted shape.

use std::path::Path;

use crate::config::Config;
use clap::ValueEnum;
use dev_servers::{
    Certificates, RedisCluster, RedisClusterOptions, RedisOptions, RedisSentinels, RedisServer,
    StartError,
};
use settings::Secret;

use super::private_servers::Running;

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

impl RedisShape {
    /// The shape that a word of `SECKILL_WITH` names.
    pub fn of_word(word: &str) -> Option<Self> {
        Self::from_str(word.strip_prefix("redis-")?, false).ok()
    }
}

/// Starts the servers of a shape, with their data below `dir`, and writes their address, and the files of the
/// certificates, into `config`.
///
/// # Errors
/// The error of the server that did not start.
pub async fn start(
    shape: RedisShape,
    config: &mut Config,
    dir: &Path,
) -> Result<Box<dyn Running>, StartError> {
    match shape {
        RedisShape::Single => {
            let server = RedisServer::start(RedisOptions::new(dir.join("redis"))).await?;
            config.redis_url = Secret::new(server.url());
            Ok(Box::new(server))
        }
        RedisShape::Tls => {
            let mut options = RedisOptions::new(dir.join("redis-tls"));
            options.certificates = Some(Certificates::make(true)?);
            let server = RedisServer::start(options).await?;
            // A unix socket needs no TLS.
            config.redis_url = Secret::new(server.tcp_url());
            if let Some([root, client, key]) = server.certificate_files() {
                config.redis.root_file = root;
                config.redis.client_file = client;
                config.redis.client_key_file = key;
            }
            Ok(Box::new(server))
        }
        RedisShape::Sentinel => {
            let group = RedisSentinels::start(Some(dir.join("redis-sentinel"))).await?;
            config.redis_url = Secret::new(group.url());
            Ok(Box::new(group))
        }
        RedisShape::Cluster => {
            let data_dir = Some(dir.join("redis-cluster"));
            let options = RedisClusterOptions { data_dir, ..RedisClusterOptions::default() };
            let cluster = RedisCluster::start(options).await?;
            config.redis_url = Secret::new(cluster.url());
            Ok(Box::new(cluster))
        }
    }
}
