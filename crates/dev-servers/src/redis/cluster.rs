//! A private Redis Cluster: primaries that share the slots, and replicas of them.

use std::path::PathBuf;
use std::time::Duration;

use futures::future::{join_all, try_join_all};

use super::group::{Group, failed, field, until};
use super::{Part, RedisOptions, RedisServer};
use crate::error::StartError;
use crate::ports;

const GROUP: &str = "Redis Cluster";
/// How often a planned failover is asked for, and how long each may take: the nodes give up one that
/// does not succeed within 5 seconds.
const FAILOVERS_MAX: u32 = 5;
const FAILOVER_MAX: Duration = Duration::from_secs(6);
/// Number of primaries.
const PRIMARIES: u16 = 3;
/// Number of slots of every cluster.
const SLOTS: u16 = 16_384;

/// What to start, and where.
#[derive(Clone, Debug)]
pub struct RedisClusterOptions {
    /// The folder for the nodes' directories; `None` makes throw-away ones.
    pub data_dir: Option<PathBuf>,
    /// Replicas of each primary.
    pub replicas: usize,
    /// How long a node may be silent before the others replace it.
    pub node_timeout: Duration,
    /// Further lines for the configuration file of each node.
    pub extra_lines: Vec<String>,
}

/// A running private cluster. Dropping it stops its nodes in the background.
#[derive(Debug)]
pub struct RedisCluster {
    /// The nodes: first the primaries of the start, then their replicas.
    pub nodes: Vec<RedisServer>,
    options: RedisClusterOptions,
    password: String,
}

impl Default for RedisClusterOptions {
    /// Three primaries with a replica each, throw-away.
    fn default() -> Self {
        let node_timeout = Duration::from_secs(2);
        Self { data_dir: None, replicas: 1, node_timeout, extra_lines: Vec::new() }
    }
}

impl RedisCluster {
    /// Starts a cluster and returns when all its slots are served and all replicas follow. A later
    /// start on the same folder finds the data again.
    ///
    /// # Errors
    /// The error of the first node that did not start.
    pub async fn start(options: RedisClusterOptions) -> Result<Self, StartError> {
        ports::start_again(|| Self::try_start(options.clone())).await
    }

    async fn try_start(options: RedisClusterOptions) -> Result<Self, StartError> {
        let count = usize::from(PRIMARIES) * (1 + options.replicas);
        let group = Group::open(options.data_dir.clone(), 2 * count)?;
        let start = |index| RedisServer::start(member(&options, &group, index));
        let nodes = try_join_all((0..count).map(start)).await?;
        let cluster = Self { nodes, options, password: group.password };
        cluster.join().await?;
        Ok(cluster)
    }

    /// The URL of the cluster, with the addresses of all nodes.
    pub fn url(&self) -> String {
        let hosts = self.nodes.iter().map(|node| format!("127.0.0.1:{}", node.port()));
        format!("redis+cluster://:{}@{}", self.password, hosts.collect::<Vec<_>>().join(","))
    }

    /// What the program says about its version.
    pub fn version(&self) -> &str {
        self.nodes[0].version()
    }

    /// Stops all nodes, and returns when they have ended.
    pub async fn stop(&self) {
        join_all(self.nodes.iter().map(RedisServer::stop)).await;
    }

    /// The index of the node that has a slot, as a node that is not `but` sees it.
    ///
    /// # Errors
    /// When no node answers.
    pub async fn owner(&self, slot: u16, but: Option<usize>) -> Result<usize, StartError> {
        let asked = (0..self.nodes.len()).find(|index| Some(*index) != but).unwrap_or(0);
        let ranges: Vec<(u16, u16, Vec<redis::Value>)> = self.slots(asked).await.map_err(failed)?;
        let port = ranges.into_iter().find_map(|(first, last, owner)| {
            let Some(redis::Value::Int(port)) = owner.get(1) else { return None };
            (first..=last).contains(&slot).then_some(*port)
        });
        let index = self.nodes.iter().position(|node| Some(i64::from(node.port())) == port);
        index.ok_or_else(|| failed("no owner"))
    }

