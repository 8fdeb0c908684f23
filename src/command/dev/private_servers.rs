//! The private servers of `seckill dev`, in the shapes that `--mysql` and `--redis` name.

use std::path::Path;

use clap::ValueEnum;
use dev_servers::{
    Certificates, EtcdServer, MysqlOptions, MysqlServer, MysqlSet, RedisCluster,
    RedisClusterOptions, RedisOptions, RedisSentinels, RedisServer, StartError, VitessServer,
    ZookeeperServer,
};
use futures::future::{self, LocalBoxFuture};

use crate::config::Config;
use settings::Secret;

/// A way to replicate the ledger, for `--mysql`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Replication {
    /// Two MariaDB servers with semi-synchronous replication.
    Semisync,
    /// Three MySQL servers with Group Replication; needs SECKILL_MYSQLD=$(scripts/mysql-sid).
    Group,
    /// Three nodes of MariaDB with Galera; needs `scripts/install-packages galera`.
    Galera,
    /// Vitess over one MySQL server; needs `scripts/vitess-program` and `scripts/mysql-sid`.
    Vitess,
}

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

/// The shapes of the servers.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The replication of the ledger; `None` is one server.
    pub mysql: Option<Replication>,
    /// The shape of Redis.
    pub redis: RedisShape,
}

/// A server, or several that work together.
pub trait Running {
    /// What the program says about its version.
    fn version(&self) -> &str;

    /// Stops, and returns when all has ended.
    fn stop(&self) -> LocalBoxFuture<'_, ()>;

    /// Waits until the service can no longer work with it: for ever, if it works without some of its servers.
    fn ended(&self) -> LocalBoxFuture<'_, StartError> {
        Box::pin(future::pending())
    }
}

/// Implements the trait by the methods of the type that have the same names.
macro_rules! running {
    ($server:ty $(, $ended:ident)?) => {
        impl Running for $server {
            fn version(&self) -> &str {
                self.version()
            }

            fn stop(&self) -> LocalBoxFuture<'_, ()> {
                Box::pin(self.stop())
            }

            $(fn $ended(&self) -> LocalBoxFuture<'_, StartError> {
                Box::pin(self.$ended())
            })?
        }
    };
}

running!(MysqlServer, ended);
running!(MysqlSet, ended);
running!(VitessServer, ended);
running!(RedisServer, ended);
running!(RedisSentinels);
running!(RedisCluster);
running!(ZookeeperServer, ended);
running!(EtcdServer, ended);

/// The servers that were started.
#[derive(Default)]
pub struct Servers(pub Vec<Box<dyn Running>>);

impl Servers {
    /// Starts the ledger and Redis, with their data in folders below `dir`, and writes their addresses into `config`.
    ///
    /// # Errors
    /// The error of the server that did not start.
    pub async fn start(shape: Shape, config: &mut Config, dir: &Path) -> Result<Self, StartError> {
        let redis = start_redis(shape.redis, config, dir);
        let ledger = start_ledger(shape.mysql, dir);
        let (redis, ledger) = tokio::try_join!(redis, ledger)?;
        config.database_url = Secret::new(ledger.1);
        Ok(Self(vec![ledger.0, redis]))
    }

    /// Stops all servers at the same time, and returns when they have ended.
    pub async fn stop(&self) {
        future::join_all(self.0.iter().map(|server| server.stop())).await;
    }

    /// Waits until the service can no longer work with one of them, and tells which.
    pub async fn ended(&self) -> StartError {
        // There may be no server at all.
        let never: LocalBoxFuture<'_, StartError> = Box::pin(future::pending());
        let ends = self.0.iter().map(|server| server.ended()).chain([never]);
        future::select_all(ends).await.0
    }
}

/// Starts the servers of the ledger with their data in a folder below `dir`. Returns their URL, too.
async fn start_ledger(
    shape: Option<Replication>,
    dir: &Path,
) -> Result<(Box<dyn Running>, String), StartError> {
    let (engine, folder) = match shape {
        None => {
            let server = MysqlServer::start(MysqlOptions::new(dir.join("mysql"))).await?;
            let url = server.url();
            return Ok((Box::new(server), url));
        }
        Some(Replication::Vitess) => {
            let server = VitessServer::start(&dir.join("mysql-vitess")).await?;
            let url = server.url();
            return Ok((Box::new(server), url));
        }
        Some(Replication::Semisync) => (dev_servers::Replication::SemiSync, "mysql-semisync"),
        Some(Replication::Group) => (dev_servers::Replication::Group, "mysql-group"),
        Some(Replication::Galera) => (dev_servers::Replication::Galera, "mysql-galera"),
    };
    let set = MysqlSet::start(engine, &dir.join(folder)).await?;
    let url = set.url();
    Ok((Box::new(set), url))
}

/// Starts the servers of a shape of Redis, with their data below `dir`, and writes their address, and the files of the
/// certificates, into `config`.
async fn start_redis(
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
