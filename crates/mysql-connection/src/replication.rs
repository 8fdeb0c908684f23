//! The replication of a database server: whether it writes, and what a commit waits for.
//!
//! Behind a vtgate of Vitess stand many servers. It is known by its version, and answers for the primary of a shard.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use sqlx::mysql::MySqlRow;
use sqlx::{Executor, MySqlConnection, Row};

use crate::{Database, answered, shards};

/// The variables and states that tell how a server replicates. Each engine knows some of them.
const VARIABLES: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('read_only', \
     'super_read_only', 'hostname', 'port', 'server_id', 'wsrep_on', 'log_bin', 'version', \
     'group_replication_group_name', 'group_replication_consistency', \
     'rpl_semi_sync_master_enabled', \
     'rpl_semi_sync_master_wait_point', 'rpl_semi_sync_master_timeout', \
     'rpl_semi_sync_source_enabled', 'rpl_semi_sync_source_wait_point', \
     'rpl_semi_sync_source_timeout')";
const STATES: &str = "SHOW GLOBAL STATUS WHERE Variable_name IN ('wsrep_ready', \
     'wsrep_cluster_status', 'wsrep_local_state', 'wsrep_cluster_size', \
     'Rpl_semi_sync_master_status', 'Rpl_semi_sync_master_clients', 'Rpl_semi_sync_master_no_tx', \
     'Rpl_semi_sync_source_status', 'Rpl_semi_sync_source_clients', 'Rpl_semi_sync_source_no_tx')";
/// The members of a group, and how many of them are online, as this member sees them.
const MEMBERS: &str = "SELECT COUNT(*), CAST(COALESCE(SUM(MEMBER_STATE = 'ONLINE'), 0) AS SIGNED) \
     FROM performance_schema.replication_group_members";

/// The tablets that a vtgate knows, with keyspace, shard, type and state from the second column on.
const TABLETS: &str = "SHOW VITESS_TABLETS";

/// The answer of a host to the question whether it writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// Whether it takes writes.
    pub writes: bool,
    /// Whether it is a node of Galera, where every node takes writes.
    pub is_galera: bool,
    /// The name that the server gives itself: host, port and server id.
    pub identity: String,
}

/// What a commit on this server waits for before it is answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Replication {
    /// Nothing: the server writes no log for replicas.
    None,
    /// Nothing: replicas get the commit later.
    Asynchronous,
    /// One replica has the commit in its relay log.
    SemiSynchronous {
        /// Whether commits wait for a replica now; otherwise the server has fallen back to
        /// asynchronous replication.
        active: bool,
        /// Whether the commit waits before other sessions see it (AFTER_SYNC).
        after_sync: bool,
        /// How long a commit waits for a replica before the server falls back, in milliseconds.
        timeout_ms: u64,
        /// The replicas that can acknowledge.
        replicas: u64,
        /// Commits that no replica has acknowledged, since the server's start.
        unacknowledged: u64,
    },
    /// A majority of the group has the commit.
    Group {
        /// Members that this one knows; 0 if the account may not read it.
        members: u64,
        /// Members that are online.
        online: u64,
        /// Whether a new primary answers only after it has applied what it had received.
        applies_first: bool,
    },
    /// All nodes of the primary component have received the commit.
    Galera {
        /// Nodes of the component.
        nodes: u64,
    },
    /// What the keyspace's durability policy says.
    Vitess {
        /// Primaries that the keyspaces need, one for each shard.
        primaries: u64,
        /// Primaries that serve.
        serving: u64,
        /// Whether a commit waits for a replica, by the settings of one primary's server.
        waits: bool,
    },
}

impl Replication {
    /// The fault of the replication in words; `None` when commits wait as the server is set up.
    pub fn fault(&self) -> Option<&'static str> {
        match self {
            Self::SemiSynchronous { active: false, .. } => {
                Some("asynchronous: no replica acknowledges commits")
            }
            Self::Group { members: 0, .. } => Some(
                "no member of the group can be seen: the account needs SELECT on performance_schema.replication_group_members",
            ),
            Self::Group { members, online, .. } if online * 2 <= *members => Some("no majority"),
            Self::Group { online: 1, .. } => Some("the group has one member: commits exist once"),
            Self::Galera { nodes: 1 } => Some("the cluster has one node: commits exist once"),
            Self::Vitess { primaries: 0, .. } => Some("no primary in the keyspace"),
            Self::Vitess { primaries, serving, .. } if serving < primaries => {
                Some("a primary of the keyspace does not serve")
            }
            _ => None,
        }
    }
}

