//! The condition of a Redis server according to its answers: what it is, and whether this program can use it.

use redis::{InfoDict, RedisError, RedisResult};
use redis_connection::is_command_refused;

use super::RedisClient;

/// The condition of Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// The version of the server; `None` when the account may not ask for it, and the other answers are guesses.
    pub version: Option<String>,
    /// Whether it is a node of a Redis Cluster, behind an address that names a single server.
    pub is_cluster: bool,
    /// Whether it is a replica, which takes no writes.
    pub is_replica: bool,
    /// Whether it is reading its data from the disk, and answers nothing else.
    pub is_loading: bool,
    /// The policy for evicting keys when the memory is full; `None` when the server refuses writes
    /// instead, which the service needs.
    pub evicts: Option<String>,
    /// Its answer if it runs no Lua scripts: it was built or started without Lua, or the account may not use `EVAL`.
    pub refuses_scripts: Option<String>,
}

impl Condition {
    /// Why this program cannot use the server, in a few words for the readiness document.
    pub fn fault(&self) -> Option<&'static str> {
        if self.is_cluster {
            Some("cluster mode behind a single-server URL")
        } else if self.is_replica {
            Some("read-only replica")
        } else if self.is_loading {
            Some("loading its data")
        } else if self.refuses_scripts.is_some() {
            Some("runs no Lua scripts")
        } else {
            None
        }
    }

    fn of(info: &InfoDict) -> Self {
        let flag = |key: &str| info.get::<u8>(key) == Some(1);
        let policy: Option<String> = info.get("maxmemory_policy");
        Self {
            version: info.get("redis_version"),
            is_cluster: flag("cluster_enabled"),
            is_replica: info.get::<String>("role").as_deref() == Some("slave"),
            is_loading: flag("loading"),
            evicts: policy.filter(|policy| policy != "noeviction"),
            refuses_scripts: None,
        }
    }
}

impl RedisClient {
    /// Asks every primary for its condition; the worst answer counts.
    ///
    /// # Errors
    /// When one of them does not answer in time.
    pub async fn condition(&self) -> RedisResult<Condition> {
        let mut script = redis::cmd("EVAL");
        let redis = self.shared();
        script.arg("return 1").arg(0);
        let (infos, scripts) = tokio::try_join!(self.info_of_each(), redis.ask_each(&script))?;
        let refused = |error: &RedisError| is_command_refused(error).then(|| error.to_string());
        let all: Vec<Condition> = infos.iter().map(Condition::of).collect();
        let any = |is: fn(&Condition) -> bool| all.iter().any(is);
        let version = all.iter().find_map(|one| one.version.clone());
        Ok(Condition {
            version,
            is_cluster: self.is_single() && any(|one| one.is_cluster),
            is_replica: any(|one| one.is_replica),
            is_loading: any(|one| one.is_loading),
            evicts: all.into_iter().find_map(|one| one.evicts),
            refuses_scripts: scripts.into_iter().find_map(|ran| refused(&ran.err()?)),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_cannot_be_used_is_told_from_one_that_can() {
        let condition = |lines: &str| Condition::of(&InfoDict::new(lines));
        let usual = condition(
            "redis_version:7.0.15\r\nrole:master\r\ncluster_enabled:0\r\nmaxmemory_policy:noeviction\r\nloading:0\r\n",
        );
        assert_eq!((usual.fault(), usual.evicts), (None, None));
        assert_eq!(usual.version.as_deref(), Some("7.0.15"));
        for (line, word) in
            [("cluster_enabled:1", "cluster"), ("role:slave", "replica"), ("loading:1", "loading")]
        {
            let fault = condition(line).fault().expect("a fault");
            assert!(fault.contains(word), "{line}: {fault}");
        }
        assert_eq!(
            condition("maxmemory_policy:allkeys-lru").evicts.as_deref(),
            Some("allkeys-lru")
        );
    }
}
