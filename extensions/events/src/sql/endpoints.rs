//! Endpoints: the systems that events are delivered to, and how far each of them is.
//!
//! All times are the database's. [`super::deliveries`] moves them on.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sqlx::{MySqlConnection, MySqlExecutor};
use time::OffsetDateTime;
use utoipa::ToSchema;

use crate::filter::Filter;
use ledger::rows::actions::{self, Actor};
use ledger::work::failed_change;
use ledger::{Ledger, RetryPolicy};
use mysql_connection::statement::{Binds, Read, Write};
use mysql_connection::{Database, Rollback};
use shop_domain::columns::Text;
use shop_domain::{EndpointId, LedgerError, from_row};

const COLUMNS: &str = Endpoint::COLUMNS;

/// An endpoint.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = EndpointBody)]
pub struct Endpoint {
    pub id: i64,
    /// The address.
    pub target: String,
    /// The secret that signs messages.
    #[serde(skip)]
    pub secret: String,
    /// Which events it gets; `null` if another build has stored a filter that is not understood here.
    pub filter: Option<Filter>,
    /// Whether events are delivered.
    pub enabled: bool,
    /// The last position of the log that was delivered or set aside.
    pub delivered: i64,
    /// The last position of the log.
    #[serde(rename = "last")]
    pub last_position: i64,
    /// Failed tries since the last success.
    pub failures: u32,
    /// Those of them in which the receiver refused the next event.
    #[serde(skip)]
    pub refusals: u32,
    /// The last failure since the last success.
    pub last_error: Option<String>,
    /// The time before which no try is made.
    #[serde(with = "time::serde::rfc3339")]
    pub next_try_at: OffsetDateTime,
    /// The time of the last success.
    #[serde(with = "time::serde::rfc3339::option")]
    pub delivered_at: Option<OffsetDateTime>,
    /// Events that were set aside.
    pub dead_letters: i64,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// A new endpoint.
#[derive(Clone, Debug, Deserialize, ToSchema)]
#[schema(as = CreateEndpointBody)]
#[serde(deny_unknown_fields)]
pub struct NewEndpoint {
    /// The https address.
    pub target: String,
    /// Whether it gets all events that the log still has; if it is left out, only new ones.
    pub from_start: Option<bool>,
    /// Which events it gets; all if it is left out.
    #[serde(default)]
    pub filter: Filter,
}

/// An event that its receiver refused.
#[derive(Clone, Debug, Serialize, ToSchema)]
#[schema(as = DeadLetterBody)]
pub struct DeadLetter {
    /// Its position in the log.
    pub position: i64,
    /// The receiver's last answer.
    pub reason: String,
    #[serde(with = "time::serde::rfc3339")]
    pub created_at: OffsetDateTime,
}

/// A change of an endpoint.
#[derive(Clone, Debug)]
pub enum EndpointChange {
    /// Switches it on or off.
    Switch(bool),
    /// Changes which events it gets from now on.
    Filter(Filter),
    /// Deletes it with its dead letters.
    Delete,
    /// Orders that the events between two positions are delivered again.
    Replay(i64, i64),
}

/// Creates an endpoint that begins behind the position `delivered` and signs with `secret`, and reads it back. The
/// operators' log has a line.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create(
    ledger: &Ledger,
    new: &NewEndpoint,
    secret: &str,
    delivered: i64,
    actor: &Actor,
) -> Result<Endpoint, LedgerError> {
    let target = new.target.as_str();
    let filter = new.filter.stored();
    let filter = filter.as_deref();
    let created = ledger.create(|transaction| {
        Box::pin(async move {
            let id = EndpointId::generate();
            sqlx::query(
                "INSERT INTO event_endpoints \
                 (id, target, secret, delivered, filter, next_try_at, claimed_until, created_at) \
                 VALUES (?, ?, ?, ?, ?, UTC_TIMESTAMP(6), UTC_TIMESTAMP(6), UTC_TIMESTAMP(6))",
            )
            .binds((id.get(), target, secret, delivered, filter))
            .run(&mut **transaction)
            .await?;
            let detail = json!({ "endpoint": id.get(), "target": target, "filter": filter });
            actions::record(transaction, actor, "endpoint_created", None, &detail).await?;
            find(&mut **transaction, id).await?.ok_or(sqlx::Error::RowNotFound)
        })
    });
    created.await
}

