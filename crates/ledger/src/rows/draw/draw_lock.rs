//! A lock by which one instance at a time draws an item.

use std::time::Duration;

use sqlx::{Connection, Executor, MySqlConnection};
use tokio::time::timeout;

use crate::failover::session;
use crate::sql::statement::Binds;
use crate::sql::{Database, answered};
use shop_domain::ItemId;

/// The statement that takes the lock if it is free. The name is hashed, because MySQL allows 64 characters; MySQL has
/// no MD5 since 9.6.
const TAKE: &str =
    "SELECT GET_LOCK(CONCAT('seckill-draw-', LEFT(SHA2(CONCAT(DATABASE(), '/', ?), 256), 32)), ?)";

/// The session is kept this often. The server ends one that is silent for 20 s.
const KEPT_EACH: Duration = Duration::from_secs(5);

/// A lock that is held until it is dropped: it ends with its session, at the latest when the server has heard nothing
/// of the session for a while.
#[derive(Debug)]
pub(crate) struct DrawLock {
    session: MySqlConnection,
}

impl DrawLock {
    /// Takes the lock of an item if it is free.
    pub async fn take(ledger: &Database, item: ItemId) -> sqlx::Result<Option<Self>> {
        // The pool's options lead to the writer once one connection was made.
        drop(answered(ledger.acquire()).await?);
        let mut session = answered(session::open(&ledger.connect_options())).await?;
        let taken = sqlx::query_scalar(TAKE).binds((item.get(), 0)).fetch_one(&mut session);
        let taken: Option<i64> = answered(taken).await?;
        if taken == Some(1) {
            return Ok(Some(Self { session }));
        }
        let _ = answered(session.close()).await;
        Ok(None)
    }

    /// Waits for work, and keeps the session meanwhile: else a busy machine that takes too long over a large list would lose
    /// the lock, and begin again for ever.
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
}
