//! `SECKILL_WITH`: the further servers that `seckill dev` starts, for locks that need them.

use std::path::Path;

use dev_servers::{
    AppendFsync, EtcdOptions, EtcdServer, RedisOptions, RedisServer, StartError, ZookeeperOptions,
    ZookeeperServer,
};
use futures::future;
use seckill::config::{Config, Secret};

use super::dev::say;

/// What `SECKILL_WITH` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// One ZooKeeper server.
    Zookeeper,
    /// The five Redis servers of Redlock.
    Redlock,
    /// One etcd server.
    Etcd,
}

/// Reads `SECKILL_WITH`: words with commas between them.
///
/// # Errors
/// A sentence that names the word that is not known.
pub fn wanted(text: &str) -> Result<Vec<With>, String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| match word {
            "zookeeper" => Ok(With::Zookeeper),
            "redlock" => Ok(With::Redlock),
            "etcd" => Ok(With::Etcd),
            other => Err(format!(
                "SECKILL_WITH has {other:?}, but it may only name zookeeper, etcd and redlock"
            )),
        })
        .collect()
}

/// The settings that say where those servers are, for a second terminal: variable and value.
pub fn addresses(config: &Config) -> Vec<(&'static str, &str)> {
    vec![
        ("SECKILL_LOCK_ZOOKEEPER_HOSTS", &*config.lock.zookeeper_hosts),
        ("SECKILL_LOCK_REDLOCK_URLS", config.lock.redlock_urls.reveal()),
        ("SECKILL_LOCK_ETCD_ENDPOINTS", &*config.lock.etcd_endpoints),
    ]
}

/// The further servers that were started.
#[derive(Default)]
pub struct Extra {
    zookeeper: Option<ZookeeperServer>,
    redlock: Vec<RedisServer>,
    etcd: Option<EtcdServer>,
}

impl Extra {
    /// Starts what is wanted, with its data in a folder below `dir`, and writes the address into
    /// `config`. What has an address there already is used as it is.
    ///
    /// # Errors
    /// The sentence of the server that did not start.
    pub async fn start(wanted: &[With], config: &mut Config, dir: &Path) -> Result<Self, String> {
        let mut extra = Self::default();
        for with in wanted {
            match with {
                With::Zookeeper if !config.lock.zookeeper_hosts.is_empty() => {
                    say("using SECKILL_LOCK_ZOOKEEPER_HOSTS; no ZooKeeper is started");
                }
                With::Zookeeper => {
                    let options = ZookeeperOptions::new(dir.join("zookeeper"));
                    let server = ZookeeperServer::start(options).await;
                    let server = server.map_err(|error| error.to_string())?;
                    say(server.version());
                    config.lock.zookeeper_hosts = server.hosts();
                    extra.zookeeper = Some(server);
                }
                With::Redlock if !config.lock.redlock_urls.is_empty() => {
                    say("using SECKILL_LOCK_REDLOCK_URLS; no Redis is started for Redlock");
                }
                With::Redlock => {
                    extra.redlock = start_redlock(dir).await.map_err(|error| error.to_string())?;
                    say("five independent Redis servers for Redlock");
                    let urls: Vec<String> = extra.redlock.iter().map(RedisServer::url).collect();
                    config.lock.redlock_urls = Secret::new(urls.join(","));
                }
                With::Etcd if !config.lock.etcd_endpoints.is_empty() => {
                    say("using SECKILL_LOCK_ETCD_ENDPOINTS; no etcd is started");
                }
                With::Etcd => {
                    let server = EtcdServer::start(EtcdOptions::new(dir.join("etcd"))).await;
                    let server = server.map_err(|error| error.to_string())?;
                    say(server.version());
                    config.lock.etcd_endpoints = server.url();
                    extra.etcd = Some(server);
                }
            }
        }
        Ok(extra)
    }

    /// Whether any was started.
    pub fn is_some(&self) -> bool {
        self.zookeeper.is_some() || self.etcd.is_some() || !self.redlock.is_empty()
    }

    /// Stops them all and returns when they have ended.
    pub async fn stop(&self) {
        let zookeeper = async {
            if let Some(server) = &self.zookeeper {
                server.stop().await;
            }
        };
        let etcd = async {
            if let Some(server) = &self.etcd {
                server.stop().await;
            }
        };
        let redlock = future::join_all(self.redlock.iter().map(RedisServer::stop));
        tokio::join!(zookeeper, etcd, redlock);
    }

    /// Waits until one of them has ended; pending while all run. Those of Redlock may end, for that
    /// is what it is for.
    pub async fn ended(&self) -> StartError {
        let zookeeper = async {
            match &self.zookeeper {
                Some(server) => server.ended().await,
                None => future::pending().await,
            }
        };
        let etcd = async {
            match &self.etcd {
                Some(server) => server.ended().await,
                None => future::pending().await,
            }
        };
        tokio::select! {
            error = zookeeper => error,
            error = etcd => error,
        }
    }
}

/// How many servers Redlock has: two of them may be missing.
const REDLOCK_SERVERS: usize = 5;

/// A server that forgets what it granted would help a second holder to a majority, so each writes
/// it down before it answers.
async fn start_redlock(dir: &Path) -> Result<Vec<RedisServer>, StartError> {
    let servers = (1..=REDLOCK_SERVERS).map(|number| {
        let mut options = RedisOptions::new(dir.join(format!("redlock-{number}")));
        options.append_fsync = AppendFsync::Always;
        RedisServer::start(options)
    });
    future::try_join_all(servers).await
}

#[cfg(test)]
mod tests {
    use super::{With, wanted};

    #[test]
    fn words_are_read_and_others_are_named() {
        assert_eq!(wanted(""), Ok(Vec::new()));
        assert_eq!(wanted(" zookeeper, "), Ok(vec![With::Zookeeper]));
        assert_eq!(wanted("redlock,zookeeper"), Ok(vec![With::Redlock, With::Zookeeper]));
        assert_eq!(wanted("etcd,zookeeper"), Ok(vec![With::Etcd, With::Zookeeper]));
        let refused = wanted("zookeeper,consul").expect_err("no such word");
        assert!(refused.contains("consul") && refused.contains("zookeeper"), "{refused}");
    }
}
