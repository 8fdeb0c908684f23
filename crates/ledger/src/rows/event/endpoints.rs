//! Endpoints: the systems that events are delivered to, and how far each of them is.
//!
//! All times are the database's. [`super::deliveries`] moves them on.

use sqlx::MySqlConnection;
use time::OffsetDateTime;

use crate::sql::Database;
use crate::sql::statement::{Binds, Read, Write};
use shop_domain::EndpointId;
use shop_domain::columns::Text;

const COLUMNS: &str = Endpoint::COLUMNS;

/// An endpoint.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub id: EndpointId,
    /// The address.
    pub target: String,
    /// The secret that signs messages.
    pub secret: String,
    /// Which events it gets, in the words of the service; `None`: all.
    pub filter: Option<String>,
    /// Whether events are delivered.
    pub enabled: bool,
    /// The last position that was delivered or set aside.
    pub delivered: i64,
    /// Failed tries since the last success.
    pub failures: u32,
    /// Those of them in which the receiver refused the next event.
    pub refusals: u32,
    /// The last failure since the last success.
    pub last_error: Option<String>,
    /// The time before which no try is made.
    pub next_try_at: OffsetDateTime,
    /// The time of the last success.
    pub delivered_at: Option<OffsetDateTime>,
    /// The time at which it was created.
    pub created_at: OffsetDateTime,
}

/// An event that was set aside.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    /// Its position in the log.
    pub position: i64,
    /// The receiver's last answer.
    pub reason: String,
    /// The time at which it was set aside.
    pub created_at: OffsetDateTime,
}

/// Inserts an endpoint that begins behind the position `delivered`.
pub async fn insert(
    transaction: &mut MySqlConnection,
    (target, secret): (&str, &str),
    (delivered, filter): (i64, Option<&str>),
) -> sqlx::Result<EndpointId> {
    let id = EndpointId::generate();
    sqlx::query(
        "INSERT INTO event_endpoints \
         (id, target, secret, delivered, filter, next_try_at, claimed_until, created_at) \
         VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
    )
    .binds((id.get(), target, secret, delivered, filter))
    .run(transaction)
    .await?;
    Ok(id)
}

/// Switches an endpoint on or off; a switch ends the pause after a failure. `false` if there is no
/// such endpoint.
pub async fn switch(
    transaction: &mut MySqlConnection,
    id: EndpointId,
    enabled: bool,
) -> sqlx::Result<bool> {
    let switched = sqlx::query(
        "UPDATE event_endpoints SET enabled = ?, failures = 0, refusals = 0, \
         next_try_at = UTC_TIMESTAMP(6) WHERE id = ?",
    )
    .binds((enabled, id.get()))
    .changed(transaction)
    .await?;
    Ok(switched == 1)
}

/// Changes which events an endpoint gets, and ends the claim of the instance that delivers by the old filter. `false` if
/// there is no such endpoint.
pub async fn set_filter(
    transaction: &mut MySqlConnection,
    id: EndpointId,
    filter: Option<&str>,
) -> sqlx::Result<bool> {
    let set = sqlx::query(
        "UPDATE event_endpoints SET filter = ?, failures = 0, refusals = 0, claimed_by = '', \
         next_try_at = UTC_TIMESTAMP(6), claimed_until = UTC_TIMESTAMP(6) WHERE id = ?",
    )
    .binds((filter, id.get()))
    .changed(transaction)
    .await?;
    Ok(set == 1)
}

/// Deletes an endpoint with its dead letters and replays. `false` if there is no such endpoint.
pub async fn delete(transaction: &mut MySqlConnection, id: EndpointId) -> sqlx::Result<bool> {
    let mut deleted = 0;
    for statement in [
        "DELETE FROM event_dead_letters WHERE endpoint_id = ?",
        "DELETE FROM event_replays WHERE endpoint_id = ?",
        "DELETE FROM event_endpoints WHERE id = ?",
    ] {
        let delete = sqlx::query(statement).bind(id.get()).changed(&mut *transaction).await?;
        deleted = delete;
    }
    Ok(deleted == 1)
}

/// Orders that the events from `first` to `last` are delivered again.
pub async fn insert_replay(
    transaction: &mut MySqlConnection,
    id: EndpointId,
    (first, last): (i64, i64),
) -> sqlx::Result<()> {
    sqlx::query(
        "INSERT INTO event_replays (endpoint_id, next_position, last_position, created_at) \
         VALUES (?, ?, ?, UTC_TIMESTAMP(6))",
    )
    .binds((id.get(), first, last))
    .run(transaction)
    .await
}

/// Reads all endpoints, oldest first.
pub async fn list(pool: &Database) -> sqlx::Result<Vec<Endpoint>> {
    let statement = format!("SELECT {COLUMNS} FROM event_endpoints ORDER BY id");
    sqlx::query_as(&statement).all(pool).await
}

/// Reads one endpoint.
pub async fn find(
    connection: &mut MySqlConnection,
    id: EndpointId,
) -> sqlx::Result<Option<Endpoint>> {
    let statement = format!("SELECT {COLUMNS} FROM event_endpoints WHERE id = ?");
    sqlx::query_as(&statement).bind(id.get()).first(connection).await
}

/// Lists at most `limit` dead letters of an endpoint, in the order of the log, behind `after`.
pub async fn dead_letters(
    pool: &Database,
    id: EndpointId,
    after: i64,
    limit: u32,
) -> sqlx::Result<Vec<DeadLetter>> {
    sqlx::query_as(
        "SELECT position, reason, created_at FROM event_dead_letters \
         WHERE endpoint_id = ? AND position > ? ORDER BY position LIMIT ?",
    )
    .binds((id.get(), after, limit))
    .all(pool)
    .await
}

/// Counts the dead letters of an endpoint.
pub async fn count_dead_letters(pool: &Database, id: EndpointId) -> sqlx::Result<i64> {
    sqlx::query_scalar("SELECT COUNT(*) FROM event_dead_letters WHERE endpoint_id = ?")
        .bind(id.get())
        .one(pool)
        .await
}

from_row!(Endpoint {
    id, target, secret as Text, filter, enabled, delivered, failures, refusals, last_error,
    next_try_at, delivered_at, created_at,
});

from_row!(DeadLetter { position, reason, created_at });