impl fmt::Display for Replication {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => formatter.write_str("not replicated"),
            Self::Asynchronous => formatter.write_str("asynchronous replication"),
            Self::SemiSynchronous { active, after_sync, timeout_ms, replicas, .. } => {
                let point = if *after_sync { "AFTER_SYNC" } else { "AFTER_COMMIT" };
                let now = if *active { "" } else { ", asynchronous at the moment" };
                write!(
                    formatter,
                    "semi-synchronous replication {point} to {replicas} replicas, asynchronous after {timeout_ms} ms without an answer{now}"
                )
            }
            Self::Group { members, online, applies_first } => {
                let first = if *applies_first { "after" } else { "before" };
                write!(
                    formatter,
                    "Group Replication, {online} of {members} members online, a new primary answers {first} it has applied what it received"
                )
            }
            Self::Galera { nodes } => write!(formatter, "Galera, {nodes} nodes"),
            Self::Vitess { primaries, serving, waits } => {
                let replica = if *waits { "waits for a replica" } else { "waits for no replica" };
                write!(
                    formatter,
                    "Vitess, {serving} of {primaries} primaries serve, a commit {replica}, no procedures"
                )
            }
        }
    }
}

type Values = HashMap<String, String>;

async fn values(connection: &mut MySqlConnection, statement: &str) -> sqlx::Result<Values> {
    let rows: Vec<(String, String)> = sqlx::query_as(statement).fetch_all(connection).await?;
    Ok(rows.into_iter().map(|(name, value)| (name.to_lowercase(), value)).collect())
}

fn is_on(values: &Values, name: &str) -> bool {
    values.get(name).is_some_and(|value| value == "ON" || value == "1")
}

fn is_off(values: &Values, name: &str) -> bool {
    values.get(name).is_none_or(|value| value == "OFF" || value == "0")
}

