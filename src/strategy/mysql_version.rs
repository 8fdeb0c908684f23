//! `mysql-version`: compare-and-set on a version column, with bounded retries.
//!
//! # How it works
//! Read `available` and `version`; write with `... AND version = <the one read>`. When somebody
//! was faster no row matches: everything is rolled back, and after a jittered pause it starts
//! again with a new read *in a new transaction* (inside the old one a snapshot could show the old
//! version for ever).
//!
//! # What can go wrong
//! Nothing is oversold: the version only rises, so there is no ABA. But of N buyers that read the
//! same version N - 1 worked for nothing: a crowd makes it slower, and when the retries or the
//! time run out the answer is 503 `contended`. A version that was read long before the write is
//! always old, so only a few buyers try at once and the others wait before they read; without
//! that, a thousand buyers in line for connections sell four units a second. On a replica the
//! version read may be old.
//!
//! # When to use it
//! Where conflicts are rare. Not for a hot item.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::sync::Semaphore;

use super::shared::{ledger_view, redis_gate};
use super::{Card, Entry, Gear, Request, Strategy, outcome};
use crate::arbiter::{Bare, Verdict, Write};
use crate::domain::{Outcome, Unavailable};

/// How often one purchase tries.
const TRIES_MAX: u32 = 200;
/// Purchases of this process that try at once.
const TRYING_MAX: usize = 8;
/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_millis(30);

pub(super) const ENTRY: Entry = Entry {
    card: &Card {
        name: "mysql-version",
        family: "cas",
        store: "mysql",
        safe: true,
        summary: "Compare-and-set on a version column; losers try again in a new transaction.",
        breaks_when: "Never oversells; under a crowd most tries are wasted and retries run out.",
        needs: &[],
        durable_before_reply: true,
        source: "S4",
        takes_options: false,
    },
    build: |gear| {
        Some(Arc::new(MysqlVersion { gear: gear.clone(), trying: Semaphore::new(TRYING_MAX) }))
    },
};

struct MysqlVersion {
    gear: Gear,
    trying: Semaphore,
}

impl Strategy for MysqlVersion {
    fn purchase<'a>(&'a self, request: &'a Request) -> BoxFuture<'a, Outcome> {
        Box::pin(async {
            for _ in 0..TRIES_MAX {
                let turn = tokio::time::timeout_at(request.deadline, self.trying.acquire()).await;
                let Ok(Ok(turn)) = turn else { break };
                let verdict = match self.try_once(request).await {
                    Ok(verdict) => verdict,
                    Err(outcome) => return outcome,
                };
                drop(turn);
                if verdict != Verdict::Stale {
                    return outcome(verdict);
                }
                if let Some(late) = redis_gate::pause(request, PAUSE_MAX).await {
                    return late;
                }
            }
            Outcome::Unavailable(Unavailable::Contended)
        })
    }
}

impl MysqlVersion {
    async fn try_once(&self, request: &Request) -> Result<Verdict, Outcome> {
        let purchase = &request.purchase;
        let seen = ledger_view::look(&self.gear.pool, purchase).await?;
        let available = seen.available - purchase.quantity.signed();
        let bare = Bare::CompareVersion { available, version: seen.version };
        let write = Write { purchase, fence: None, version_seen: Some(seen.version), bare };
        Ok(self.gear.arbiter.write(&write).await)
    }
}