    async fn slots(&self, asked: usize) -> redis::RedisResult<Vec<(u16, u16, Vec<redis::Value>)>> {
        let all: Vec<Vec<redis::Value>> = self.nodes[asked].run(&["CLUSTER", "SLOTS"]).await?;
        all.into_iter()
            .map(|mut range| {
                range.truncate(3);
                Ok(redis::from_redis_value(redis::Value::Array(range))?)
            })
            .collect()
    }

    /// Adds an empty node to the cluster, and returns when every node knows it. Its index is the
    /// last one.
    ///
    /// # Errors
    /// When it does not start.
    pub async fn add_node(&mut self) -> Result<usize, StartError> {
        let index = self.nodes.len();
        let mut group = Group::open(None, 2)?;
        group.password.clone_from(&self.password);
        let node = RedisServer::start(member(&self.options, &group, 0)).await?;
        let port = node.port().to_string();
        let bus = group.ports[1].to_string();
        self.nodes.push(node);
        let meet = ["CLUSTER", "MEET", "127.0.0.1", &port, &bus];
        let () = self.nodes[0].run(&meet).await.map_err(failed)?;
        self.until_all_know(self.nodes.len()).await?;
        until(GROUP, || async {
            let info = self.nodes[index].info(&["CLUSTER", "INFO"]).await?;
            if field(&info, "cluster_state") == Some("ok") { Ok(()) } else { Err(info) }
        })
        .await?;
        Ok(index)
    }

