//! Pools of connections, which follow the writer, and the checks on their connections: a silent one is closed, and so
//! is one that leads to a server which was replaced.
//!
//! A connection is rolled back when it returns to its pool, and pinged when it has idled for a
//! while. With several hosts, its server is asked before each use whether it still takes writes. A connection that does
//! not answer in time is closed. If it had idled, all connections that have idled as long are closed too: they share
//! the link, so one lost wait is enough for all.
//!
//! Work whose time is over is dropped (`limits.rs`), and the checks close the connection that it leaves behind.
//! When the work had sent a statement to be prepared, sqlx does not know that an answer is on its way, and
//! takes it for that of ROLLBACK. That ends with an error, too late, or with a panic of sqlx in the task
//! that gives the connection back (its issue 4139): the connection is never used again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Connection, Executor, MySqlConnection};
use tokio_util::sync::CancellationToken;

use crate::session::PoolSession;
use crate::writer::WriterState;
use crate::{Database, Writer, replication, session, within};
use shop_metrics::LedgerMetrics;

/// How long the answer to a ping may take.
const SIGN_OF_LIFE_MAX: Duration = Duration::from_secs(1);
/// A connection that idled for less than this is not pinged before its next use.
const TRUSTED: Duration = Duration::from_secs(1);

/// Finds out whether a server answers, beside the calls; its wait is bounded.
pub type SignOfLife = Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>;

/// The options of a pool. A program makes them from its own settings.
#[derive(Clone)]
pub struct PoolOptions {
    /// The URL of the hosts, with the password.
    pub url: String,
    /// Connections of the pool, unless its maker gives another number.
    pub connections_max: u32,
    /// How long a statement waits for a locked row, in seconds.
    pub lock_wait_timeout_seconds: u32,
    /// Whether each transaction writes rows of one shard, where the database has several. Others may write rows of two,
    /// at a higher price.
    pub one_shard: bool,
    /// How long a caller waits for a connection, in milliseconds.
    pub acquire_timeout_ms: u64,
}

/// Makes a pool for a command or a test, which follows the writer by itself; connects when first
/// used.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool(options: impl Into<PoolOptions>) -> Result<Database, String> {
    let options = options.into();
    let connections_max = options.connections_max;
    pool_of(options, connections_max)
}

/// Makes a pool like [`pool`] with another number of connections.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool_of(options: impl Into<PoolOptions>, connections_max: u32) -> Result<Database, String> {
    let options = options.into();
    let writer = Writer::new(&options.url)?;
    let pool = pool_to(&writer, options, connections_max);
    if writer.has_several_hosts() {
        // Until the pool is closed.
        tokio::spawn(writer.follow(LedgerMetrics::default(), CancellationToken::new()));
    }
    Ok(pool)
}

/// Makes a pool of connections to the writer; connects when first used.
///
/// Sessions are set up in `session.rs`. A connection that was used a moment ago is not pinged before use: a dead one
/// fails before anything was written, and the caller tries again. With several hosts, the server says before each use
/// that it still takes writes.
pub fn pool_to(writer: &Writer, options: impl Into<PoolOptions>, connections_max: u32) -> Database {
    let options = options.into();
    let session = PoolSession {
        lock_wait_seconds: options.lock_wait_timeout_seconds,
        is_of_one_shard: options.one_shard,
    };
    let acquire_timeout = Duration::from_millis(options.acquire_timeout_ms);
    let found = Arc::clone(&writer.found);
    let pool: Database = Link::new(Arc::clone(&found), acquire_timeout)
        .look_after(MySqlPoolOptions::new())
        .max_connections(connections_max)
        .acquire_timeout(acquire_timeout)
        .idle_timeout(session::UNUSED_MAX)
        .test_before_acquire(false)
        .after_connect(move |connection, _| {
            let found = Arc::clone(&found);
            Box::pin(async move {
                let identity = found.confirm(connection).await?;
                found.set_up(connection, session).await?;
                // The writer may have changed meanwhile.
                found.confirm_again(&identity)
            })
        })
        .connect_lazy_with(writer.connect_options())
        .into();
    writer.lead(&pool);
    pool
}

