//! `SECKILL_WITH`: the further servers that `seckill dev` starts, for locks that need them.

use std::path::Path;

use futures::future;
use seckill::config::Config;
use seckill::dev::{EtcdOptions, EtcdServer, StartError, ZookeeperOptions, ZookeeperServer};

use super::dev::say;

/// What `SECKILL_WITH` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum With {
    /// One ZooKeeper server.
    Zookeeper,
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
            "etcd" => Ok(With::Etcd),
            "redlock" => Err(format!("SECKILL_WITH has {word:?}, which cannot be started yet")),
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
        ("SECKILL_LOCK_ETCD_ENDPOINTS", &*config.lock.etcd_endpoints),
    ]
}

/// The further servers that were started.
#[derive(Default)]
pub struct Extra {
    zookeeper: Option<ZookeeperServer>,
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
                    say(&server.version().await);
                    config.lock.zookeeper_hosts = server.hosts();
                    extra.zookeeper = Some(server);
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
        self.zookeeper.is_some() || self.etcd.is_some()
    }

    /// Stops them all and returns when they have ended.
    pub async fn stop(&self) {
        if let Some(server) = &self.zookeeper {
            server.stop().await;
        }
        if let Some(server) = &self.etcd {
            server.stop().await;
        }
    }

    /// Waits until one of them has ended; pending while all run.
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

#[cfg(test)]
mod tests {
    use super::{With, wanted};

    #[test]
    fn words_are_read_and_others_are_named() {
        assert_eq!(wanted(""), Ok(Vec::new()));
        assert_eq!(wanted(" zookeeper, "), Ok(vec![With::Zookeeper]));
        assert_eq!(wanted("etcd,zookeeper"), Ok(vec![With::Etcd, With::Zookeeper]));
        let refused = wanted("zookeeper,consul").expect_err("no such word");
        assert!(refused.contains("consul") && refused.contains("zookeeper"), "{refused}");
    }
}
