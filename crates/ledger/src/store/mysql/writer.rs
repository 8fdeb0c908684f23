//! The writer: the one host of `DATABASE_URL` that takes writes, found and followed.
//!
//! With one host there is nothing to follow. With several, a task asks each of them, every
//! [`LOOK_PERIOD`] and at once after a failure, whether it writes: its `read_only` is off, and the
//! engine says that it is a member in good standing (Galera: primary component, ready and synced;
//! Group Replication: online in a majority). When the writer is another one, the pools connect to
//! it from then on, and every connection that was opened before is closed instead of used again.
//!
//! A new connection is used only after the server has said that it is the writer that was found:
//! a connection that was on its way while the writer changed could lead to the old one.
//!
//! When two hosts say that they write, the one that was followed is kept: only Galera has more
//! writers than one, and there the first in the URL is taken by every instance.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{ConnectOptions, Executor, MySqlPool, Row};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use super::hosts;
use super::link::within;
use super::replication::{self, Lag, Role};
use crate::metrics::Metrics;

/// The pause between two questions to the hosts.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// The shortest pause between two questions, however many failures ask for one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(100);
/// How long a host may take to say whether it writes, the time to connect included.
const ROLE_MAX: Duration = Duration::from_secs(2);
/// How long a replica may take to say how far it is behind: it waits while it is being stopped.
const LAG_MAX: Duration = Duration::from_millis(200);
/// How long a new connection waits for the writer to be found before it is given up.
const FOUND_MAX: Duration = Duration::from_millis(500);

/// Makes SELECT and BEGIN wait until a node of Galera has applied all that was committed before they came.
const READS_WAIT: &str = "SET SESSION wsrep_sync_wait = 1";

/// The writer among the hosts of one URL. Clones share it.
#[derive(Clone, Debug)]
pub struct Writer {
    found: Arc<Found>,
    pools: Arc<Mutex<Vec<MySqlPool>>>,
}

/// What the connections of the pools ask.
#[derive(Debug)]
pub(super) struct Found {
    hosts: Vec<MySqlConnectOptions>,
    writer: watch::Sender<Option<Known>>,
    /// Wakes the task that asks the hosts.
    suspected: Notify,
    /// Whether the last connection led to a node of Galera.
    is_galera: AtomicBool,
}

/// The writer that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// Its place in the URL.
    host: usize,
    /// The name that the server gives itself.
    identity: String,
    /// When it was found: connections that are older lead to another host.
    since: Instant,
}

impl Writer {
    /// Makes a writer that is not found yet.
    ///
    /// # Errors
    /// A sentence when the URL cannot be read.
    pub fn new(url: &str) -> Result<Self, String> {
        let found = Found {
            hosts: hosts::read(url)?,
            writer: watch::Sender::new(None),
            suspected: Notify::new(),
            is_galera: AtomicBool::new(false),
        };
        Ok(Self { found: Arc::new(found), pools: Arc::default() })
    }

    /// Whether there is more than one host, so that [`Writer::follow`] is needed.
    #[must_use]
    pub fn has_several_hosts(&self) -> bool {
        self.found.hosts.len() > 1
    }

    /// Whether the writer is a node of Galera. Such a node may roll a transaction back because another
    /// node's came first. Statements that were sent together would go on outside the transaction, so
    /// each must be sent after the answer to the one before it.
    #[must_use]
    pub fn is_galera(&self) -> bool {
        self.found.is_galera.load(Ordering::Relaxed)
    }

    /// Has the hosts asked soon: a server refused a write, or was lost.
    pub fn suspect(&self) {
        self.found.suspected.notify_one();
    }

    pub(super) fn found(&self) -> Arc<Found> {
        Arc::clone(&self.found)
    }

    /// The options for the next connection of a new pool.
    pub(super) fn connect_options(&self) -> MySqlConnectOptions {
        let writer = self.found.writer.borrow().as_ref().map_or(0, |known| known.host);
        self.found.hosts[writer].clone()
    }

    /// Lets a pool follow the writer.
    pub(super) fn lead(&self, pool: &MySqlPool) {
        if self.has_several_hosts() {
            self.pools().push(pool.clone());
            // The writer may have been found since the pool was made.
            pool.set_connect_options(self.connect_options());
        }
    }