/// The sign of life of the writer: a connection of its own, which is made when first asked for. So it says
/// something of the server also while all connections of the other pools are in use.
pub fn sign_of_life(writer: &Writer, options: impl Into<PoolOptions>) -> SignOfLife {
    let options = options.into();
    // The caller has waited for a connection already.
    let limit = SIGN_OF_LIFE_MAX.min(Duration::from_millis(options.acquire_timeout_ms));
    let pool = pool_to(writer, options, 1);
    Box::new(move || {
        let pool = pool.clone();
        Box::pin(async move { within(limit, pool.acquire()).await.is_ok() })
    })
}

/// Rolls back a transaction that was left open, and returns whether the connection answered in time. A
/// caller that is dropped while BEGIN is sent leaves a transaction that sqlx does not know: the
/// next user of the connection would write into it, and never commit.
async fn roll_back_left_over(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    let rolled_back = connection.execute(sqlx::raw_sql("ROLLBACK"));
    Ok(matches!(tokio::time::timeout(SIGN_OF_LIFE_MAX, rolled_back).await, Ok(Ok(_))))
}

/// The state of the link that the connections of a pool share.
#[derive(Clone)]
struct Link {
    /// The host that the connections should lead to.
    writer: Arc<WriterState>,
    /// How long a ping may take while a caller waits for a connection.
    sign_of_life_max: Duration,
    /// The last time that a ping was not answered.
    silent: Arc<Mutex<Option<Instant>>>,
}

impl Link {
    /// Makes a link without a failed ping. Within `acquire_timeout` there must be time for a ping
    /// and for a new connection.
    fn new(writer: Arc<WriterState>, acquire_timeout: Duration) -> Self {
        let sign_of_life_max = SIGN_OF_LIFE_MAX.min(acquire_timeout / 3);
        Self { writer, sign_of_life_max, silent: Arc::default() }
    }

    /// Installs the checks on the connections of a pool.
    fn look_after(self, options: MySqlPoolOptions) -> MySqlPoolOptions {
        let writer = Arc::clone(&self.writer);
        options
            .before_acquire(move |connection, metadata| {
                if self.writer.is_outdated(metadata.age) {
                    return Box::pin(async { Ok(false) });
                }
                self.is_usable(connection, metadata.idle_for)
            })
            // sqlx would ping here too, but waits for the answer without end.
            .after_release(move |connection, metadata| {
                if writer.is_outdated(metadata.age) {
                    return Box::pin(async { Ok(false) });
                }
                Box::pin(roll_back_left_over(connection))
            })
    }

    /// Returns whether a connection that was idle for `idle_for` may be used.
    fn is_usable<'a>(
        &self,
        connection: &'a mut MySqlConnection,
        idle_for: Duration,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        let last_used = Instant::now().checked_sub(idle_for);
        if *self.silent() > last_used {
            return Box::pin(async { Ok(false) });
        }
        if idle_for < TRUSTED && !self.writer.is_asked_each_time() {
            return Box::pin(async { Ok(true) });
        }
        self.is_alive(connection)
    }

    /// Returns whether a connection answers in time, and its server takes writes where there are several.
    fn is_alive<'a>(
        &self,
        connection: &'a mut MySqlConnection,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        let link = self.clone();
        Box::pin(async move {
            match tokio::time::timeout(link.sign_of_life_max, link.ask(connection)).await {
                Ok(Ok(true)) => return Ok(true),
                Ok(Ok(false)) => tracing::debug!("connection to a read-only server closed"),
                Ok(Err(_)) => {}
                Err(_) => {
                    tracing::debug!("silent connection to the database closed");
                    *link.silent() = Some(Instant::now());
                }
            }
            link.writer.recheck_writer();
            Ok(false)
        })
    }

    async fn ask(&self, connection: &mut MySqlConnection) -> sqlx::Result<bool> {
        if self.writer.is_asked_each_time() {
            return replication::takes_writes(connection).await;
        }
        connection.ping().await.map(|()| true)
    }

    fn silent(&self) -> MutexGuard<'_, Option<Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
