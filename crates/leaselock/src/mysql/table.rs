//! `table` on `mysql`: one row per name, with owner, fence and the end of the lease.
//!
//! **How it works.** Acquire is one `INSERT ... ON DUPLICATE KEY UPDATE` that takes the row if it
//! is free or its lease has ended, and raises its fence each time; a second statement reads the
//! outcome. Only the server's clock is used. Renewal and release compare owner and lease.
//!
//! **What can go wrong.** A holder may be paused beyond its lease: the fence, checked in the same
//! transaction as the guarded write, keeps it out. Each change is a durable commit, so this lock is
//! slower than those on Redis; and when the server is down, so is the lock.
//!
//! **When to use it.** Use it when MySQL is there anyway and holds the guarded data. Then the lock
//! survives the same failures as the data.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::MySqlPool;
use tokio_util::task::TaskTracker;

use crate::store::{AcquireResult, BackendError, Grant, LeaseStore, StoreResult, Token};
use crate::{Capabilities, Fence, Fencing, LeasedMutex, LockName, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "table",
    backend: "mysql",
    summary: "a row per name with owner, fence and lease by the server's clock",
    breaks_when: "The server's clock jumps ahead, or the holder is paused beyond its lease",
    fencing: Fencing::Rising,
    waiting: Waiting::Polls,
    ..Capabilities::LEASED_MUTEX
};

/// Makes the lock over the table `locks`, which [`SCHEMA`](super::SCHEMA) makes. Give it a pool of its
/// own: a renewal that queues behind writes that wait for the lock would come too late.
#[must_use]
pub fn mutex(pool: MySqlPool, tasks: &TaskTracker) -> LeasedMutex {
    let store = TableStore { pool, releases: AtomicU32::new(0) };
    LeasedMutex::start(Arc::new(store), &CAPABILITIES, tasks)
}

/// Takes the name if it is free. Assignments run from left to right, and each sees the ones before it: so the fence
/// depends on the old row, the owner on the old lease, and the lease on the new owner.
const ACQUIRE: &str = "INSERT INTO locks (name, owner, fence, leased_until) VALUES (?, ?, \
     TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)), \
     UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND) \
     ON DUPLICATE KEY UPDATE \
     fence = IF(owner <> VALUES(owner) AND (owner = '' OR leased_until <= UTC_TIMESTAMP(6)), \
     GREATEST(fence + 1, VALUES(fence)), fence), \
     owner = IF(owner = '' OR leased_until <= UTC_TIMESTAMP(6), VALUES(owner), owner), \
     leased_until = IF(owner = VALUES(owner), VALUES(leased_until), leased_until)";
const RENEW: &str = "UPDATE locks SET leased_until = UTC_TIMESTAMP(6) + INTERVAL ? MICROSECOND \
     WHERE name = ? AND owner = ? AND leased_until > UTC_TIMESTAMP(6)";
const RELEASE: &str = "UPDATE locks SET owner = '', leased_until = UTC_TIMESTAMP(6) \
     WHERE name = ? AND owner = ? AND leased_until > UTC_TIMESTAMP(6)";
const RAISE_FENCE: &str = "INSERT INTO locks (name, owner, fence, leased_until) \
     VALUES (?, '', ?, UTC_TIMESTAMP(6)) \
     ON DUPLICATE KEY UPDATE fence = GREATEST(fence, VALUES(fence))";
/// Deletes rows that are not used any more. No fence is lost with a row: a new row starts from the clock, which is
/// higher by then. A fence that was raised may be ahead of the clock, and so may one from before the clock was set
/// back.
const SWEEP: &str = "DELETE FROM locks WHERE leased_until < UTC_TIMESTAMP(6) - INTERVAL 1 DAY \
     AND fence < TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6)) LIMIT 1000";

/// One release in this number also deletes rows that have not been used for a day.
const RELEASES_PER_SWEEP: u32 = 1_024;

struct TableStore {
    pool: MySqlPool,
    releases: AtomicU32,
}

#[async_trait]
impl LeaseStore for TableStore {
    async fn acquire(&self, name: &LockName, token: &Token, lease: Duration) -> AcquireResult {
        let tried = sqlx::query(ACQUIRE)
            .bind(name.as_str())
            .bind(token.as_str())
            .bind(microseconds(lease))
            .execute(&self.pool);
        match tried.await {
            Ok(_) => {}
            Err(error) if lost_a_race(&error) => return Ok(None),
            Err(error) => return Err(BackendError::of(error)),
        }
        let fence: Option<u64> =
            sqlx::query_scalar("SELECT fence FROM locks WHERE name = ? AND owner = ?")
                .bind(name.as_str())
                .bind(token.as_str())
                .fetch_optional(&self.pool)
                .await
                .map_err(BackendError::of)?;
        Ok(fence.map(Grant::fenced))
    }

    async fn renew(&self, name: &LockName, token: &Token, lease: Duration) -> StoreResult<bool> {
        let renewed = sqlx::query(RENEW)
            .bind(microseconds(lease))
            .bind(name.as_str())
            .bind(token.as_str())
            .execute(&self.pool);
        Ok(renewed.await.map_err(BackendError::of)?.rows_affected() == 1)
    }

    async fn release(&self, name: &LockName, token: &Token) -> StoreResult<bool> {
        let released =
            sqlx::query(RELEASE).bind(name.as_str()).bind(token.as_str()).execute(&self.pool);
        let freed = released.await.map_err(BackendError::of)?.rows_affected() == 1;
        let releases = self.releases.fetch_add(1, Ordering::Relaxed);
        if releases.is_multiple_of(RELEASES_PER_SWEEP) {
            // If this fails, a later release does it.
            let _ = sqlx::query(SWEEP).execute(&self.pool).await;
        }
        Ok(freed)
    }

    async fn raise_fence(&self, name: &LockName, at_least: Fence) -> StoreResult<()> {
        // One more than the last one: an acquire that has not read its fence yet reads this one.
        let raised = sqlx::query(RAISE_FENCE)
            .bind(name.as_str())
            .bind(at_least.get() + 1)
            .execute(&self.pool);
        raised.await.map(|_| ()).map_err(BackendError::of)
    }
}

fn microseconds(lease: Duration) -> i64 {
    i64::try_from(lease.as_micros()).unwrap_or(i64::MAX)
}

/// Whether the statement was rolled back because of another one: by a deadlock, or by a row lock that
/// was not freed in time.
fn lost_a_race(error: &sqlx::Error) -> bool {
    const LOCK_WAIT_TIMEOUT: u16 = 1205;
    const DEADLOCK: u16 = 1213;
    let error = error.as_database_error();
    let number =
        error.and_then(|error| error.try_downcast_ref::<sqlx::mysql::MySqlDatabaseError>());
    number.is_some_and(|error| [LOCK_WAIT_TIMEOUT, DEADLOCK].contains(&error.number()))
}