/// Changes an endpoint, with a line in the operators' log; `false` when there is no such endpoint.
///
/// # Errors
/// When it was not changed, or may have been.
pub async fn change(
    ledger: &Ledger,
    id: EndpointId,
    change: &EndpointChange,
    actor: &Actor,
) -> Result<bool, LedgerError> {
    let changed = ledger.transact(RetryPolicy::ONCE, |transaction| {
        Box::pin(async move {
            if !change.apply(transaction, id).await? {
                return Err(Rollback::Refused(()));
            }
            let (action, detail) = change.line(id);
            Ok(actions::record(transaction, actor, action, None, &detail).await?)
        })
    });
    match changed.await {
        Ok(()) => Ok(true),
        Err(Rollback::Refused(())) => Ok(false),
        Err(Rollback::Failed(error)) => Err(failed_change(&error)),
    }
}

impl EndpointChange {
    /// Changes the rows; `false` if there is no such endpoint.
    async fn apply(&self, transaction: &mut MySqlConnection, id: EndpointId) -> sqlx::Result<bool> {
        let changed = match self {
            // A switch ends the pause after a failure.
            Self::Switch(enabled) => sqlx::query(
                "UPDATE event_endpoints SET enabled = ?, failures = 0, refusals = 0, \
                 next_try_at = UTC_TIMESTAMP(6) WHERE id = ?",
            )
            .binds((*enabled, id.get())),
            // Ends the claim of the instance that delivers by the old filter.
            Self::Filter(filter) => sqlx::query(
                "UPDATE event_endpoints SET filter = ?, failures = 0, refusals = 0, claimed_by = '', \
                 next_try_at = UTC_TIMESTAMP(6), claimed_until = UTC_TIMESTAMP(6) WHERE id = ?",
            )
            .binds((filter.stored(), id.get())),
            Self::Delete => {
                for statement in [
                    "DELETE FROM event_dead_letters WHERE endpoint_id = ?",
                    "DELETE FROM event_replays WHERE endpoint_id = ?",
                ] {
                    sqlx::query(statement).bind(id.get()).run(&mut *transaction).await?;
                }
                sqlx::query("DELETE FROM event_endpoints WHERE id = ?").bind(id.get())
            }
            Self::Replay(first, last) => {
                if find(&mut *transaction, id).await?.is_none() {
                    return Ok(false);
                }
                sqlx::query(
                    "INSERT INTO event_replays (endpoint_id, next_position, last_position, \
                     created_at) VALUES (?, ?, ?, UTC_TIMESTAMP(6))",
                )
                .binds((id.get(), *first, *last))
            }
        };
        Ok(changed.changed(transaction).await? == 1)
    }

    /// The line in the operators' log.
    fn line(&self, id: EndpointId) -> (&'static str, Value) {
        let id = id.get();
        match self {
            Self::Switch(enabled) => {
                ("endpoint_switched", json!({ "endpoint": id, "enabled": enabled }))
            }
            Self::Filter(filter) => {
                ("endpoint_filtered", json!({ "endpoint": id, "filter": filter.stored() }))
            }
            Self::Delete => ("endpoint_deleted", json!({ "endpoint": id })),
            Self::Replay(first, last) => {
                ("events_replayed", json!({ "endpoint": id, "first": first, "last": last }))
            }
        }
    }
}

/// Reads all endpoints, oldest first.
pub async fn list(pool: &Database) -> sqlx::Result<Vec<Endpoint>> {
    let statement = format!("SELECT {COLUMNS} FROM event_endpoints ORDER BY id");
    sqlx::query_as(&statement).all(pool).await
}

/// Reads one endpoint.
pub(super) async fn find(
    executor: impl MySqlExecutor<'_>,
    id: EndpointId,
) -> sqlx::Result<Option<Endpoint>> {
    let statement = format!("SELECT {COLUMNS} FROM event_endpoints WHERE id = ?");
    sqlx::query_as(&statement).bind(id.get()).first(executor).await
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

from_row!(Endpoint {
    id, target, secret as Text, enabled, delivered, failures, refusals, last_error, next_try_at,
    delivered_at, created_at, filter as Option<String> => |stored| Filter::read(stored.as_deref()),
    last_position = "(SELECT last_position FROM event_relay WHERE event_relay.id = 1)",
    dead_letters = "(SELECT COUNT(*) FROM event_dead_letters WHERE endpoint_id = event_endpoints.id)",
});

from_row!(DeadLetter { position, reason, created_at });
