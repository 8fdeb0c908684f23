//! A private Redis with Sentinels: a primary, replicas of it, and the Sentinels that replace it.

use std::path::PathBuf;

use futures::future::{join_all, try_join_all};

use super::group::{Group, field, until};
use super::{Part, RedisServer};
use crate::error::StartError;
use crate::ports;

const GROUP: &str = "Redis with Sentinels";
/// The name of the primary.
pub const PRIMARY: &str = "seckill";
const SERVERS: usize = 3;
const SENTINELS: usize = 3;
/// How many Sentinels must agree that the primary is away.
const QUORUM: usize = 2;
/// How long the primary may be silent.
const DOWN_AFTER_MS: u32 = 1_000;
/// How long a failover may take before another one is tried.
const FAILOVER_MAX_MS: u32 = 6_000;

/// A running private group. Dropping it stops its servers in the background.
#[derive(Debug)]
pub struct RedisSentinels {
    /// The servers: first the primary of the first start.
    pub servers: Vec<RedisServer>,
    pub sentinels: Vec<RedisServer>,
    password: String,
}

impl RedisSentinels {
    /// Starts a primary with two replicas and three Sentinels, in folders below `data_dir` or in
    /// throw-away ones, and returns when the replicas follow and the Sentinels know each other.
    ///
    /// # Errors
    /// The error of the first server that did not start.
    pub async fn start(data_dir: Option<PathBuf>) -> Result<Self, StartError> {
        ports::start_again(|| Self::try_start(data_dir.clone())).await
    }

    async fn try_start(data_dir: Option<PathBuf>) -> Result<Self, StartError> {
        let group = &Group::open(data_dir, SERVERS + SENTINELS)?;
        let first = group.ports[0];
        let servers = (0..SERVERS).map(|index| {
            let lines =
                if index == 0 { vec![] } else { vec![format!("replicaof 127.0.0.1 {first}")] };
            group.member(&format!("server-{}", index + 1), index, Part::Member, lines)
        });
        let servers = try_join_all(servers.map(RedisServer::start)).await?;
        let sentinels = (0..SENTINELS).map(|index| {
            let lines = vec![
                format!("sentinel monitor {PRIMARY} 127.0.0.1 {first} {QUORUM}"),
                format!("sentinel auth-pass {PRIMARY} {}", group.password),
                format!("sentinel down-after-milliseconds {PRIMARY} {DOWN_AFTER_MS}"),
                format!("sentinel failover-timeout {PRIMARY} {FAILOVER_MAX_MS}"),
                format!("sentinel parallel-syncs {PRIMARY} 2"),
                format!("sentinel sentinel-pass {}", group.password),
            ];
            let name = format!("sentinel-{}", index + 1);
            group.member(&name, SERVERS + index, Part::Sentinel, lines)
        });
        let sentinels = try_join_all(sentinels.map(RedisServer::start)).await?;
        let password = group.password.clone();
        let started = Self { servers, sentinels, password };
        started.until_ready().await?;
        Ok(started)
    }

    /// Waits until every server is known to every Sentinel, and the replicas follow.
    ///
    /// # Errors
    /// When they do not within a minute.
    pub async fn until_ready(&self) -> Result<(), StartError> {
        until(GROUP, || async {
            for sentinel in &self.sentinels {
                let info = sentinel.info(&["INFO", "sentinel"]).await?;
                let line = field(&info, "master0").unwrap_or_default();
                let all = format!("slaves={},sentinels={SENTINELS}", SERVERS - 1);
                if !(line.contains("status=ok") && line.contains(&all)) {
                    return Err(info);
                }
            }
            for server in &self.servers {
                let info = server.info(&["INFO", "replication"]).await?;
                if field(&info, "master_link_status").is_some_and(|status| status != "up") {
                    return Err(info);
                }
            }
            Ok(())
        })
        .await
    }

    /// The URL, with the addresses of all Sentinels.
    pub fn url(&self) -> String {
        let hosts = self.sentinels.iter().map(|server| format!("127.0.0.1:{}", server.port()));
        let password = &self.password;
        let hosts = hosts.collect::<Vec<_>>().join(",");
        format!("redis+sentinel://:{password}@{hosts}/{PRIMARY}?sentinel_password={password}")
    }

    /// What the program says about its version.
    pub fn version(&self) -> &str {
        self.servers[0].version()
    }

    /// Stops all servers, and returns when they have ended.
    pub async fn stop(&self) {
        // The Sentinels first: they would replace a primary that stops.
        join_all(self.sentinels.iter().map(RedisServer::stop)).await;
        join_all(self.servers.iter().map(RedisServer::stop)).await;
    }

    /// The index of the primary, as the Sentinels see it.
    pub async fn primary(&self) -> Option<usize> {
        let question = ["SENTINEL", "GET-MASTER-ADDR-BY-NAME", PRIMARY];
        for sentinel in &self.sentinels {
            if let Ok((_, port)) = sentinel.run::<(String, u16)>(&question).await {
                return self.servers.iter().position(|server| server.port() == port);
            }
        }
        None
    }
}