    /// Finds the writer and follows it until `stop` fires, or until all of its pools are closed.
    pub async fn follow(self, metrics: Metrics, stop: CancellationToken) {
        let mut lines: Vec<Option<MySqlConnection>> = Vec::new();
        lines.resize_with(self.found.hosts.len(), || None);
        loop {
            let asked = self.found.hosts.iter().zip(&mut lines).map(|(host, line)| ask(host, line));
            let (roles, lags): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().unzip();
            self.use_writer(&roles, &metrics);
            note_lags(&lags, &metrics);
            tokio::time::sleep(LOOK_PAUSE_MIN).await;
            tokio::select! {
                () = tokio::time::sleep(LOOK_PERIOD - LOOK_PAUSE_MIN) => {}
                () = self.found.suspected.notified() => {}
                () = stop.cancelled() => return,
            }
            let mut pools = self.pools();
            pools.retain(|pool| !pool.is_closed());
            if pools.is_empty() {
                return;
            }
        }
    }

    /// Chooses the writer by the answers of the hosts, and moves the pools to it if it is another one.
    fn use_writer(&self, roles: &[Option<Role>], metrics: &Metrics) {
        let writers = roles.iter().flatten().filter(|role| role.writes).count();
        metrics.ledger.writers.set(i64::try_from(writers).unwrap_or(i64::MAX));
        let one_may = roles.iter().flatten().any(|role| role.writes && !role.is_galera);
        metrics.ledger.writers_in_conflict.set((writers > 1 && one_may).into());
        let known = self.found.writer.borrow().clone();
        let Some(host) = choose(roles, known.as_ref().map(|known| known.host)) else {
            if known.is_none() && writers > 1 {
                tracing::error!("several hosts of DATABASE_URL take writes: {}", self.names(roles));
            }
            return;
        };
        let Some(role) = &roles[host] else { return };
        if known.as_ref().is_some_and(|known| known.host == host && known.identity == role.identity)
        {
            return;
        }
        let since = Instant::now();
        let is_first = known.is_none();
        let next = Known { host, identity: role.identity.clone(), since };
        for pool in self.pools().iter() {
            pool.set_connect_options(self.found.hosts[host].clone());
        }
        self.found.writer.send_replace(Some(next));
        metrics.ledger.writer.set(i64::try_from(host + 1).unwrap_or(i64::MAX));
        let (name, of) = (hosts::name(&self.found.hosts[host]), roles.len());
        if is_first {
            tracing::info!("ledger writer found: {name}, host {} of {of}", host + 1);
        } else {
            metrics.ledger.writer_changes.inc();
            tracing::warn!("ledger writer changed: {name}, host {} of {of}", host + 1);
        }
    }

    /// The hosts that write, for people.
    fn names(&self, roles: &[Option<Role>]) -> String {
        let hosts = self.found.hosts.iter().zip(roles);
        let writers = hosts.filter(|(_, role)| role.as_ref().is_some_and(|role| role.writes));
        writers.map(|(host, _)| hosts::name(host)).collect::<Vec<_>>().join(", ")
    }

    fn pools(&self) -> MutexGuard<'_, Vec<MySqlPool>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Found {
    /// Whether a connection of this age was opened before the writer changed.
    pub(super) fn is_outdated(&self, age: Duration) -> bool {
        if self.hosts.len() < 2 {
            return false;
        }
        let opened = Instant::now().checked_sub(age);
        self.writer.borrow().as_ref().is_some_and(|known| opened < Some(known.since))
    }

    /// Has the hosts asked soon.
    pub(super) fn suspect(&self) {
        self.suspected.notify_one();
    }

    /// Sets up the session of a new connection, and notes whether it leads to a node of Galera. Instances may use
    /// different nodes for a moment, so each read waits there until the node has applied what the others committed.
    ///
    /// # Errors
    /// The server's.
    pub(super) async fn set_up(
        &self,
        connection: &mut MySqlConnection,
        session: &str,
    ) -> sqlx::Result<()> {
        let statements = format!("{session}; SHOW GLOBAL VARIABLES LIKE 'wsrep_on'");
        let rows = connection.fetch_all(sqlx::raw_sql(&statements)).await?;
        let is_on = |row: &MySqlRow| row.try_get::<String, _>(1).is_ok_and(|value| value == "ON");
        let is_galera = rows.iter().any(is_on);
        self.is_galera.store(is_galera, Ordering::Relaxed);
        if is_galera && self.hosts.len() > 1 {
            connection.execute(sqlx::raw_sql(READS_WAIT)).await?;
        }
        Ok(())
    }

