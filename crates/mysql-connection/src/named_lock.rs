//! A named lock of the database's server, on a session that does nothing else.

use std::time::Duration;

use sqlx::mysql::{MySqlConnectOptions, MySqlConnection};
use sqlx::{Connection, Executor};
use tokio::time::timeout;

use crate::limits::ANSWER_MAX;
use crate::statement::Binds;
use crate::{Database, answered, session, within};

/// The statement that takes a lock. The name is hashed with that of the database, because MySQL allows 64 characters; MySQL
/// has no MD5 since 9.6.
const TAKE: &str = "SELECT GET_LOCK(CONCAT(?, LEFT(SHA2(CONCAT(DATABASE(), ?), 256), 32)), ?)";

/// The session is kept this often. The server ends one that is silent for 20 s.
const KEPT_EACH: Duration = Duration::from_secs(5);

/// A lock that is held until it is dropped: it ends with its session, at the latest when the server has heard nothing
/// of the session for a while.
#[derive(Debug)]
pub struct NamedLock {
    session: MySqlConnection,
}

impl NamedLock {
    /// Takes the lock of this kind for this thing on the server that a pool leads to, if it is free.
    ///
    /// # Errors
    /// The server's.
    pub async fn take_free(pool: &Database, kind: &str, of: &str) -> sqlx::Result<Option<Self>> {
        // The pool's options lead to the writer once one connection was made.
        drop(answered(pool.acquire()).await?);
        Self::take(&pool.connect_options(), kind, of, 0).await
    }

    /// Takes the lock of this kind for this thing; `None` while another session has it for all of `wait_seconds`.
    ///
    /// # Errors
    /// The server's.
    pub async fn take(
        options: &MySqlConnectOptions,
        kind: &str,
        of: &str,
        wait_seconds: u32,
    ) -> sqlx::Result<Option<Self>> {
        let mut session = answered(session::open_without_limit(options)).await?;
        let taken = sqlx::query_scalar(TAKE).binds((kind, of, wait_seconds));
        let limit = Duration::from_secs(wait_seconds.into()) + ANSWER_MAX;
        let taken: Option<i64> = within(limit, taken.fetch_one(&mut session)).await?;
        match taken {
            Some(1) => return Ok(Some(Self { session })),
            Some(_) => {}
            None => return Err(sqlx::Error::Protocol("the server refuses GET_LOCK".to_owned())),
        }
        let _ = answered(session.close()).await;
        Ok(None)
    }

    /// Waits for work, and keeps the session meanwhile: else the server would end it during work that takes long, and
    /// others would get the lock.
    ///
    /// # Errors
    /// The work's, or the database's: the lock may be lost.
    pub async fn keep_during<T>(
        &mut self,
        mut work: impl Future<Output = sqlx::Result<T>> + Unpin,
    ) -> sqlx::Result<T> {
        loop {
            if let Ok(done) = timeout(KEPT_EACH, &mut work).await {
                return done;
            }
            self.keep().await?;
        }
    }

    /// Keeps the session, which the server would end. By a question about a lock, whatever its answer: a vtgate of
    /// Vitess answers a ping and `SELECT 1` itself, and the tablet with the lock hears nothing.
    ///
    /// # Errors
    /// The database's: the lock may be lost.
    pub async fn keep(&mut self) -> sqlx::Result<()> {
        answered(self.session.execute("SELECT IS_FREE_LOCK('seckill')")).await.map(drop)
    }

    /// Gives the lock back.
    pub async fn release(self) {
        let _ = answered(self.session.close()).await;
    }
}
