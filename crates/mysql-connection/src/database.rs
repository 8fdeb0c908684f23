//! The handle of the connections, on which statements are sent; and the server that they lead to, so that the answer of a
//! server that was replaced is noticed.

use std::sync::Arc;

use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlx::mysql::{MySqlConnectOptions, MySqlQueryResult, MySqlRow, MySqlStatement, MySqlTypeInfo};
use sqlx::pool::PoolConnection;
use sqlx::{Describe, Either, Execute, Executor, MySql, MySqlPool, Transaction};

/// The connections of a pool. Clones share them.
#[derive(Clone, Debug)]
pub struct Database(MySqlPool);

impl From<MySqlPool> for Database {
    fn from(pool: MySqlPool) -> Self {
        Self(pool)
    }
}

impl Database {
    /// Closes all connections, and waits until those in use are returned.
    pub async fn close(&self) {
        self.0.close().await;
    }

    /// Lends the connections to the locks that are kept in the database's server.
    pub fn for_locks(&self) -> &MySqlPool {
        &self.0
    }

    /// Takes a connection; it returns to the pool when it is dropped.
    ///
    /// # Errors
    /// The database's. The wait is that of the pool.
    pub async fn acquire(&self) -> sqlx::Result<PoolConnection<MySql>> {
        self.0.acquire().await
    }

    /// Takes a connection on which the database is asked about a COMMIT whose answer was lost. Its next transaction reads
    /// with locks that every engine honours: a locking read in it waits for a transaction that still holds the row, and
    /// sees what was committed last.
    ///
    /// The read must stand in a transaction of its own at REPEATABLE READ: TiDB does not wait in
    /// autocommit, and under READ COMMITTED it does not lock a missing key. On Galera a node may be
    /// behind the one that has committed, unless it is told to catch up before it reads. The
    /// connection is closed after use, since it keeps that setting.
    ///
    /// # Errors
    /// The database's.
    pub async fn after_lost_commit(&self) -> sqlx::Result<PoolConnection<MySql>> {
        let mut connection = self.acquire().await?;
        connection.close_on_drop();
        // Other engines do not know the variable, and refuse it with an error that means nothing here.
        let _ = connection.execute(sqlx::raw_sql("SET SESSION wsrep_sync_wait = 7")).await;
        let isolation = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
        connection.execute(sqlx::raw_sql(isolation)).await?;
        Ok(connection)
    }

    pub(crate) async fn begin(&self) -> sqlx::Result<Transaction<'static, MySql>> {
        self.0.begin().await
    }

    /// The options of the next connection: they lead to the writer once one connection was made.
    pub fn connect_options(&self) -> Arc<MySqlConnectOptions> {
        self.0.connect_options()
    }

    pub(crate) fn set_connect_options(&self, options: MySqlConnectOptions) {
        self.0.set_connect_options(options);
    }

    /// The most connections that the pool opens.
    pub fn connections_max(&self) -> u32 {
        self.0.options().get_max_connections()
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.0.is_closed()
    }

    /// The connections that are in use.
    pub fn connections_busy(&self) -> u32 {
        let idle = u32::try_from(self.0.num_idle()).unwrap_or(u32::MAX);
        self.0.size().saturating_sub(idle)
    }
}

/// The server that a pool led to when this was made.
///
/// A writer that was frozen or cut off may be replaced, wake up, and answer a COMMIT that no other
/// server has. So an answer counts only if the pool still leads to the server that gave it;
/// otherwise it is an unknown outcome, which the new writer settles.
#[derive(Clone, Debug)]
pub struct Destination {
    pool: Database,
    options: Arc<MySqlConnectOptions>,
}

impl Destination {
    /// The present destination of a pool.
    pub fn of(pool: &Database) -> Self {
        Self { pool: pool.clone(), options: pool.connect_options() }
    }

    /// Returns whether the pool leads to another server by now.
    pub fn has_changed(&self) -> bool {
        // Each change sets new options.
        !Arc::ptr_eq(&self.options, &self.pool.connect_options())
    }

    /// The error for an answer of a server that was replaced: a lost connection.
    pub fn replaced() -> sqlx::Error {
        let sentence = "the server that answered is not the writer of the ledger any more";
        sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::ConnectionAborted, sentence))
    }
}

/// Tests send statements of their own.
#[cfg(feature = "raw-pool")]
impl std::ops::Deref for Database {
    type Target = MySqlPool;

    fn deref(&self) -> &MySqlPool {
        &self.0
    }
}

impl<'p> Executor<'p> for &'_ Database {
    type Database = MySql;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, sqlx::Result<Either<MySqlQueryResult, MySqlRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, MySql>,
    {
        (&self.0).fetch_many(query)
    }

    fn fetch_optional<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxFuture<'e, sqlx::Result<Option<MySqlRow>>>
    where
        'p: 'e,
        E: 'q + Execute<'q, MySql>,
    {
        (&self.0).fetch_optional(query)
    }

    fn prepare_with<'e, 'q: 'e>(
        self,
        sql: &'q str,
        parameters: &'e [MySqlTypeInfo],
    ) -> BoxFuture<'e, sqlx::Result<MySqlStatement<'q>>>
    where
        'p: 'e,
    {
        (&self.0).prepare_with(sql, parameters)
    }

    fn describe<'e, 'q: 'e>(self, sql: &'q str) -> BoxFuture<'e, sqlx::Result<Describe<MySql>>>
    where
        'p: 'e,
    {
        (&self.0).describe(sql)
    }
}