    /// Moves a slot with its keys to another node, step by step as `redis-cli --cluster reshard`
    /// does. `pause` is waited for while the slot is on its way.
    ///
    /// # Errors
    /// When a node does not answer.
    pub async fn move_slot(&self, slot: u16, to: usize, pause: Duration) -> Result<(), StartError> {
        let from = self.owner(slot, None).await?;
        let source = self.id(from).await?;
        let target = self.id(to).await?;
        let number = slot.to_string();
        let moving = async {
            let set = async |node: usize, words: [&str; 2]| {
                let command = ["CLUSTER", "SETSLOT", &number, words[0], words[1]];
                self.nodes[node].run::<()>(&command).await
            };
            set(to, ["IMPORTING", &source]).await?;
            set(from, ["MIGRATING", &target]).await?;
            tokio::time::sleep(pause).await;
            let port = self.nodes[to].port().to_string();
            loop {
                let question = ["CLUSTER", "GETKEYSINSLOT", &number, "10"];
                let keys: Vec<String> = self.nodes[from].run(&question).await?;
                if keys.is_empty() {
                    break;
                }
                let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "REPLACE"];
                migrate.extend(["AUTH", &*self.password, "KEYS"]);
                migrate.extend(keys.iter().map(String::as_str));
                let () = self.nodes[from].run(&migrate).await?;
            }
            set(to, ["NODE", &target]).await?;
            set(from, ["NODE", &target]).await?;
            for other in (0..self.nodes.len()).filter(|other| ![from, to].contains(other)) {
                // A replica refuses it; a node that is away hears of it later.
                let _ = set(other, ["NODE", &target]).await;
            }
            Ok::<(), redis::RedisError>(())
        };
        moving.await.map_err(failed)
    }

    /// Has a replica take over from a primary, with its consent, and returns when it has.
    ///
    /// # Errors
    /// When the primary has no replica, or none takes over.
    pub async fn fail_over(&self, primary: usize) -> Result<usize, StartError> {
        let heir = self.replica_of(primary).await?;
        for _ in 0..FAILOVERS_MAX {
            let () = self.nodes[heir].run(&["CLUSTER", "FAILOVER"]).await.map_err(failed)?;
            if let Ok(taken) = tokio::time::timeout(FAILOVER_MAX, self.until_primary(heir)).await {
                return taken.map(|()| heir);
            }
        }
        Err(failed("no planned failover succeeds"))
    }

    /// A replica of a primary.
    ///
    /// # Errors
    /// When it has none.
    pub async fn replica_of(&self, primary: usize) -> Result<usize, StartError> {
        let id = self.id(primary).await?;
        // The primary hears of its replicas by gossip, so a moment late.
        until(GROUP, || async {
            let nodes = self.nodes[primary].info(&["CLUSTER", "NODES"]).await?;
            let found = self.nodes.iter().position(|node| {
                let port = format!(":{}@", node.port());
                nodes.lines().any(|line| {
                    let words: Vec<&str> = line.split(' ').collect();
                    words.get(1).is_some_and(|address| address.contains(&port))
                        && words.get(3) == Some(&&*id)
                        && !line.contains("fail")
                })
            });
            found.ok_or(nodes)
        })
        .await
    }

    /// Waits until a node takes writes.
    ///
    /// # Errors
    /// When it does not within a minute.
    pub async fn until_primary(&self, node: usize) -> Result<(), StartError> {
        until(GROUP, || async {
            let info = self.nodes[node].info(&["INFO", "replication"]).await?;
            if field(&info, "role") == Some("master") { Ok(()) } else { Err(info) }
        })
        .await
    }

    /// The id of a node.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn id(&self, index: usize) -> Result<String, StartError> {
        self.nodes[index].run(&["CLUSTER", "MYID"]).await.map_err(failed)
    }

    /// Makes one cluster of the nodes, unless they are one already.
    async fn join(&self) -> Result<(), StartError> {
        let info: String = self.nodes[0].run(&["CLUSTER", "INFO"]).await.map_err(failed)?;
        if field(&info, "cluster_known_nodes") == Some("1") {
            self.make().await.map_err(failed)?;
            self.until_all_know(self.nodes.len()).await?;
            self.follow().await?;
        }
        until(GROUP, || async {
            for node in &self.nodes {
                let info = node.info(&["CLUSTER", "INFO"]).await?;
                if field(&info, "cluster_state") != Some("ok") {
                    return Err(info);
                }
                let info = node.info(&["INFO", "replication"]).await?;
                let linked = field(&info, "master_link_status").unwrap_or("up");
                if linked != "up" || field(&info, "master_sync_in_progress") == Some("1") {
                    return Err(info);
                }
            }
            Ok(())
        })
        .await
    }

    /// Shares the slots out and has the first node meet the others.
    async fn make(&self) -> redis::RedisResult<()> {
        for (index, node) in (0..).zip(&self.nodes) {
            let epoch = (index + 1).to_string();
            let () = node.run(&["CLUSTER", "SET-CONFIG-EPOCH", &epoch]).await?;
            if index < PRIMARIES {
                let bound = |index: u16| u32::from(SLOTS) * u32::from(index) / u32::from(PRIMARIES);
                let first = bound(index).to_string();
                let last = (bound(index + 1) - 1).to_string();
                let () = node.run(&["CLUSTER", "ADDSLOTSRANGE", &first, &last]).await?;
            }
        }
        for node in &self.nodes[1..] {
            let port: Vec<String> = node.run(&["CONFIG", "GET", "port"]).await?;
            let bus: Vec<String> = node.run(&["CONFIG", "GET", "cluster-port"]).await?;
            let () =
                self.nodes[0].run(&["CLUSTER", "MEET", "127.0.0.1", &port[1], &bus[1]]).await?;
        }
        Ok(())
    }

    async fn until_all_know(&self, count: usize) -> Result<(), StartError> {
        until(GROUP, || async {
            for node in &self.nodes {
                let nodes = node.info(&["CLUSTER", "NODES"]).await?;
                if nodes.lines().filter(|line| !line.contains("handshake")).count() != count {
                    return Err(nodes);
                }
            }
            Ok(())
        })
        .await
    }

    /// Gives each primary its replicas.
    async fn follow(&self) -> Result<(), StartError> {
        let primaries = usize::from(PRIMARIES);
        for index in primaries..self.nodes.len() {
            let primary = self.id(index % primaries).await?;
            let replicate = ["CLUSTER", "REPLICATE", &primary];
            let () = self.nodes[index].run(&replicate).await.map_err(failed)?;
        }
        Ok(())
    }
}

/// The options of a node.
fn member(options: &RedisClusterOptions, group: &Group, index: usize) -> RedisOptions {
    let bus = group.ports[2 * index + 1];
    let mut lines = vec![
        "cluster-enabled yes".to_owned(),
        format!("cluster-port {bus}"),
        format!("cluster-node-timeout {}", options.node_timeout.as_millis()),
        // A slot without a server stops its own keys and no others.
        "cluster-require-full-coverage no".to_owned(),
    ];
    lines.extend(options.extra_lines.iter().cloned());
    group.member(&format!("node-{}", index + 1), 2 * index, Part::Member, lines)
}
