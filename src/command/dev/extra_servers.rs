//! Extra servers of `seckill dev`, for lock strategies that need them: `SECKILL_WITH` names them.

use std::path::Path;

use crate::config::Config;
use clap::ValueEnum;
use dev_servers::{
    EtcdOptions, EtcdServer, RedisOptions, RedisServer, StartError, ZookeeperOptions,
    ZookeeperServer,
};
use futures::future::{self, LocalBoxFuture};
use settings::Secret;

use super::private_servers::{RedisShape, Running, Servers};
use super::say;

/// A server, or a group of servers, that `SECKILL_WITH` may name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExtraServer {
    /// One ZooKeeper server.
    Zookeeper,
    /// The five Redis servers of Redlock.
    Redlock,
    /// One etcd server.
    Etcd,
}

/// Reads the value of `SECKILL_WITH`: names, separated by commas. Returns the extra servers, and the
/// shape of Redis if a name says it.
///
/// # Errors
/// A sentence that names the unknown word.
pub fn wanted(text: &str) -> Result<(Vec<ExtraServer>, Option<RedisShape>), String> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    let (shapes, words): (Vec<&str>, Vec<&str>) =
        words.partition(|word| RedisShape::of_word(word).is_some());
    let servers = words
        .into_iter()
        .map(|word| {
            ExtraServer::from_str(word, false).map_err(|_| format!(
                "SECKILL_WITH has an unknown server {word:?}; the servers are zookeeper, etcd, redlock, and one of redis-tls, redis-sentinel and redis-cluster"
            ))
        })
        .collect::<Result<_, _>>()?;
    Ok((servers, shapes.last().and_then(|word| RedisShape::of_word(word))))
}

/// The settings with the addresses of these servers, for a second terminal: variable and value.
pub fn addresses(config: &Config) -> Vec<(&'static str, &str)> {
    vec![
        ("SECKILL_LOCK_ZOOKEEPER_HOSTS", &*config.lock.zookeeper_hosts),
        ("SECKILL_LOCK_REDLOCK_URLS", config.lock.redlock_urls.reveal()),
        ("SECKILL_LOCK_ETCD_ENDPOINTS", &*config.lock.etcd_endpoints),
    ]
}

/// Starts the wanted servers, each with its data in a folder below `dir`, adds them to `servers`, and writes their
/// addresses into `config`. A server whose address is configured already is not started.
///
/// # Errors
/// The error of the server that did not start.
pub async fn start(
    wanted: &[ExtraServer],
    config: &mut Config,
    dir: &Path,
    servers: &mut Servers,
) -> Result<(), StartError> {
    for server in wanted {
        let started: Box<dyn Running> = match server {
            ExtraServer::Zookeeper if !config.lock.zookeeper_hosts.is_empty() => {
                say("using SECKILL_LOCK_ZOOKEEPER_HOSTS; no ZooKeeper is started");
                continue;
            }
            ExtraServer::Zookeeper => {
                let options = ZookeeperOptions::new(dir.join("zookeeper"));
                let server = ZookeeperServer::start(options).await?;
                config.lock.zookeeper_hosts = server.hosts();
                Box::new(server)
            }
            ExtraServer::Redlock if !config.lock.redlock_urls.is_empty() => {
                say("using SECKILL_LOCK_REDLOCK_URLS; no Redis is started for Redlock");
                continue;
            }
            ExtraServer::Redlock => {
                let redlock = Redlock::start(dir).await?;
                let urls: Vec<String> = redlock.0.iter().map(RedisServer::url).collect();
                config.lock.redlock_urls = Secret::new(urls.join(","));
                Box::new(redlock)
            }
            ExtraServer::Etcd if !config.lock.etcd_endpoints.is_empty() => {
                say("using SECKILL_LOCK_ETCD_ENDPOINTS; no etcd is started");
                continue;
            }
            ExtraServer::Etcd => {
                let server = EtcdServer::start(EtcdOptions::new(dir.join("etcd"))).await?;
                config.lock.etcd_endpoints = server.url();
                Box::new(server)
            }
        };
        say(started.version());
        servers.0.push(started);
    }
    Ok(())
}

/// The number of Redlock's servers; it works while three of them answer.
const REDLOCK_SERVERS: usize = 5;

/// The servers of Redlock.
struct Redlock(Vec<RedisServer>);

impl Redlock {
    /// Starts them. Each writes a lock to the disk before it answers: a server that lost a lock could give a second
    /// holder the majority.
    async fn start(dir: &Path) -> Result<Self, StartError> {
        let servers = (1..=REDLOCK_SERVERS).map(|number| {
            let mut options = RedisOptions::new(dir.join(format!("redlock-{number}")));
            options.extra_lines.push("appendfsync always".to_owned());
            RedisServer::start(options)
        });
        future::try_join_all(servers).await.map(Self)
    }
}

impl Running for Redlock {
    fn version(&self) -> &str {
        "five independent Redis servers for Redlock"
    }

    fn stop(&self) -> LocalBoxFuture<'_, ()> {
        Box::pin(async {
            future::join_all(self.0.iter().map(RedisServer::stop)).await;
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{ExtraServer, RedisShape};

    fn wanted(text: &str) -> Result<Vec<ExtraServer>, String> {
        super::wanted(text).map(|(servers, _)| servers)
    }

    #[test]
    fn words_are_read_and_others_are_named() {
        assert_eq!(wanted(""), Ok(Vec::new()));
        assert_eq!(wanted(" zookeeper, "), Ok(vec![ExtraServer::Zookeeper]));
        assert_eq!(
            wanted("redlock,zookeeper"),
            Ok(vec![ExtraServer::Redlock, ExtraServer::Zookeeper])
        );
        assert_eq!(wanted("etcd,zookeeper"), Ok(vec![ExtraServer::Etcd, ExtraServer::Zookeeper]));
        assert_eq!(
            super::wanted("redis-cluster,etcd"),
            Ok((vec![ExtraServer::Etcd], Some(RedisShape::Cluster)))
        );
        let refused = wanted("zookeeper,consul").expect_err("no such word");
        assert!(refused.contains("consul") && refused.contains("zookeeper"), "{refused}");
    }
}
