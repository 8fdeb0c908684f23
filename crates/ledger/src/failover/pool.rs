//! Pools of connections, which follow the writer.

use std::sync::Arc;
use std::time::Duration;

use sqlx::mysql::MySqlPoolOptions;
use tokio_util::sync::CancellationToken;

use super::link::{Link, SIGN_OF_LIFE_MAX};
use super::session::PoolSession;
use super::{LedgerOptions, Writer, session};
use crate::sql::{Database, within};
use crate::work::breaker::SignOfLife;
use shop_metrics::Metrics;

/// Makes a pool for a command or a test, which follows the writer by itself; connects when first
/// used.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool(options: impl Into<LedgerOptions>) -> Result<Database, String> {
    let options = options.into();
    let connections_max = options.pool_connections_max;
    pool_of(options, connections_max)
}

/// Makes a pool like [`pool`] with another number of connections.
///
/// # Errors
/// A sentence when the URL cannot be read.
pub fn pool_of(
    options: impl Into<LedgerOptions>,
    connections_max: u32,
) -> Result<Database, String> {
    let options = options.into();
    let writer = Writer::new(&options.url)?;
    let pool = pool_to(&writer, options, connections_max);
    if writer.has_several_hosts() {
        // Until the pool is closed.
        tokio::spawn(writer.follow(Metrics::new(), CancellationToken::new()));
    }
    Ok(pool)
}

/// Makes a pool of connections to the writer; connects when first used.
///
/// Sessions are set up in `session.rs`. A connection that was used a moment ago is not pinged before use: a dead one
/// fails before anything was written, and the caller tries again. With several hosts, the server says before each use
/// that it still takes writes. The bounds of the waits are in `link.rs`.
#[must_use]
pub fn pool_to(
    writer: &Writer,
    options: impl Into<LedgerOptions>,
    connections_max: u32,
) -> Database {
    let options = options.into();
    let session = PoolSession {
        lock_wait_seconds: options.lock_wait_timeout_seconds,
        is_of_one_shard: options.one_shard,
    };
    let acquire_timeout = Duration::from_millis(options.acquire_timeout_ms);
    let found = writer.found();
    let pool: Database = Link::new(writer.found(), acquire_timeout)
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
#[must_use]
pub fn sign_of_life(writer: &Writer, options: impl Into<LedgerOptions>) -> SignOfLife {
    let options = options.into();
    // The caller has waited for a connection already.
    let limit = SIGN_OF_LIFE_MAX.min(Duration::from_millis(options.acquire_timeout_ms));
    let pool = pool_to(writer, options, 1);
    Box::new(move || {
        let pool = pool.clone();
        Box::pin(async move { within(limit, pool.acquire()).await.is_ok() })
    })
}
