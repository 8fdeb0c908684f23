//! `counter` on `zookeeper`: a number that many change without losing an update.
//!
//! **How it works.** A persistent node holds the number. It is read with its version and written
//! under the condition that the version is still the same; a writer that was too late reads again.
//!
//! **What can go wrong.** Under contention most tries fail, and after 50 of them the change is
//! refused. A write whose answer was lost may or may not have been made: the error says so.
//!
//! **When to use it.** Use it for numbers that change seldom and must never be wrong.

use std::sync::Arc;

use async_trait::async_trait;
use tokio::time::sleep;
use zookeeper_client::{Client, Error};

use super::fence::ANY_LEASE;
use super::{Base, Ensemble, PERSISTENT};
use crate::core::command::{CommandError, bounded};
use crate::store::BackendError;
use crate::{Capabilities, Fencing, LockName, SharedCounter, Waiting};

/// What this kind can and cannot do.
pub static CAPABILITIES: Capabilities = Capabilities {
    kind: "counter",
    backend: "zookeeper",
    summary: "a node with a number, written only at the version that was read",
    breaks_when: "Most of the ensemble loses its data",
    fencing: Fencing::None,
    waiting: Waiting::Polls,
    survives_failover: true,
    ..Capabilities::NUMBER
};

/// How often a change is tried before contention refuses it.
const TRIES_MAX: u32 = 50;

/// The longest pause between two tries, in milliseconds.
const PAUSE_MS_MAX: u64 = 8;

/// Makes the counters. Connects when first used.
#[must_use]
pub fn counter(ensemble: &Arc<Ensemble>) -> Counter {
    Counter { base: Base::new(ensemble, CAPABILITIES.kind) }
}

/// Counters below one prefix.
pub struct Counter {
    base: Base,
}

impl Counter {
    async fn client(&self) -> Result<Client, CommandError> {
        // Nothing was sent yet, so nothing can have changed.
        self.base.ensemble.session(ANY_LEASE).await.map_err(CommandError::Refused)
    }

    /// The number and its version; `None` before it is first changed.
    async fn read(client: &Client, path: &str) -> Result<Option<(i64, i32)>, CommandError> {
        match client.get_data(path).await {
            Ok((data, stat)) => {
                let number = std::str::from_utf8(&data).ok().and_then(|text| text.parse().ok());
                let broken =
                    || CommandError::Refused(BackendError::new("the node is not a number"));
                Ok(Some((number.ok_or_else(broken)?, stat.version)))
            }
            Err(Error::NoNode) => Ok(None),
            Err(error) => Err(CommandError::NoAnswer(BackendError::of(error))),
        }
    }

    /// Writes if nothing was written since; `false` when something was.
    async fn write(
        &self,
        client: &Client,
        path: &str,
        version: Option<i32>,
        number: i64,
    ) -> Result<bool, CommandError> {
        let data = number.to_string();
        let written = match version {
            Some(version) => {
                client.set_data(path, data.as_bytes(), Some(version)).await.map(|_| ())
            }
            None => match client.create(path, data.as_bytes(), &PERSISTENT).await {
                Err(Error::NoNode) => {
                    let made = self.base.make(client).await;
                    made.map_err(CommandError::NoAnswer)?;
                    return Ok(false);
                }
                created => created.map(|_| ()),
            },
        };
        match written {
            Ok(()) => Ok(true),
            Err(Error::BadVersion | Error::NodeExists) => Ok(false),
            Err(error) => Err(CommandError::NoAnswer(BackendError::of(error))),
        }
    }

    /// Writes what `change` makes of the number; `None` leaves it as it is.
    async fn change(
        &self,
        name: &LockName,
        change: impl Fn(i64) -> Result<Option<i64>, CommandError>,
    ) -> Result<Option<i64>, CommandError> {
        let client = self.client().await?;
        let path = self.base.of(name);
        for _ in 0..TRIES_MAX {
            let seen = Self::read(&client, &path).await?;
            let Some(new) = change(seen.map_or(0, |(number, _)| number))? else { return Ok(None) };
            if self.write(&client, &path, seen.map(|(_, version)| version), new).await? {
                return Ok(Some(new));
            }
            let pause_ms = rand::random_range(0..=PAUSE_MS_MAX);
            sleep(std::time::Duration::from_millis(pause_ms)).await;
        }
        Err(CommandError::Refused(BackendError::new("others changed the counter at the same time")))
    }
}

#[async_trait]
impl SharedCounter for Counter {
    async fn add(&self, name: &LockName, delta: i64) -> Result<i64, CommandError> {
        bounded(async move {
            let sum = |number: i64| {
                let overflow = || CommandError::Refused(BackendError::new("the sum does not fit"));
                number.checked_add(delta).map(Some).ok_or_else(overflow)
            };
            let written = self.change(name, sum).await?;
            Ok(written.expect("a sum is always written"))
        })
        .await
    }

    async fn get(&self, name: &LockName) -> Result<i64, CommandError> {
        bounded(async move {
            let client = self.client().await?;
            let path = self.base.of(name);
            // A server that lags behind would answer an old number.
            let syncing = client.sync(&path);
            let reading = Self::read(&client, &path);
            let (synced, read) = tokio::join!(syncing, reading);
            synced.map_err(|error| CommandError::NoAnswer(BackendError::of(error)))?;
            Ok(read?.map_or(0, |(number, _)| number))
        })
        .await
    }

    async fn compare_and_set(
        &self,
        name: &LockName,
        expected: i64,
        new: i64,
    ) -> Result<bool, CommandError> {
        bounded(async move {
            let compared = |number: i64| Ok((number == expected).then_some(new));
            Ok(self.change(name, compared).await?.is_some())
        })
        .await
    }
}