    /// Checks that a new connection leads to the writer; with one host, it always does.
    ///
    /// # Errors
    /// The server's, or that it is another server: the pool then tries again.
    pub(super) async fn confirm(&self, connection: &mut MySqlConnection) -> sqlx::Result<()> {
        if self.hosts.len() < 2 {
            return Ok(());
        }
        let mut writer = self.writer.subscribe();
        let identity = {
            let found = tokio::time::timeout(FOUND_MAX, writer.wait_for(Option::is_some)).await;
            let Ok(Ok(known)) = found else {
                return Err(not_the_writer("no host of DATABASE_URL is known to take writes yet"));
            };
            known.as_ref().map(|known| known.identity.clone())
        };
        let role = replication::role(connection).await;
        match role {
            Ok(role) if role.writes && Some(&role.identity) == identity.as_ref() => Ok(()),
            Ok(_) => {
                self.suspect();
                // The next try, which comes at once, would meet the same server.
                let _ = tokio::time::timeout(FOUND_MAX, writer.changed()).await;
                Err(not_the_writer("this host does not take writes (any more)"))
            }
            Err(error) => {
                self.suspect();
                Err(error)
            }
        }
    }
}

fn not_the_writer(sentence: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, sentence.to_owned()))
}

/// The writer according to the hosts' answers; `None` when it is not known or not to be changed.
fn choose(roles: &[Option<Role>], current: Option<usize>) -> Option<usize> {
    let writes = |host: &usize| roles[*host].as_ref().is_some_and(|role| role.writes);
    let writers: Vec<usize> = (0..roles.len()).filter(writes).collect();
    let all_may_write = |host: &usize| roles[*host].as_ref().is_some_and(|role| role.is_galera);
    match writers.as_slice() {
        [only] => Some(*only),
        [first, ..] if writers.iter().all(all_may_write) => Some(*first),
        _ => current.filter(|host| writers.contains(host)),
    }
}

/// Sets the metrics of the replicas among the hosts.
fn note_lags(lags: &[Option<Lag>], metrics: &Metrics) {
    let stopped = lags.iter().filter(|lag| **lag == Some(Lag::Stopped)).count();
    metrics.ledger.replicas_stopped.set(i64::try_from(stopped).unwrap_or(i64::MAX));
    let behind = lags.iter().flatten().filter_map(|lag| match lag {
        Lag::Behind(time) => i64::try_from(time.as_secs()).ok(),
        Lag::Stopped => None,
    });
    metrics.ledger.replica_lag.set(behind.max().unwrap_or(0));
}

/// Asks a host on a connection that is kept for it; its role is `None` when it does not answer.
async fn ask(
    host: &MySqlConnectOptions,
    line: &mut Option<MySqlConnection>,
) -> (Option<Role>, Option<Lag>) {
    let kept = line.take();
    let asked = async {
        let mut connection = match kept {
            Some(connection) => connection,
            // Without the database, which may not be made yet.
            None => host.clone().database("").connect().await?,
        };
        let role = replication::role(&mut connection).await?;
        Ok((connection, role))
    };
    match within(ROLE_MAX, asked).await {
        Ok((connection, role)) if role.writes => {
            *line = Some(connection);
            (Some(role), None)
        }
        Ok((mut connection, role)) => {
            let asked = tokio::time::timeout(LAG_MAX, replication::lag(&mut connection)).await;
            // A connection that still waits for its answer is not asked again.
            *line = asked.is_ok().then_some(connection);
            (Some(role), asked.ok().flatten())
        }
        Err(error) => {
            tracing::debug!(%error, host = hosts::name(host), "host of the ledger does not say its role");
            (None, None)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn role(writes: bool, is_galera: bool) -> Option<Role> {
        Some(Role { writes, is_galera, identity: String::new() })
    }

    #[test]
    fn the_one_that_writes_is_chosen() {
        let (yes, no) = (role(true, false), role(false, false));
        assert_eq!(choose(&[yes.clone(), no.clone()], None), Some(0));
        assert_eq!(choose(&[no.clone(), yes.clone()], Some(0)), Some(1));
        assert_eq!(choose(&[None, yes.clone()], Some(0)), Some(1));
        assert_eq!(choose(&[None, no.clone()], Some(0)), None, "nobody writes: nothing changes");
    }

    #[test]
    fn of_two_that_write_the_followed_one_is_kept() {
        let both = [role(true, false), role(true, false)];
        assert_eq!(choose(&both, Some(1)), Some(1));
        assert_eq!(choose(&both, None), None, "nobody can tell which one is right");
    }

    #[test]
    fn every_instance_takes_the_first_synced_node_of_galera() {
        let node = role(true, true);
        assert_eq!(choose(&[node.clone(), node.clone(), node.clone()], Some(2)), Some(0));
        assert_eq!(choose(&[role(false, true), node.clone(), node], Some(0)), Some(1));
    }
}
