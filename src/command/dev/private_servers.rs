//! The private servers of `seckill dev`, in the shapes that `--mysql` and `--redis` name.

use std::path::Path;

use dev_servers::{MysqlOptions, MysqlServer, MysqlSet, StartError, VitessServer};

use super::redis::{PrivateRedis, RedisShape};
use crate::config::Config;
use settings::Secret;

/// A way to replicate the ledger, for `--mysql`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
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

/// The shapes of the servers.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The replication of the ledger; `None` is one server.
    pub mysql: Option<Replication>,
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
    Several(Box<MysqlSet>),
    Vitess(Box<VitessServer>),
}

impl Ledger {
    /// Starts the servers with their data in a folder below `dir`.
    async fn start(shape: Option<Replication>, dir: &Path) -> Result<Self, StartError> {
        let (engine, folder) = match shape {
            None => {
                let options = MysqlOptions::new(dir.join("mysql"));
                return Ok(Self::One(Box::new(MysqlServer::start(options).await?)));
            }
            Some(Replication::Vitess) => {
                let started = VitessServer::start(&dir.join("mysql-vitess")).await?;
                return Ok(Self::Vitess(Box::new(started)));
            }
            Some(Replication::Semisync) => (dev_servers::Replication::SemiSync, "mysql-semisync"),
            Some(Replication::Group) => (dev_servers::Replication::Group, "mysql-group"),
            Some(Replication::Galera) => (dev_servers::Replication::Galera, "mysql-galera"),
        };
        Ok(Self::Several(Box::new(MysqlSet::start(engine, &dir.join(folder)).await?)))
    }
}

impl PrivateServers {
    /// Starts the servers, with their data in folders below `dir`, and writes their addresses into
    /// `config`.
    ///
    /// # Errors
    /// The error of the server that did not start.
    pub async fn start(shape: Shape, config: &mut Config, dir: &Path) -> Result<Self, StartError> {
        let redis = PrivateRedis::start(shape.redis, dir);
        let ledger = Ledger::start(shape.mysql, dir);
        let (redis, ledger) = tokio::try_join!(redis, ledger)?;
        let servers = Self { ledger, redis };
        config.database_url = Secret::new(servers.database_url());
        servers.redis.configure(config);
        Ok(servers)
    }

    fn database_url(&self) -> String {
        match &self.ledger {
            Ledger::One(server) => server.url(),
            Ledger::Several(set) => set.url(),
            Ledger::Vitess(server) => server.url(),
        }
    }

    /// What the servers say about their versions.
    pub fn versions(&self) -> [&str; 2] {
        let ledger = match &self.ledger {
            Ledger::One(server) => server.version(),
            Ledger::Several(set) => set.version(),
            Ledger::Vitess(server) => server.version(),
        };
        [ledger, self.redis.version()]
    }

    /// Stops all servers at the same time, and returns when they have ended.
    pub async fn stop(&self) {
        let ledger = async {
            match &self.ledger {
                Ledger::One(server) => server.stop().await,
                Ledger::Several(set) => set.stop().await,
                Ledger::Vitess(server) => server.stop().await,
            }
        };
        tokio::join!(ledger, self.redis.stop());
    }

    /// Waits until Redis or the ledger has ended, and tells which.
    pub async fn ended(&self) -> StartError {
        let ledger = async {
            match &self.ledger {
                Ledger::One(server) => server.ended().await,
                Ledger::Several(set) => set.ended().await,
                Ledger::Vitess(server) => server.ended().await,
            }
        };
        tokio::select! {
            error = ledger => error,
            error = self.redis.ended() => error,
        }
    }
}
