//! The one place where a transaction begins and ends.
//!
//! An answer to COMMIT is believed only when it comes in time and from the server that is the writer
//! now. Anything else is an unknown outcome: the change may have been made, or may be gone with a
//! writer that was replaced. So BEGIN hands out a [`LedgerTransaction`], which knows where it began, and only its
//! [`LedgerTransaction::commit`] ends it with a change.

use std::ops::{Deref, DerefMut};

use futures::future::BoxFuture;
use sqlx::{Connection, MySql, MySqlConnection, Transaction};

use crate::error::{Fault, unconfirmed};
use crate::limits::{TRANSACTION_MAX, answered, is_silence, within_limit};
use crate::{Database, Destination};

/// A transaction with the server that it began on. It is rolled back when it is dropped.
#[derive(Debug)]
pub struct LedgerTransaction<'c> {
    transaction: Transaction<'c, MySql>,
    destination: Option<Destination>,
}

/// An error of the work within a transaction.
pub trait WorkError: From<sqlx::Error> {
    /// The database's error; `None` when the work was refused, which is an answer of the database.
    fn database(&self) -> Option<&sqlx::Error>;

    /// Replaces the database's error.
    #[must_use]
    fn map_database(self, replace: impl FnOnce(sqlx::Error) -> sqlx::Error) -> Self;
}

impl WorkError for sqlx::Error {
    fn database(&self) -> Option<&sqlx::Error> {
        Some(self)
    }

    fn map_database(self, replace: impl FnOnce(sqlx::Error) -> sqlx::Error) -> Self {
        replace(self)
    }
}

/// The reason why work within a transaction is rolled back.
#[derive(Debug)]
pub enum Rollback<R> {
    /// The work was refused.
    Refused(R),
    /// The database's error.
    Failed(sqlx::Error),
}

impl<R> From<sqlx::Error> for Rollback<R> {
    fn from(error: sqlx::Error) -> Self {
        Self::Failed(error)
    }
}

impl<R> WorkError for Rollback<R> {
    fn database(&self) -> Option<&sqlx::Error> {
        match self {
            Self::Failed(error) => Some(error),
            Self::Refused(_) => None,
        }
    }

    fn map_database(self, replace: impl FnOnce(sqlx::Error) -> sqlx::Error) -> Self {
        match self {
            Self::Failed(error) => Self::Failed(replace(error)),
            refused => refused,
        }
    }
}

/// Runs `work` in a transaction: BEGIN, the work, and COMMIT, or ROLLBACK after any error. The future of
/// `work` is boxed: only so the compiler sees that the whole may run on any thread.
///
/// # Errors
/// Those of `work`, of BEGIN, and of [`LedgerTransaction::commit`], which has a time of its own; a missing answer when
/// the others have taken [`TRANSACTION_MAX`].
pub async fn transact<'w, T, E: WorkError>(
    pool: &Database,
    work: impl for<'t> FnOnce(&'t mut LedgerTransaction<'w>) -> BoxFuture<'t, Result<T, E>>,
) -> Result<T, E> {
    // Boxed: it would make the future of each caller larger.
    Box::pin(async {
        // Without the COMMIT: one that was sent must not look like work that was not done in time.
        let (transaction, value) = within_limit(TRANSACTION_MAX, write(pool, work)).await?;
        transaction.commit().await?;
        Ok::<_, E>(value)
    })
    .await
}

/// Begins, and does the work; after any error of it the transaction is rolled back.
async fn write<'w, T, E: WorkError>(
    pool: &Database,
    work: impl for<'t> FnOnce(&'t mut LedgerTransaction<'w>) -> BoxFuture<'t, Result<T, E>>,
) -> Result<(LedgerTransaction<'w>, T), E> {
    let mut transaction: LedgerTransaction<'w> = begin(pool).await?;
    match work(&mut transaction).await {
        Ok(value) => Ok((transaction, value)),
        Err(error) => {
            match error.database() {
                Some(failed) => transaction.roll_back_after(failed).await,
                None => drop(transaction.rollback().await),
            }
            Err(error)
        }
    }
}

/// Begins a transaction on a connection of a pool.
///
/// # Errors
/// The database's; nothing was written.
pub async fn begin(pool: &Database) -> sqlx::Result<LedgerTransaction<'static>> {
    // Before the connection is taken: afterwards it could name a server that the connection does not lead to.
    let destination = Some(Destination::of(pool));
    // Boxed: with the wait for a connection it would make the future of each caller larger.
    let transaction = Box::pin(answered(pool.begin())).await?;
    Ok(LedgerTransaction { transaction, destination })
}

/// Begins a transaction on a connection whose owner compares its [`Destination`], because COMMIT may travel in
/// a packet or in a procedure there; or one that is only read and rolled back.
///
/// # Errors
/// The database's; nothing was written.
pub async fn begin_on(connection: &mut MySqlConnection) -> sqlx::Result<LedgerTransaction<'_>> {
    let transaction = answered(connection.begin()).await?;
    Ok(LedgerTransaction { transaction, destination: None })
}

impl LedgerTransaction<'_> {
    /// Commits.
    ///
    /// # Errors
    /// [`is_unconfirmed`](crate::is_unconfirmed) when the change may have been made: the answer was lost or came too late, or the
    /// server that gave it is not the writer any more. The error has its cause. Any other error means that the
    /// server has rolled back.
    pub async fn commit(self) -> sqlx::Result<()> {
        match answered(self.transaction.commit()).await {
            Ok(()) => match self.destination {
                Some(destination) if destination.has_changed() => {
                    Err(unconfirmed(Destination::replaced()))
                }
                _ => Ok(()),
            },
            Err(error) => Err(match Fault::of(&error) {
                Fault::Connection | Fault::Full | Fault::Other => unconfirmed(error),
                _ => error,
            }),
        }
    }

    /// Rolls back: nothing was written.
    ///
    /// # Errors
    /// The database's; the server then rolls back when it finds that the connection has ended.
    pub async fn rollback(self) -> sqlx::Result<()> {
        answered(self.transaction.rollback()).await
    }

    /// Rolls back after an error, unless it is a missing answer: then the rollback would get none either, and
    /// the transaction ends with its connection.
    pub async fn roll_back_after(self, error: &sqlx::Error) {
        if !is_silence(error) {
            // If the rollback fails, the connection is dead, and the server rolls back by itself.
            let _ = self.rollback().await;
        }
    }
}

impl Deref for LedgerTransaction<'_> {
    type Target = MySqlConnection;

    fn deref(&self) -> &MySqlConnection {
        &self.transaction
    }
}

impl DerefMut for LedgerTransaction<'_> {
    fn deref_mut(&mut self) -> &mut MySqlConnection {
        &mut self.transaction
    }
}

/// Runs one statement that commits itself, or a read whose answer is final, and compares the server that
/// has answered with the present writer.
///
/// # Errors
/// The work's; [`is_unconfirmed`](crate::is_unconfirmed) when the server was replaced meanwhile.
pub async fn confirmed<T>(
    pool: &Database,
    work: impl Future<Output = sqlx::Result<T>>,
) -> sqlx::Result<T> {
    let destination = Destination::of(pool);
    let done = work.await?;
    if destination.has_changed() {
        return Err(unconfirmed(Destination::replaced()));
    }
    Ok(done)
}
