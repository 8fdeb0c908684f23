//! Bounds for the ledger: no statement is waited for without end, and a connection that went silent
//! is closed.
//!
//! A link can die so that neither end is told: a firewall forgets it, a cable is pulled. sqlx then
//! waits for ever, and it lets nobody set a time-out on its socket. So there are two rules here.
//!
//! * Work on the ledger is awaited through [`answered`] or [`within`]. When its time is over it is
//!   dropped, with an error that counts as a lost connection: after COMMIT was sent the outcome is
//!   unknown, before it nothing happened, since the transaction ends with its connection.
//! * A connection is rolled back when it comes back to its pool, and asked for a sign of life when it
//!   has idled for a while. One that does not answer in time is closed. If it had idled, so are all that
//!   have idled since before: they take the same way, so one lost wait speaks for all of them.
//!
//! The first rule drops the work, and the second one closes the connection that it leaves behind.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures::future::BoxFuture;
use sqlx::mysql::MySqlPoolOptions;
use sqlx::{Connection, Executor, MySql, MySqlConnection, Transaction};

/// How long one statement may take, the wait for a connection and for a row lock included.
pub const ANSWER_MAX: Duration = Duration::from_secs(6);
/// How long the statements of a short transaction may take together, its COMMIT not included.
pub const TRANSACTION_MAX: Duration = Duration::from_secs(10);
/// How long something may take that reads a lot, such as an audit.
pub const LONG_READ_MAX: Duration = Duration::from_secs(60);
/// How long a connection may take to give a sign of life.
const SIGN_OF_LIFE_MAX: Duration = Duration::from_secs(1);
/// A connection that was used so recently is not asked for a sign of life before it is used again.
const TRUSTED: Duration = Duration::from_secs(1);

/// Waits for one statement.
///
/// # Errors
/// The work's; an error of input and output when its time is over.
pub async fn answered<T>(work: impl Future<Output = sqlx::Result<T>>) -> sqlx::Result<T> {
    within(ANSWER_MAX, work).await
}

/// Waits for work on the ledger no longer than `limit`.
///
/// # Errors
/// The work's; an error of input and output when its time is over.
pub async fn within<T>(
    limit: Duration,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    match tokio::time::timeout(limit, work).await {
        Ok(answer) => answer,
        Err(_) => Err(sqlx::Error::Io(io::Error::new(
            io::ErrorKind::TimedOut,
            format!("the database did not answer within {} s", limit.as_secs()),
        ))),
    }
}

/// Rolls back after `error`. Where there was no answer, there will be none to this either: then the
/// transaction ends with its connection.
pub async fn roll_back(transaction: Transaction<'_, MySql>, error: &sqlx::Error) {
    if !is_silence(error) {
        // When even this fails the connection is dead, and the server rolls back by itself.
        let _ = answered(transaction.rollback()).await;
    }
}

fn is_silence(error: &sqlx::Error) -> bool {
    matches!(error, sqlx::Error::Io(error) if error.kind() == io::ErrorKind::TimedOut)
}

/// Ends a transaction that was left open, if there is one; whether the connection answered in time. A
/// caller that goes away while BEGIN is on its way leaves one of which sqlx does not know: the next user
/// of the connection would write into it, and never commit.
async fn roll_back_left_over(connection: &mut MySqlConnection) -> sqlx::Result<bool> {
    let rolled_back = connection.execute(sqlx::raw_sql("ROLLBACK"));
    Ok(matches!(tokio::time::timeout(SIGN_OF_LIFE_MAX, rolled_back).await, Ok(Ok(_))))
}

/// What a pool knows of the link that its connections share.
#[derive(Clone)]
pub(super) struct Link {
    /// How long a sign of life may take while somebody waits for a connection.
    sign_of_life_max: Duration,
    /// When a connection last gave no sign of life.
    silent: Arc<Mutex<Option<Instant>>>,
}

impl Link {
    /// A link of which nothing is known. Within `acquire_timeout` there must be time for a sign of
    /// life and for a new connection.
    pub(super) fn new(acquire_timeout: Duration) -> Self {
        let sign_of_life_max = SIGN_OF_LIFE_MAX.min(acquire_timeout / 3);
        Self { sign_of_life_max, silent: Arc::default() }
    }

    /// Has the connections of a pool looked after.
    pub(super) fn look_after(self, options: MySqlPoolOptions) -> MySqlPoolOptions {
        options
            .before_acquire(move |connection, metadata| {
                self.is_usable(connection, metadata.idle_for)
            })
            // sqlx asks for a sign of life here as well, but waits for it without end.
            .after_release(move |connection, _| Box::pin(roll_back_left_over(connection)))
    }

    /// Whether a connection that was idle for `idle_for` may be used.
    fn is_usable<'a>(
        &self,
        connection: &'a mut MySqlConnection,
        idle_for: Duration,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        let last_used = Instant::now().checked_sub(idle_for);
        if *self.silent() > last_used {
            return Box::pin(async { Ok(false) });
        }
        if idle_for < TRUSTED {
            return Box::pin(async { Ok(true) });
        }
        self.is_alive(connection, self.sign_of_life_max)
    }

    fn is_alive<'a>(
        &self,
        connection: &'a mut MySqlConnection,
        limit: Duration,
    ) -> BoxFuture<'a, sqlx::Result<bool>> {
        let link = self.clone();
        Box::pin(async move {
            match tokio::time::timeout(limit, connection.ping()).await {
                Ok(answer) => Ok(answer.is_ok()),
                Err(_) => {
                    tracing::debug!("a connection to the database is silent, and is closed");
                    *link.silent() = Some(Instant::now());
                    Ok(false)
                }
            }
        })
    }

    fn silent(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.silent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
