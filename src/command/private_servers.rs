//! The private servers of `seckill dev`, in the shapes that `--mysql` and `--redis` name.

use std::path::Path;

use dev_servers::{MysqlOptions, MysqlPair, MysqlServer, StartError};

use super::dev_redis::{PrivateRedis, RedisShape};
use crate::config::{Config, Secret};

/// A way to replicate the ledger, for `--mysql`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Replicated {
    /// Two MariaDB servers with semi-synchronous replication.
    Semisync,
}

/// The shapes of the servers.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The replication of the ledger; `None` is one server.
    pub mysql: Option<Replicated>,
    /// The shape of Redis.
    pub redis: RedisShape,
}

/// The servers that were started.
pub struct PrivateServers {
    ledger: Ledger,
    redis: PrivateRedis,
}

enum Ledger {
    One(Box<MysqlServer>),
    Pair(Box<MysqlPair>),
}

impl PrivateServers {
    /// Starts the servers, with their data in folders below `dir`, and writes their addresses into
    /// `config`.
    ///
    /// # Errors
    /// The error of the server that did not start.
    pub async fn start(shape: Shape, config: &mut Config, dir: &Path) -> Result<Self, StartError> {
        let redis = PrivateRedis::start(shape.redis, dir);
        let ledger = async {
            Ok(match shape.mysql {
                None => {
                    let options = MysqlOptions::new(dir.join("mysql"));
                    Ledger::One(Box::new(MysqlServer::start(options).await?))
                }
                Some(Replicated::Semisync) => {
                    Ledger::Pair(Box::new(MysqlPair::start(&dir.join("mysql-semisync")).await?))
                }
            })
        };
        let (redis, ledger) = tokio::try_join!(redis, ledger)?;
        let servers = Self { ledger, redis };
        config.database_url = Secret::new(servers.database_url());
        servers.redis.configure(config);
        Ok(servers)
    }

    fn database_url(&self) -> String {
        match &self.ledger {
            Ledger::One(server) => server.url(),
            Ledger::Pair(pair) => pair.url(),
        }
    }

    /// What the servers say about their versions.
    pub fn versions(&self) -> [&str; 2] {
        let ledger = match &self.ledger {
            Ledger::One(server) => server.version(),
            Ledger::Pair(pair) => pair.version(),
        };
        [ledger, self.redis.version()]
    }

    /// Stops all servers at the same time, and returns when they have ended.
    pub async fn stop(&self) {
        let ledger = async {
            match &self.ledger {
                Ledger::One(server) => server.stop().await,
                Ledger::Pair(pair) => pair.stop().await,
            }
        };
        tokio::join!(ledger, self.redis.stop());
    }

    /// Waits until Redis or the ledger has ended, and tells which.
    pub async fn ended(&self) -> StartError {
        let ledger = async {
            match &self.ledger {
                Ledger::One(server) => server.ended().await,
                Ledger::Pair(pair) => pair.ended().await,
            }
        };
        tokio::select! {
            error = ledger => error,
            error = self.redis.ended() => error,
        }
    }
}