fn number(values: &Values, name: &str) -> u64 {
    values.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

/// Asks a server whether it takes writes.
pub async fn role(connection: &mut MySqlConnection) -> sqlx::Result<Role> {
    let variables = values(connection, VARIABLES).await?;
    let is_galera = is_on(&variables, "wsrep_on");
    let mut writes = is_off(&variables, "read_only") && is_off(&variables, "super_read_only");
    if writes && is_galera {
        let states = values(connection, STATES).await?;
        let is = |name: &str, value: &str| states.get(name).is_some_and(|found| found == value);
        // 4: synced; a node that sends its state to another one (2) is behind.
        writes = is("wsrep_ready", "ON")
            && is("wsrep_cluster_status", "Primary")
            && is("wsrep_local_state", "4");
    }
    if writes && is_group(&variables) {
        let seen = group_members(connection).await;
        writes = seen.is_none_or(|(members, online)| online * 2 > members);
    }
    let part = |name: &str| variables.get(name).map_or("", String::as_str);
    let identity = [part("hostname"), part("port"), part("server_id")].join(":");
    Ok(Role { writes, is_galera, identity })
}

/// Asks a server in few words whether it is not read-only. A server that was replaced by a switch is; for a member of
/// a group that lost the majority, [`role`] tells more.
pub async fn takes_writes(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    let asked = sqlx::raw_sql("SELECT CAST(@@GLOBAL.read_only AS CHAR)");
    let row = connection.fetch_one(asked).await?;
    let read_only: String = row.try_get(0)?;
    Ok(matches!(read_only.as_str(), "0" | "OFF"))
}

fn is_group(variables: &Values) -> bool {
    variables.get("group_replication_group_name").is_some_and(|name| !name.is_empty())
}

/// The members of the group and those that are online. `None` for an account that may not read the table:
/// `super_read_only` then tells alone.
async fn group_members(connection: &mut MySqlConnection) -> Option<(u64, u64)> {
    let counted: sqlx::Result<(i64, i64)> = sqlx::query_as(MEMBERS).fetch_one(connection).await;
    counted.ok().map(|(members, online)| (members.unsigned_abs(), online.unsigned_abs()))
}

/// Returns whether a server's version is that of a vtgate of Vitess.
pub(crate) fn is_vitess(version: &str) -> bool {
    version.contains("Vitess")
}

/// Returns whether a connection leads to a vtgate of Vitess, behind which rows may lie in shards.
///
/// # Errors
/// The database's.
pub async fn leads_to_vitess(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    let shown = values(connection, "SHOW GLOBAL VARIABLES LIKE 'version'").await?;
    Ok(shown.get("version").is_some_and(|version| is_vitess(version)))
}

/// Reads the state of the keyspaces of a connection, of the shards that serve: one that was split, or is being made, has a
/// primary, too.
async fn vitess(connection: &mut MySqlConnection, variables: &Values) -> sqlx::Result<Replication> {
    let shards = shards::list(&mut *connection).await?.names;
    let rows = connection.fetch_all(sqlx::raw_sql(TABLETS)).await?;
    let text = |row: &MySqlRow, column: usize| {
        row.try_get_unchecked::<String, _>(column).unwrap_or_default()
    };
    let serves = |shard: &&String| {
        rows.iter().any(|row| {
            **shard == format!("{}/{}", text(row, 1), text(row, 2))
                && text(row, 3) == "PRIMARY"
                && text(row, 4) == "SERVING"
        })
    };
    Ok(Replication::Vitess {
        primaries: shards.len() as u64,
        serving: shards.iter().filter(serves).count() as u64,
        waits: ["master", "source"]
            .iter()
            .any(|word| is_on(variables, &format!("rpl_semi_sync_{word}_enabled"))),
    })
}

/// Reads how the server of a connection replicates.
pub async fn read(connection: &mut MySqlConnection) -> sqlx::Result<Replication> {
    let variables = values(connection, VARIABLES).await?;
    let states = values(connection, STATES).await?;
    if is_on(&variables, "wsrep_on") {
        return Ok(Replication::Galera { nodes: number(&states, "wsrep_cluster_size") });
    }
    if variables.get("version").is_some_and(|version| is_vitess(version)) {
        return vitess(connection, &variables).await;
    }
    if is_group(&variables) {
        let (members, online) = group_members(connection).await.unwrap_or_default();
        let consistency = variables.get("group_replication_consistency").map_or("", String::as_str);
        let applies_first = !matches!(consistency, "" | "EVENTUAL");
        return Ok(Replication::Group { members, online, applies_first });
    }
    // MariaDB and older MySQL say master, newer MySQL says source.
    for word in ["master", "source"] {
        let name = |end: &str| format!("rpl_semi_sync_{word}_{end}");
        if is_on(&variables, &name("enabled")) {
            return Ok(Replication::SemiSynchronous {
                active: is_on(&states, &name("status")),
                after_sync: variables
                    .get(&name("wait_point"))
                    .is_some_and(|point| point == "AFTER_SYNC"),
                timeout_ms: number(&variables, &name("timeout")),
                replicas: number(&states, &name("clients")),
                unacknowledged: number(&states, &name("no_tx")),
            });
        }
    }
    let logs = is_on(&variables, "log_bin");
    Ok(if logs { Replication::Asynchronous } else { Replication::None })
}

/// Reads how the writer behind a pool replicates.
pub async fn read_from(pool: &Database) -> sqlx::Result<Replication> {
    answered(async { read(&mut *pool.acquire().await?).await }).await
}

/// How far a replica is behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lag {
    /// The age of what it applies now.
    Behind(Duration),
    /// Applies nothing.
    Stopped,
}

/// Asks a host that does not write how far it is behind; `None` when it is no replica of one server, or
/// the account may not ask (`REPLICA MONITOR` in MariaDB, `REPLICATION CLIENT` in MySQL).
pub async fn lag(connection: &mut MySqlConnection) -> Option<Lag> {
    let asked = sqlx::query("SHOW REPLICA STATUS").fetch_optional(connection).await;
    let row = asked.ok().flatten()?;
    // Members of a group have such a row too, without a host.
    let text = |name: &str| row.try_get_unchecked::<Option<String>, _>(name).ok();
    let host = text("Source_Host").or_else(|| text("Master_Host")).flatten();
    host.filter(|host| !host.is_empty())?;
    let number = |name: &str| row.try_get_unchecked::<Option<i64>, _>(name).ok();
    let behind = number("Seconds_Behind_Source").or_else(|| number("Seconds_Behind_Master"))?;
    let seconds = behind.and_then(|seconds| u64::try_from(seconds).ok());
    Some(seconds.map_or(Lag::Stopped, |seconds| Lag::Behind(Duration::from_secs(seconds))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_that_cannot_be_seen_are_no_group_of_one() {
        let unseen = Replication::Group { members: 0, online: 0, applies_first: true };
        let fault = unseen.fault().unwrap_or_default();
        assert!(fault.contains("needs SELECT on performance_schema"), "{fault}");
    }
}
