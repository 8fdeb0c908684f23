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
//! When the writer is left for another host is decided in `choice.rs`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::join_all;
use sqlx::mysql::{MySqlConnectOptions, MySqlConnection, MySqlRow};
use sqlx::{Executor, Row};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;

use crate::choice::Choice;
use crate::replication::{self, Lag, Role};
use crate::session::PoolSession;
use crate::{Database, Shards, hosts, session, within};
use shop_metrics::LedgerMetrics;

/// The pause between two questions to the hosts.
const LOOK_PERIOD: Duration = Duration::from_millis(500);
/// The shortest pause between two questions, however many failures ask for one.
const LOOK_PAUSE_MIN: Duration = Duration::from_millis(100);
/// How long a host may take to say whether it writes, the time to connect included.
const ROLE_MAX: Duration = Duration::from_secs(1);
/// How long a replica may take to say how far it is behind: it waits while it is being stopped.
const LAG_MAX: Duration = Duration::from_millis(200);
/// How long a new connection waits for the writer to be found before it is given up.
const FOUND_MAX: Duration = Duration::from_millis(500);

/// How long after a change of the writer a connection is used once only. It may have been opened while the
/// change came, to the old writer, and pools tell the age of a connection from a moment after that.
const CHANGE_MAX: Duration = Duration::from_millis(100);

/// Tells Galera by the first variable, and Vitess by the second.
const ENGINE: &str = "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('wsrep_on', 'version')";

/// Makes SELECT and BEGIN wait until a node of Galera has applied all that was committed before they came.
const READS_WAIT: &str = "SET SESSION wsrep_sync_wait = 1";

/// The writer among the hosts of one URL. Clones share it.
#[derive(Clone, Debug)]
pub struct Writer {
    pub(crate) found: Arc<WriterState>,
    pools: Arc<Mutex<Vec<Database>>>,
}

/// What the connections of the pools ask.
#[derive(Debug)]
pub(crate) struct WriterState {
    hosts: Vec<MySqlConnectOptions>,
    writer: watch::Sender<Option<CurrentWriter>>,
    /// Wakes the task that asks the hosts.
    suspected: Notify,
    /// Whether the last connection led to a node of Galera.
    is_galera: AtomicBool,
    /// Whether the last connection led to a vtgate of Vitess.
    is_vitess: AtomicBool,
    /// Whether the last look did not find that the writer writes.
    is_in_doubt: AtomicBool,
    shards: Shards,
}

/// The writer that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
struct CurrentWriter {
    /// Its place in the URL.
    host: usize,
    /// The name that the server gives itself.
    identity: String,
    /// Connections that are older may lead to another host.
    since: Instant,
}

impl Writer {
    /// Makes a writer that is not found yet.
    ///
    /// # Errors
    /// A sentence when the URL cannot be read.
    pub fn new(url: &str) -> Result<Self, String> {
        let found = WriterState {
            hosts: hosts::read(url)?,
            writer: watch::Sender::new(None),
            suspected: Notify::new(),
            is_galera: AtomicBool::new(false),
            is_vitess: AtomicBool::new(false),
            is_in_doubt: AtomicBool::new(false),
            shards: Shards::default(),
        };
        Ok(Self { found: Arc::new(found), pools: Arc::default() })
    }

    /// Returns whether there is more than one host, so that [`Writer::follow`] is needed.
    pub fn has_several_hosts(&self) -> bool {
        self.found.hosts.len() > 1
    }

    /// Returns whether the statements of a transaction may be a call of a procedure.
    ///
    /// Not on a node of Galera: it may roll a transaction back because another node's came first. Statements that were
    /// sent together would go on outside the transaction, so each must be sent after the answer to the one before it.
    /// Not on Vitess, whose vtgate makes no procedures.
    pub fn takes_calls(&self) -> bool {
        !self.found.is_galera.load(Ordering::Relaxed)
            && !self.found.is_vitess.load(Ordering::Relaxed)
    }

    /// The shards of the database, as the last connection or the last look found them.
    pub fn shards(&self) -> &Shards {
        &self.found.shards
    }

    /// Returns whether the writer may be another one by now: the host that is followed did not say in the last look
    /// that it writes. What it answers is then not the last word. Never with one host.
    pub fn is_in_doubt(&self) -> bool {
        self.has_several_hosts() && self.found.is_in_doubt.load(Ordering::Relaxed)
    }

