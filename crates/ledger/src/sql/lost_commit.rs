//! The connection on which the ledger is asked about a COMMIT whose answer was lost.

use super::Database;
use sqlx::pool::PoolConnection;
use sqlx::{Executor, MySql};

/// Takes a connection whose next transaction reads with locks that every engine honours: a locking
/// read in it waits for a transaction that still holds the row, and sees what was committed last.
///
/// The read must stand in a transaction of its own at REPEATABLE READ: TiDB does not wait in
/// autocommit, and under READ COMMITTED it does not lock a missing key. On Galera a node may be
/// behind the one that has committed, unless it is told to catch up before it reads. The
/// connection is closed after use, since it keeps that setting.
pub async fn connection(pool: &Database) -> sqlx::Result<PoolConnection<MySql>> {
    let mut connection = pool.acquire().await?;
    connection.close_on_drop();
    // Other engines do not know the variable, and refuse it with an error that means nothing here.
    let _ = connection.execute(sqlx::raw_sql("SET SESSION wsrep_sync_wait = 7")).await;
    let isolation = "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ";
    connection.execute(sqlx::raw_sql(isolation)).await?;
    Ok(connection)
}
