//! The private servers of `seckill dev`: Redis, and one database or the replicated set that
//! `--mysql` names.

use std::path::Path;

use dev_servers::{MysqlOptions, MysqlPair, MysqlServer, RedisOptions, RedisServer, StartError};

/// A way to replicate the ledger, for `--mysql`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Replicated {
    /// Two MariaDB servers with semi-synchronous replication.
    Semisync,
}

/// The servers that were started.
pub struct PrivateServers {
    ledger: Ledger,
    redis: RedisServer,
}

enum Ledger {
    One(Box<MysqlServer>),
    Pair(Box<MysqlPair>),
}

impl PrivateServers {
    /// Starts the servers, with their data in folders below `dir`.
    ///
    /// # Errors
    /// The error of the server that did not start.
    pub async fn start(replicated: Option<Replicated>, dir: &Path) -> Result<Self, StartError> {
        let redis = RedisServer::start(RedisOptions::new(dir.join("redis")));
        let ledger = async {
            Ok(match replicated {
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
        Ok(Self { ledger, redis })
    }

    /// The value for `DATABASE_URL`.
    pub fn database_url(&self) -> String {
        match &self.ledger {
            Ledger::One(server) => server.url(),
            Ledger::Pair(pair) => pair.url(),
        }
    }

    /// The value for `REDIS_URL`.
    pub fn redis_url(&self) -> String {
        self.redis.url()
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