    /// Asks the hosts soon: a server refused a write, or was lost.
    pub fn recheck_writer(&self) {
        self.found.suspected.notify_one();
    }

    /// The options for the next connection of a new pool.
    pub(crate) fn connect_options(&self) -> MySqlConnectOptions {
        let writer = self.found.writer.borrow().as_ref().map_or(0, |known| known.host);
        self.found.hosts[writer].clone()
    }

    /// Lets a pool follow the writer.
    pub(crate) fn lead(&self, pool: &Database) {
        if self.has_several_hosts() {
            self.pools().push(pool.clone());
            // The writer may have been found since the pool was made.
            pool.set_connect_options(self.connect_options());
        }
    }

    /// Finds the writer and follows it until `stop` fires, or until all of its pools are closed.
    pub async fn follow(self, metrics: LedgerMetrics, stop: CancellationToken) {
        let mut choice = Choice::default();
        let mut lines: Vec<Option<MySqlConnection>> = Vec::new();
        lines.resize_with(self.found.hosts.len(), || None);
        loop {
            let asked = self.found.hosts.iter().zip(&mut lines).map(|(host, line)| ask(host, line));
            let (roles, lags): (Vec<_>, Vec<_>) = join_all(asked).await.into_iter().unzip();
            self.use_writer(&mut choice, &roles, &metrics);
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
    fn use_writer(&self, choice: &mut Choice, roles: &[Option<Role>], metrics: &LedgerMetrics) {
        let writers = roles.iter().flatten().filter(|role| role.writes).count();
        metrics.writers.set(i64::try_from(writers).unwrap_or(i64::MAX));
        let one_may = roles.iter().flatten().any(|role| role.writes && !role.is_galera);
        let known = self.found.writer.borrow().clone();
        let was_contested = choice.is_contested();
        let chosen = choice.after(roles, known.as_ref().map(|known| known.host));
        let is_contested = choice.is_contested();
        metrics.writers_in_conflict.set((is_contested || (writers > 1 && one_may)).into());
        if is_contested && !was_contested {
            tracing::error!(
                "several hosts of DATABASE_URL take writes; the writer is kept: {}",
                self.names(roles)
            );
        }
        self.found.is_in_doubt.store(chosen.is_none(), Ordering::Relaxed);
        let Some(host) = chosen else {
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
        let is_first = known.is_none();
        let since = Instant::now() + if is_first { Duration::ZERO } else { CHANGE_MAX };
        let next = CurrentWriter { host, identity: role.identity.clone(), since };
        // First no old connection may be taken from a pool any more, then the pools name the new server. In between,
        // a caller believes less than it could; the other way round, it would believe the old server.
        self.found.writer.send_replace(Some(next));
        for pool in self.pools().iter() {
            pool.set_connect_options(self.found.hosts[host].clone());
        }
        metrics.writer.set(i64::try_from(host + 1).unwrap_or(i64::MAX));
        let name = hosts::name(&self.found.hosts[host]);
        let of = roles.len();
        if is_first {
            tracing::info!("ledger writer found: {name}, host {} of {of}", host + 1);
        } else {
            metrics.writer_changes.inc();
            tracing::warn!("ledger writer changed: {name}, host {} of {of}", host + 1);
        }
    }

    /// The hosts that write, for people.
    fn names(&self, roles: &[Option<Role>]) -> String {
        let hosts = self.found.hosts.iter().zip(roles);
        let writers = hosts.filter(|(_, role)| role.as_ref().is_some_and(|role| role.writes));
        writers.map(|(host, _)| hosts::name(host)).collect::<Vec<_>>().join(", ")
    }

    fn pools(&self) -> MutexGuard<'_, Vec<Database>> {
        self.pools.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl WriterState {
    /// Returns whether a connection of this age was opened before the writer changed.
    pub(crate) fn is_outdated(&self, age: Duration) -> bool {
        if self.hosts.len() < 2 {
            return false;
        }
        let opened = Instant::now().checked_sub(age);
        self.writer.borrow().as_ref().is_some_and(|known| opened < Some(known.since))
    }

    /// Asks the hosts soon.
    pub(crate) fn recheck_writer(&self) {
        self.suspected.notify_one();
    }

    /// Returns whether a server is asked before each use of a connection whether it still takes writes.
    ///
    /// After a switch, another instance may have found the new writer half a second before this one does, and have
    /// answered a caller. The old writer was read-only before that. So an answer counts only if the server said after the
    /// request came that it takes writes. Galera does not need this: its reads wait for what other nodes committed.
    pub(crate) fn is_asked_each_time(&self) -> bool {
        self.hosts.len() > 1 && !self.is_galera.load(Ordering::Relaxed)
    }

    /// Sets up the session of a new connection, and notes whether it leads to a node of Galera, or to Vitess. Instances
    /// may use different nodes of Galera for a moment, so each read waits there until the node has applied what the
    /// others committed.
    pub(crate) async fn set_up(
        &self,
        connection: &mut MySqlConnection,
        pool: PoolSession,
    ) -> sqlx::Result<()> {
        let statements = |is_vitess| format!("{}; {ENGINE}", session::of_pool(is_vitess, pool));
        // As the last session; the first one to a vtgate is refused what is for others.
        let was_vitess = self.is_vitess.load(Ordering::Relaxed);
        let rows = match connection.fetch_all(sqlx::raw_sql(&statements(was_vitess))).await {
            // The address leads to another engine than before, which has refused what is for the other one.
            Err(error) if error.as_database_error().is_some() => {
                let is_vitess = replication::leads_to_vitess(connection).await.unwrap_or(false);
                if is_vitess == was_vitess {
                    return Err(error);
                }
                connection.fetch_all(sqlx::raw_sql(&statements(is_vitess))).await?
            }
            rows => rows?,
        };
        let value = |row: &MySqlRow| row.try_get::<String, _>(1).unwrap_or_default();
        let values: Vec<String> = rows.iter().map(value).collect();
        let is_galera = values.iter().any(|value| value == "ON");
        let is_vitess = values.iter().any(|value| replication::is_vitess(value));
        self.is_galera.store(is_galera, Ordering::Relaxed);
        self.is_vitess.store(is_vitess, Ordering::Relaxed);
        if was_vitess && !is_vitess {
            // The address leads to another server now, which has got too few settings.
            connection.execute(sqlx::raw_sql(&statements(false))).await?;
        }
        if is_vitess {
            self.shards.read(connection).await?;
        }
        if is_galera && self.hosts.len() > 1 {
            connection.execute(sqlx::raw_sql(READS_WAIT)).await?;
        }
        Ok(())
    }

    /// Checks that the writer is still the one that a new connection was confirmed to lead to.
    ///
    /// # Errors
    /// That it is another server: the pool then tries again.
    pub(crate) fn confirm_again(&self, identity: &str) -> sqlx::Result<()> {
        let is_it = |known: &CurrentWriter| known.identity == identity;
        if self.hosts.len() < 2 || self.writer.borrow().as_ref().is_some_and(is_it) {
            return Ok(());
        }
        Err(not_the_writer("this host is not the writer any more"))
    }

    /// Checks that a new connection leads to the writer, and returns the name that the server gives itself. With one
    /// host there is nothing to check.
    ///
    /// # Errors
    /// The server's, or that it is another server: the pool then tries again.
    pub(crate) async fn confirm(&self, connection: &mut MySqlConnection) -> sqlx::Result<String> {
        if self.hosts.len() < 2 {
            return Ok(String::new());
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
            Ok(role) if role.writes && Some(&role.identity) == identity.as_ref() => {
                Ok(role.identity)
            }
            Ok(_) => {
                self.recheck_writer();
                // The next try, which comes at once, would meet the same server.
                let _ = tokio::time::timeout(FOUND_MAX, writer.changed()).await;
                Err(not_the_writer("this host does not take writes (any more)"))
            }
            Err(error) => {
                self.recheck_writer();
                Err(error)
            }
        }
    }
}

fn not_the_writer(sentence: &str) -> sqlx::Error {
    sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::NotConnected, sentence.to_owned()))
}

/// Sets the metrics of the replicas among the hosts.
fn note_lags(lags: &[Option<Lag>], metrics: &LedgerMetrics) {
    let stopped = lags.iter().filter(|lag| **lag == Some(Lag::Stopped)).count();
    metrics.replicas_stopped.set(i64::try_from(stopped).unwrap_or(i64::MAX));
    let behind = lags.iter().flatten().filter_map(|lag| match lag {
        Lag::Behind(time) => i64::try_from(time.as_secs()).ok(),
        Lag::Stopped => None,
    });
    metrics.replica_lag.set(behind.max().unwrap_or(0));
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
            None => session::open(&host.clone().database("")).await?,
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
