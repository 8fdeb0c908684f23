//! Changes of the endpoints that get events, each with its line in the operators' log.

use serde_json::{Value, json};
use sqlx::MySqlConnection;

use crate::rows::account::actions::{self, Actor};
use crate::rows::event::endpoints::{self, Endpoint};
use crate::sql::Rollback;
use crate::work::{Ledger, RetryPolicy, failed_change};
use shop_domain::{EndpointId, LedgerError};

/// A change of an endpoint.
#[derive(Clone, Debug)]
pub enum EndpointChange {
    /// Switches it on or off.
    Switch(bool),
    /// Changes which events it gets; `None`: all.
    Filter(Option<String>),
    /// Deletes it with its dead letters.
    Delete,
    /// Orders that the events between two positions are delivered again.
    Replay(i64, i64),
}

/// Creates an endpoint that begins behind the position `delivered`, and reads it back.
///
/// # Errors
/// When it was not created, or may have been.
pub async fn create(
    ledger: &Ledger,
    (target, secret): (&str, &str),
    (delivered, filter): (i64, Option<&str>),
    actor: &Actor,
) -> Result<Endpoint, LedgerError> {
    let created = ledger.create(|transaction| {
        Box::pin(async move {
            let id = endpoints::insert(transaction, (target, secret), (delivered, filter)).await?;
            let detail = json!({ "endpoint": id.get(), "target": target, "filter": filter });
            actions::record(transaction, actor, "endpoint_created", None, &detail).await?;
            endpoints::find(transaction, id).await?.ok_or(sqlx::Error::RowNotFound)
        })
    });
    created.await
}

/// Changes an endpoint; `false` when there is no such endpoint.
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
    async fn apply(&self, transaction: &mut MySqlConnection, id: EndpointId) -> sqlx::Result<bool> {
        match self {
            Self::Switch(enabled) => endpoints::switch(transaction, id, *enabled).await,
            Self::Filter(filter) => endpoints::set_filter(transaction, id, filter.as_deref()).await,
            Self::Delete => endpoints::delete(transaction, id).await,
            Self::Replay(first, last) => {
                if endpoints::find(transaction, id).await?.is_none() {
                    return Ok(false);
                }
                endpoints::insert_replay(transaction, id, (*first, *last)).await?;
                Ok(true)
            }
        }
    }

    /// The line in the operators' log.
    fn line(&self, id: EndpointId) -> (&'static str, Value) {
        let id = id.get();
        match self {
            Self::Switch(enabled) => {
                ("endpoint_switched", json!({ "endpoint": id, "enabled": enabled }))
            }
            Self::Filter(filter) => {
                ("endpoint_filtered", json!({ "endpoint": id, "filter": filter }))
            }
            Self::Delete => ("endpoint_deleted", json!({ "endpoint": id })),
            Self::Replay(first, last) => {
                ("events_replayed", json!({ "endpoint": id, "first": first, "last": last }))
            }
        }
    }
}
